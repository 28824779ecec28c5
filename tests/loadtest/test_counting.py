"""What counts as a wait: those that have not ended too, and the start of a reader not."""

import multiprocessing
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from loadtest import mesh
from loadtest import run as running
from loadtest.mesh import Watch
from loadtest.plan import Load, Phase
from loadtest.reading import Input, Seen
from loadtest.report import Cost, HalfSecond, PhaseResult, Result, tables
from loadtest.run import Readers, Run
from penstock.errors import UnknownDataset

PHASE = Phase("steady", 0.6, 1)
NOBODY = Input("127.0.0.1:1", "distributed_epoch", None, 4, 0.0, 1.0)


def run_with(*reports):
    """A phase with one reader, which reports this and then nothing."""
    run = Run(NOBODY, Load((PHASE,)), lambda *_seen: None)
    near, far = multiprocessing.Pipe(duplex=False)
    run._processes.append(Readers(None, near))
    for report in reports:
        far.send(report)
    run._phase(PHASE)
    (shown,) = run.result.phases
    return shown, run.result


@pytest.mark.slow
def test_a_wait_that_has_not_ended_counts_as_long_as_it_is():
    shown, result = run_with(Seen(ready=True, asked=(time.monotonic() - 10,)))

    assert 10 < shown.waits.longest < 20
    assert len(shown.waits) == 1
    assert result.moments[-1].p99 > 10


@pytest.mark.slow
def test_the_start_of_a_reader_is_no_load():
    shown, result = run_with(Seen(elements=5, ready=False), Seen(ready=True))

    assert shown.elements == 0
    assert 0.5 < shown.seconds
    assert [moment.elements for moment in result.moments][0] == 5


def test_where_nothing_came_no_figure_is_no_number():
    result = Result([PhaseResult("steady", 1)])
    console = Console(width=100)

    with console.capture() as printed:
        for table in tables(result):
            console.print(table)

    assert "nan" not in printed.get()
    assert b"NaN" not in result.as_json()
    assert result.phases[0].figures()["wait_p99_ms"] is None


def test_what_grows_is_told_by_the_second_quarter_and_the_last():
    memory = [9, 1, 2, 3, 4, 5, 6, 7]
    moments = [
        HalfSecond(float(at), "soak", 1, 1, 1, 0.0, 0.0, {"w:1": Cost(1.0, held)})
        for at, held in enumerate(memory)
    ]

    assert Result(moments=moments).grown() == {"w:1": 7 - 3}
    assert Result(moments=moments[:3]).grown() == {}


def test_readers_beyond_the_processes_are_threads_of_them_and_take_turns_with_jobs(monkeypatch):
    monkeypatch.setattr(running, "PROCESSES", 3)
    started = []
    monkeypatch.setattr(
        running.multiprocessing,
        "get_context",
        lambda _how: SimpleNamespace(
            Pipe=lambda duplex: multiprocessing.Pipe(duplex),
            Process=lambda target, args, daemon: SimpleNamespace(
                start=lambda: started.append([what.job_name for what in args[0]]),
                terminate=lambda: None, join=lambda _seconds: None, kill=lambda: None,
            ),
        ),
    )  # fmt: skip
    run = Run(replace(NOBODY, job_name="j"), Load((Phase("p", 1.0, 7),), jobs=2), lambda *_: None)

    while run.readers < 7:
        run._start(min(7 - run.readers, run._each), 0.0)

    assert started == [["j-0", "j-1", "j-0"], ["j-1", "j-0", "j-1"], ["j-0"]]
    run._stop(4)
    assert run.readers == 3


def test_a_process_that_was_started_again_has_used_what_both_lives_did():
    cpu = [4.0, 6.0, 1.0, 3.0]
    moments = [
        HalfSecond(float(at), "steady", 1, 1, 1, 0.0, 0.0, {"w:1": Cost(used, 1)})
        for at, used in enumerate(cpu)
    ]

    assert Result(moments=moments).used() == {"w:1": (4.0 / 3, 1)}


def test_a_reader_that_dies_without_a_word_is_an_error_of_the_load():
    run = Run(NOBODY, Load((PHASE,)), lambda *_seen: None)
    near, far = multiprocessing.Pipe(duplex=False)
    far.close()
    run._processes.append(Readers(SimpleNamespace(join=lambda _seconds: None, exitcode=-9), near))

    run._phase(PHASE)

    assert run.result.errors == ["a reader ended with exit code -9, and did not say why"]


def test_a_look_at_the_mesh_that_fails_is_shown_and_the_next_one_may_do_better(monkeypatch):
    answers = [b"no json", ValueError("no sense"), b'{"workers": [], "usage": null}']
    shown, watch = [], Watch("127.0.0.1:1")

    async def status(_client):
        shown.append(watch.trouble)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def find_dataset(_client, _name):
        raise UnknownDataset("none")

    monkeypatch.setattr(mesh, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(mesh, "ASK_EVERY", 0.01)
    monkeypatch.setattr(mesh.DispatcherClient, "find_dataset", find_dataset)
    monkeypatch.setattr(mesh.DispatcherClient, "status", status)
    deadline = time.monotonic() + 20
    with watch.going():
        while len(shown) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)

    assert shown[1].startswith("JSONDecodeError")
    assert shown[2:4] == ["ValueError: no sense", ""]


def test_a_watch_that_ends_is_shown(monkeypatch):
    def broken(_target):
        raise RuntimeError("no loop")

    monkeypatch.setattr(mesh, "service_of", broken)
    watch = Watch("127.0.0.1:1")
    with watch.going():
        pass

    assert watch.trouble == "the cluster is not watched any more: RuntimeError: no loop"
