"""A job's saved state: what it holds, what comes back of it, and what is no state."""

import json
from dataclasses import replace

import pytest

from penstock import files
from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import (
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    SaveBarrier,
    TaskReport,
    WorkerHeartbeat,
)
from penstock.protocol.definition import UNLISTED, SplitProviderSpec
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.splits import FilePattern, Split, SplitLog
from penstock.protocol.types import Checkpoint, Codec, Failure, Mode
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core import split_provider
from penstock_dispatcher.core.events import (
    AppendFact,
    ListSourceFiles,
    OpenIteration,
    ReplyToCall,
    SendView,
)
from penstock_dispatcher.core.listings import outline
from tests.dispatcher.core.driver import VERSIONS, DrivenCore
from tests.openings import opening

RANGE = (SplitProviderSpec((".0",), 100, None, 2),)
FILES = (SplitProviderSpec((".0",), UNLISTED, FilePattern(("*",), shuffle=True, seed=3)),)
NAMES = tuple(f"file-{i}" for i in range(7))


class Life(DrivenCore):
    """A core with one dataset and some workers."""

    def __init__(self, streams=RANGE, workers=2, birth=1):
        super().__init__(*streams, history=birth)
        for i in range(workers):
            self.comes(f"w{i}")

    def open(self, mode=Mode.DYNAMIC, restore=b"", job="j", replaces=()):
        more = {"restore": restore, "replaces": replaces}
        request = opening(VERSIONS, "d", mode, job, 1, Codec.NONE, **more)
        signal = OpenIteration(1, request, 5)
        effects = self.tell(signal)
        if isinstance(effects[0], ListSourceFiles):
            names, listings = {0: NAMES}, {0: outline(NAMES)}
            effects = self.tell(replace(signal, names=names, listings=listings))
        (answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]
        return answer

    def read(self, iteration):
        self.tell(ReaderHeartbeat(iteration, "r", None, 1))
        return self.core.state.iterations[iteration]

    def make(self, task, made, taken, state=None, **more):
        worker = self.core.state.task(task).worker
        attempt = self.core.state.task(task).attempt
        progress = AttemptProgress(
            attempt, made, taken, state, counts=ElementCounts(made, sent=made), **more
        )
        self.tell(WorkerHeartbeat(worker, 1, self.core.state.revision, {task: progress}))

    def save(self, iteration, reports=None, consumed=0):
        beat = ReaderHeartbeat(
            iteration, "r", None, 9, reports or {}, SaveBarrier(0, "", 9.0), consumed=consumed
        )
        effects = self.tell(beat)
        facts = [e.fact for e in effects if isinstance(e, AppendFact)]
        (judged,) = [fact for fact in facts if isinstance(fact, f.SaveCompleted)]
        return judged.result.state


def saved(streams=RANGE, mode=Mode.DYNAMIC):
    """Save a job in the middle of its pass."""
    life = Life(streams)
    opened = life.open(mode)
    iteration = life.read(opened.iteration)
    first, second = iteration.tasks
    life.make(
        first, 5, AckedSet(3), Checkpoint(2, (1,) if iteration.providers else (), '{"a":[1]}')
    )
    life.make(second, 1, AckedSet(0))
    word = {first: TaskReport(1, AckedSet(4, RangeSet.of((6, 8))), RangeSet.of((8, 9)))}
    return life.save(opened.iteration, word, consumed=6), life


def restored(state, streams=RANGE, mode=Mode.DYNAMIC):
    life = Life(streams, birth=77)
    opened = life.open(mode, state)
    assert isinstance(opened, OpenIterationReply), opened
    return life.core.state.iterations[opened.iteration], life


@pytest.mark.parametrize("streams", [RANGE, FILES])
def test_a_restored_pass_goes_on_where_it_was_saved_on_a_dispatcher_that_never_saw_it(streams):
    state, before = saved(streams)
    (was,) = before.core.state.iterations.values()

    iteration, life = restored(state, streams)

    first, second = iteration.tasks.values()
    assert first.checkpoint == Checkpoint(2, (1,), '{"a":[1]}')
    assert first.acked == AckedSet(4, RangeSet.of((6, 8)))
    assert first.logs == (SplitLog(1, ()),)
    assert second.logs == list(was.tasks.values())[1].logs
    assert iteration.providers == was.providers
    assert iteration.seed == was.seed
    assert life.core.state.jobs["j"].seed == before.core.state.jobs["j"].seed
    assert not first.unacked
    assert [task.index for task in iteration.tasks.values()] == [0, 1]


