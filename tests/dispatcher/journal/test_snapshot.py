"""A snapshot writes what changed."""

from penstock.protocol.calls import Registration
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import Codec, Mode
from penstock_dispatcher.core.events import (
    AppendFact,
    OpenIteration,
    RegisterDataset,
    StartHistory,
    Tick,
)
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.journal.snapshot import Changes, encode_key
from penstock_dispatcher.journal.store import Store
from tests.dispatcher.journal.random_facts import SETTINGS, VERSIONS, loaded
from tests.openings import opening


def test_a_snapshot_writes_only_the_lines_that_were_named(file):
    store = Store(file, power=False)
    state = store.load().state
    core = DispatcherCore(state, SETTINGS, 0.0)
    changes = Changes(state)
    core.handle(StartHistory(1000), 0.0)
    core.handle(
        RegisterDataset(1, VERSIONS, "d", (SplitProviderSpec(("s",), 10, None, 1, 1),), ""), 0.0
    )

    def opened(job):
        request = opening(VERSIONS, "d", Mode.DYNAMIC, job, 1, Codec.NONE)
        for effect in core.handle(OpenIteration(2, request, 7), 0.0):
            if isinstance(effect, AppendFact):
                changes.note(effect.fact)

    for job in range(200):
        opened(f"job{job}")
    first = changes.snapshot()
    opened("one more")
    second = changes.snapshot()
    store.close()

    assert len([line for line in first.lines if line.table == "jobs"]) == 200
    assert [line.key for line in second.lines] == [encode_key("one more")]


def test_ids_that_are_forgotten_leave_the_file_and_others_stay(file):
    store = Store(file, power=False)
    state = store.load().state
    core, changes = DispatcherCore(state, SETTINGS, 0.0), Changes(state)

    def hear(event, now=0.0):
        for effect in core.handle(event, now):
            if isinstance(effect, AppendFact):
                changes.note(effect.fact)

    def register(dataset, dataset_id, spec=b""):
        asked = Registration(dataset_id, Codec.LZ4, spec)
        hear(RegisterDataset(1, VERSIONS, dataset, (), "", registration=asked))

    hear(StartHistory(1000))
    register("d", "")
    register("e", "")
    register("e", "kept")
    store.compact(changes.snapshot())
    register("e", "kept", b"spec")
    for second in range(3700):
        hear(Tick(), float(second))
    snapshot = changes.snapshot()
    store.compact(snapshot)
    store.close()

    assert [line.key for line in snapshot.lines] == list(map(encode_key, ("e", "kept")))
    assert list(state.datasets) == ["e"]
    assert list(state.registrations) == ["e", "kept"]
    assert loaded(file) == state


def test_jobs_that_are_dropped_for_there_are_too_many_leave_the_file(file, monkeypatch):
    monkeypatch.setattr("penstock_dispatcher.core.state.JOBS_KEPT", 3)
    store = Store(file, power=False)
    state = store.load().state
    core, changes = DispatcherCore(state, SETTINGS, 0.0), Changes(state)

    def hear(signal, now):
        for effect in core.handle(signal, now):
            if isinstance(effect, AppendFact):
                changes.note(effect.fact)

    hear(StartHistory(1000), 0.0)
    hear(RegisterDataset(1, VERSIONS, "d", (SplitProviderSpec(("s",), 10, None, 1, 1),), ""), 0.0)
    now = 0.0
    for job in range(8):
        hear(
            OpenIteration(2, opening(VERSIONS, "d", Mode.OFF, f"j{job}", 1, Codec.NONE), 7),
            now,
        )
        while state.iterations:
            now += 1
            hear(Tick(), now)
        store.compact(changes.snapshot())
    store.close()

    assert list(state.jobs) == ["j5", "j6", "j7"]
    assert list(loaded(file).jobs) == ["j5", "j6", "j7"]
