"""A runner that goes on where another one died, and one that pauses: as a thread here."""

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import StateError
from penstock.protocol.splits import Split, SplitLog
from penstock_worker.runner import checkpointer, engine_loop
from penstock_worker.runner.connection import GrowingSplitLog
from penstock_worker.runner.messages import (
    ArenaFull,
    CheckpointTaken,
    ElementsSkipped,
    FrameReady,
    FreeFrames,
    PauseRun,
    RunEnded,
    RunFailed,
    RunPaused,
    StopRun,
    TimesMeasured,
)

SPLITS = [*(Split(n, n + 100) for n in range(0, 1000, 100)), Split(0, 0)]


@pytest.fixture
def stately(monkeypatch):
    """Report a state after every block."""
    monkeypatch.setattr(checkpointer, "EVERY", 0.0)
    monkeypatch.setattr(checkpointer, "SHARE", 0)


def rests(heard):
    return bool(heard.of(RunPaused))


def test_what_is_known_is_replayed_and_not_sent(thread_runner):
    heard = thread_runner().read(Dataset.range(10_000).map(lambda x: x * 3), known=7_001)

    assert heard.made[0].first == 7_001
    assert [int(x) for x in heard.elements] == list(range(21_003, 30_000, 3))
    assert heard.of(RunEnded) == [RunEnded(1, 10_000)]


def test_where_less_is_produced_than_is_known_the_end_is_reported(thread_runner):
    heard = thread_runner().read(Dataset.range(10), known=50)

    assert heard.made == []
    assert heard.of(RunEnded) == [RunEnded(1, 10)]


def odd(x):
    if x % 10 == 7:
        raise ValueError(f"not {x}")
    return x


def test_what_was_left_out_on_purpose_is_reported(thread_runner):
    heard = thread_runner().read(Dataset.range(1000).map(odd).ignore_errors())

    assert len(heard.elements) == 900
    assert sum(skipped.count for skipped in heard.of(ElementsSkipped)) == 100


def test_what_was_left_out_before_an_error_is_reported(thread_runner):
    heard = thread_runner().read(Dataset.range(1000).map(odd).ignore_errors(max_errors=3))

    assert sum(skipped.count for skipped in heard.of(ElementsSkipped)) == 3
    assert isinstance(heard.reports[-1], RunFailed)


def test_what_inner_datasets_left_out_is_reported(thread_runner):
    inner = Dataset.range(10).map(odd).ignore_errors()
    heard = thread_runner().read(Dataset.range(5).flat_map(lambda _: inner))

    assert sum(skipped.count for skipped in heard.of(ElementsSkipped)) == 5


@pytest.mark.parametrize(("died_here", "told"), [(True, 50), (False, 100)])
def test_what_was_left_out_is_reported_again_only_where_it_may_not_have_been(
    thread_runner, died_here, told
):
    made = Dataset.range(1000).map(odd).ignore_errors()
    heard = thread_runner().read(made, known=450, careful=died_here)

    assert len(heard.elements) == 450
    assert sum(skipped.count for skipped in heard.of(ElementsSkipped)) == told


def test_a_careful_runner_sends_each_element_by_itself_for_a_while(thread_runner, monkeypatch):
    runner = thread_runner()
    careful = runner.read(Dataset.range(300), known=100, careful=True)
    assert [made.count for made in careful.made] == [1] * 200

    monkeypatch.setattr(engine_loop, "CAREFUL", 0.0)
    runner.send(StopRun(1))
    hasty = runner.read(Dataset.range(30_000), run=2, known=100, careful=True)

    assert len(hasty.made) < 100
    assert len(hasty.elements) == 29_900


def test_a_runner_without_room_says_so_each_time(thread_runner):
    runner = thread_runner(budget=2 << 20)
    heard = runner.begin(Dataset.range(4).map(lambda x: np.full(1 << 20, x, np.uint8)))
    runner.hear(heard, lambda heard: len(heard.of(ArenaFull)) == 1, free=False)
    runner.send(FreeFrames(1, (heard.made[0].offset,)))
    runner.hear(heard, lambda heard: len(heard.of(ArenaFull)) == 2, free=False)

    assert [type(report) for report in heard.reports] == [
        FrameReady,
        FrameReady,
        ArenaFull,
        FrameReady,
        ArenaFull,
    ]


def test_a_runner_that_is_to_rest_says_where_it_stands(thread_runner):
    runner = thread_runner()
    dataset = Dataset.range(10**9).map(lambda x: x * 2).shuffle(50, seed=4)
    heard = runner.begin(dataset)
    runner.hear(heard, lambda heard: len(heard.elements) > 100)
    runner.send(PauseRun(1))
    runner.hear(heard, rests)
    runner.stop()

    state = heard.states[-1]
    assert [type(report) for report in heard.reports[-3:]] == [
        CheckpointTaken,
        TimesMeasured,
        RunPaused,
    ]
    assert state.number == len(heard.elements)
    whole = runner.begin(dataset, run=2)
    runner.hear(whole, lambda heard: len(heard.elements) >= state.number + 100)
    runner.stop(2)
    tail = runner.begin(dataset, run=3, state=state)
    runner.hear(tail, lambda heard: len(heard.elements) >= 100)
    expected = whole.elements[: state.number + 100]
    assert [*heard.elements, *tail.elements[:100]] == expected


def test_a_pipeline_without_a_state_comes_to_rest_as_well(thread_runner, monkeypatch):
    def take(self, engine, number):
        raise StateError("a pass of another job has no state")

    monkeypatch.setattr(checkpointer.Checkpointer, "take", take)
    runner = thread_runner()
    heard = runner.begin(Dataset.range(10**9))
    runner.hear(heard, lambda heard: len(heard.elements) > 100)
    runner.send(PauseRun(1))
    runner.hear(heard, rests)

    assert heard.states == []


def test_splits_before_a_state_are_forgotten(thread_runner, stately):
    heard = thread_runner().read(Dataset.range(1000), logs=(SplitLog(),), splits=[SPLITS])

    assert [int(x) for x in heard.elements] == list(range(1000))
    assert heard.states[-1].positions == (10,)


def test_a_log_remembers_from_the_place_that_was_asked_for():
    log = GrowingSplitLog(SplitLog(3, tuple(SPLITS[3:6])))
    log.forget(2)
    log.forget(5)
    log.grow(6, tuple(SPLITS[6:7]))

    assert (log.start, log.stop) == (5, 7)
    assert log.at(5) == SPLITS[5]
    with pytest.raises(StateError, match="before 5 was forgotten"):
        log.at(4)