def test_a_restored_copy_has_no_logs():
    state, _ = saved(mode=Mode.OFF)

    iteration, _ = restored(state, mode=Mode.OFF)

    assert [task.logs for task in iteration.tasks.values()] == [(), ()]
    assert [task.checkpoint.number for task in iteration.tasks.values()] == [2, 0]


def test_the_state_is_plain_json_that_others_may_rewrite():
    state, _ = saved(FILES)
    rewritten = json.dumps(json.loads(state), indent=2, sort_keys=True).encode()
    life = Life(FILES)

    one = life.open(restore=state)
    other = life.open(restore=rewritten)

    assert one == other, "it is the same state, so the second one joins"


def test_a_second_restore_in_place_of_the_only_reader_begins_again():
    state, _ = saved()
    life = Life()
    one = life.open(restore=state)
    life.tell(ReaderHeartbeat(one.iteration, "r", None, 1))

    assert life.open(restore=state) == one, "somebody reads on"
    assert life.open(restore=state, replaces=("r",)).iteration != one.iteration


def test_a_state_that_json_cannot_say_comes_back_too():
    life = Life(workers=1)
    opened = life.open()
    (task,) = life.read(opened.iteration).tasks
    life.make(task, 3, AckedSet(3), Checkpoint(3, (1,), '{"lowest":NaN}'))
    state = life.save(opened.iteration)

    iteration, _ = restored(json.dumps(json.loads(state)).encode())

    (again,) = iteration.tasks.values()
    assert again.checkpoint.state == '{"lowest":NaN}'


def test_a_restored_state_saved_at_once_is_the_same_state():
    state, _ = saved()
    life = Life(birth=77)
    opened = life.open(restore=state)

    again = life.save(opened.iteration)

    assert _unnamed(again) == _unnamed(state)


def _unnamed(state):
    """Leave out by which numbers readers know the tasks: these are new in each iteration."""
    plain = json.loads(state)
    for task in plain["tasks"]:
        del task["name"]
    return plain


def test_a_pass_that_ends_as_its_save_is_due_is_over_in_the_state():
    life = Life()
    opened = life.open(Mode.OFF)
    first, second = life.read(opened.iteration).tasks
    life.tell(ReaderHeartbeat(opened.iteration, "silent", None, 1))
    life.make(first, 100, AckedSet(100), done=True)
    at_cut = ReaderHeartbeat(
        opened.iteration, "r", None, 9, barrier=SaveBarrier(0, "", 9.0, without_missing=True)
    )
    life.tell(at_cut)

    life.now += 3
    life.make(second, 100, AckedSet(100), done=True)
    views = [effect.view for effect in life.tell(at_cut) if isinstance(effect, SendView)]

    save_results = [result for view in views for result in view.save_results]
    assert [json.loads(result.state)["finished"] for result in save_results] == [True]


def test_the_account_goes_on_with_what_was_before_the_save():
    state, _ = saved()

    iteration, life = restored(state)
    life.read(next(iter(life.core.state.iterations)))
    first = next(iter(iteration.tasks))
    life.make(first, 12, AckedSet(12))
    (stats,) = life.core.stats(life.now).iterations

    assert stats.restored
    assert (stats.account.produced, stats.account.acked, stats.account.consumed) == (6 + 12, 12, 6)


def test_the_state_of_ten_tasks_is_as_small_after_a_million_elements_as_after_ten_thousand():
    sizes = []
    for made in (10_000, 1_000_000):
        life = Life((SplitProviderSpec((".0",), 10 * made),), workers=10)
        opened = life.open()
        for task in life.read(opened.iteration).tasks:
            at = Checkpoint(made // 10, (1,), "{}")
            life.make(task, made // 10 + 9, AckedSet(made // 10, RangeSet.of((made, made + 3))), at)
        sizes.append(len(life.save(opened.iteration)))

    assert sizes[1] <= sizes[0] + 10 * 10
    assert sizes[1] < 3000


MALFORMED = {
    "no JSON": (lambda s: b"{", "no JSON"),
    "no object": (lambda s: b"[]", "kind"),
    "something else": (lambda s: s | {"kind": "dataset"}, "kind"),
    "a newer version": (lambda s: s | {"v": 4}, "version 4"),
    "an older version": (lambda s: s | {"v": 2}, "version 2"),
    "a field too many": (lambda s: s | {"more": 1}, "unknown field `more`"),
    "a field missing": (lambda s: {k: v for k, v in s.items() if k != "seed"}, "`seed`"),
    "a wrong type": (lambda s: s | {"repetition": "1"}, "$.repetition"),
    "an unknown mode": (lambda s: s | {"mode": "both"}, "$.mode"),
    "a seed that is none": (lambda s: s | {"seed": -1}, "$.seed"),
    "a stream too few": (lambda s: s | {"providers": []}, "$.providers"),
    "a unit past the end": (lambda s: s | {"providers": [{"offset": 100}]}, "$.providers[0]"),
    "a pass past the last": (lambda s: s | {"providers": [{"pass_number": 3}]}, "$.providers[0]"),
    "a unit of the pass past the last": (
        lambda s: s | {"providers": [{"pass_number": 2, "offset": 1}]},
        "$.providers[0]",
    ),
    "files of a range": (
        lambda s: s | {"providers": [{"files": {"count": 1}}]},
        "$.providers[0].files",
    ),
    "an index twice": (lambda s: s | {"tasks": [s["tasks"][0]] * 2}, "$.tasks"),
    "an index past the next": (lambda s: s | {"next_task": 1}, "$.tasks"),
    "tasks of a pass that is over": (
        lambda s: s | {"finished": True, "providers": []},
        "$.finished",
    ),
    "no log": (lambda s: _task(s, logs=[]), "$.tasks[0].logs"),
    "a split of one number": (
        lambda s: _task(s, logs=[{"start": 1, "splits": [[3]]}]),
        "$.tasks[0].logs[0]",
    ),
    "a split backwards": (
        lambda s: _task(s, logs=[{"start": 1, "splits": [[3, 2]]}]),
        "$.tasks[0].logs[0]",
    ),
    "a split past the units": (
        lambda s: _task(s, logs=[{"start": 1, "splits": [[3, 200]]}]),
        "$.tasks[0].logs[0]",
    ),
    "a checkpoint ahead of what is acked": (
        lambda s: _task(s, acked={"floor": 1}),
        "$.tasks[0].acked",
    ),
    "a run of nothing": (
        lambda s: _task(s, acked={"floor": 3, "more": [[6, 6]]}),
        "$.tasks[0].acked.more",
    ),
    "a position before the log": (
        lambda s: _task(s, logs=[{"start": 2}]),
        "$.tasks[0].checkpoint.positions[0]",
    ),
    "a number below zero": (lambda s: _task(s, acked={"floor": -1}), "$.tasks[0].acked.floor"),
}


def _task(state, **changed):
    first, *others = state["tasks"]
    return state | {"tasks": [first | changed, *others]}


@pytest.mark.parametrize("why", MALFORMED)
def test_a_malformed_state_is_refused_and_the_place_is_named(why):
    state, _ = saved()
    change, place = MALFORMED[why]
    broken = change(json.loads(state))
    life = Life()
    facts = life.core.state.length

    answer = life.open(restore=broken if isinstance(broken, bytes) else json.dumps(broken).encode())

    assert isinstance(answer, Failure)
    assert answer.kind == "StateError"
    assert place in str(answer.error())
    assert life.core.state.length == facts


@pytest.mark.parametrize("files", [100, 100_000])
def test_a_state_has_numbers_of_files_and_not_their_names(files, monkeypatch):
    folder = "/mnt/bucket/dataset/train/samples"
    names = tuple(f"{folder}/part-{i // 1000:05}/shard-{i:07}.tar" for i in range(files))
    monkeypatch.setattr(f"{__name__}.NAMES", names)
    life = Life(FILES, workers=10)
    opened = life.open()
    for task in life.read(opened.iteration).tasks:
        life.make(task, 900, AckedSet(800, RangeSet.of((810, 820))), Checkpoint(700, (0,), "{}"))
    state = life.save(opened.iteration)

    iteration, _ = restored(state, FILES)

    assert len(state) < 8000
    (was,) = life.core.state.iterations.values()
    assert [t.logs for t in iteration.tasks.values()] == [t.logs for t in was.tasks.values()]
    assert iteration.providers == was.providers


def test_a_state_over_files_that_have_changed_is_refused_and_the_place_is_shown(monkeypatch):
    state, _ = saved(FILES)
    monkeypatch.setattr(f"{__name__}.NAMES", (*NAMES[:-1], "file-7", "file-8"))

    answer = Life(FILES).open(restore=state)

    assert answer.kind == "StateError"
    assert "7 files then, 8 now" in str(answer.error())
    assert "'file-8'" in str(answer.error())


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_orders_that_a_state_needs_are_computed_off_the_loop(monkeypatch, goes_on):
    stream = replace(FILES[0], files=FilePattern(("*",), shuffle=True, seed=None), passes=3)
    streams = (replace(stream, repeats=(("", 3),)),)
    state, was = saved(streams)
    monkeypatch.setattr(split_provider, "MANY", 3)
    life = Life(streams, birth=77)
    if goes_on:
        life.open(job="another")  # over the same files, in another order
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "j", 1, Codec.NONE, restore=state)

    (wanted,) = [
        e for e in life.tell(OpenIteration(1, request, 5)) if isinstance(e, ListSourceFiles)
    ]
    assert wanted.names == ({0: NAMES} if goes_on else {})
    orders = {0: {seed: files.order(NAMES, seed) for seed in wanted.seeds[0]}}
    found = {"names": {0: NAMES}, "listings": {0: outline(NAMES)}, "orders": orders}
    monkeypatch.setattr(split_provider, "order", None)
    life.tell(replace(wanted.event, **found))

    (before,), *_, after = was.core.state.iterations.values(), *life.core.state.iterations.values()
    logs = [[task.logs for task in one.tasks.values()] for one in (before, after)]
    assert logs[0] == logs[1]
    assert after.providers == before.providers


def test_a_pass_that_goes_on_here_is_restored_whatever_files_there_are_now(monkeypatch):
    state, life = saved(FILES)
    monkeypatch.setattr(f"{__name__}.NAMES", ())

    opened = life.open(restore=state)

    assert len(life.core.state.iterations[opened.iteration].providers[0].known.names) == 7


def test_a_job_that_exists_with_other_parameters_is_not_restored():
    state, life = saved()
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "j", 1, Codec.LZ4, restore=state)

    (answer,) = [e.answer for e in life.tell(OpenIteration(1, request, 5))]

    assert answer.kind == "JobMismatch"


def test_a_restore_goes_back_to_the_saved_repetition_and_forgets_those_behind_it():
    state, life = saved()
    request = opening(VERSIONS, "d", Mode.DYNAMIC, "j", 2, Codec.NONE)
    life.tell(OpenIteration(1, request, 5))

    opened = life.open(restore=state)

    assert list(life.core.state.iterations) == [opened.iteration]
    assert life.core.state.jobs["j"].open == {1: opened.iteration}


def test_repetitions_that_were_finished_after_the_save_are_read_again():
    state, life = saved(mode=Mode.OFF)
    (name,) = life.core.state.iterations
    for task in life.core.state.iterations[name].tasks:
        life.make(task, 100, AckedSet(100), done=True)
    assert life.core.state.jobs["j"].finished == RangeSet.of((1, 2))

    life.open(Mode.OFF, restore=state)

    assert not life.core.state.jobs["j"].finished


def test_splits_drawn_after_a_restore_are_those_behind_the_cursor():
    state, _ = saved()
    offset = json.loads(state)["providers"][0]["offset"]

    _, life = restored(state)
    life.tell(WorkerHeartbeat("w9", 1, -1, versions=VERSIONS))
    effects = life.tell(ReaderHeartbeat(next(iter(life.core.state.iterations)), "r", None, 1))

    (granted,) = [e.fact for e in effects if isinstance(getattr(e, "fact", 0), f.SplitsGranted)]
    assert granted.splits[0].start == offset
    assert granted.splits[0] != Split(0, 1)
