"""A runner that leaves out what cannot be made: what it counts, and what it tells of it."""

import json

import pytest

from penstock.dataset.dataset import Dataset
from penstock.protocol.control import FIRST
from penstock.protocol.types import Checkpoint
from penstock_worker.runner import checkpointer
from penstock_worker.runner.error_skipper import LONGEST
from penstock_worker.runner.messages import (
    ElementsSkipped,
    ErrorsCounted,
    RunEnded,
    RunFailed,
    RunStopped,
    StopRun,
)


def odd(x):
    if x % 10 == 7:
        raise ValueError(f"not {x}")
    return x


def told(heard):
    return heard.of(ErrorsCounted)


@pytest.fixture
def stately(monkeypatch):
    """Report a state after every block."""
    monkeypatch.setattr(checkpointer, "EVERY", 0.0)
    monkeypatch.setattr(checkpointer, "SHARE", 0)


def test_what_cannot_be_made_is_left_out_and_counted(thread_runner):
    heard = thread_runner().read(Dataset.range(1000).map(odd), skip_errors=True)

    assert [int(x) for x in heard.elements] == [x for x in range(1000) if x % 10 != 7]
    assert isinstance(heard.reports[-1], RunEnded)
    assert told(heard)[-1].count == 100
    assert heard.of(ElementsSkipped) == []


def test_only_the_bad_sample_is_missing_in_its_batch(thread_runner):
    heard = thread_runner().read(Dataset.range(12).map(odd).batch(4), skip_errors=True)

    assert [list(map(int, x)) for x in heard.elements] == [[0, 1, 2, 3], [4, 5, 6, 8], [9, 10, 11]]


def test_without_it_the_first_error_ends_the_run(thread_runner):
    heard = thread_runner().read(Dataset.range(1000).map(odd))

    assert len(heard.elements) == 7
    assert isinstance(heard.reports[-1], RunFailed)


def test_the_first_letters_are_sent_and_short(thread_runner):
    def wordy(x):
        raise ValueError("\x00no\udcff" * 10_000)

    heard = thread_runner().read(Dataset.range(100).map(wordy), skip_errors=True)

    letters = [json.loads(report.letter) for report in told(heard) if report.letter]
    assert [letter["element"] for letter in letters] == list(range(FIRST))
    assert len({letter["id"] for letter in letters}) == FIRST
    for letter in letters:
        assert letter["source"].startswith("map(")
        assert letter["error"] == "ValueError"
        assert max(len(str(text)) for text in letter.values()) < 2 * LONGEST
    assert told(heard)[-1].count == 100


def test_a_run_that_makes_nothing_says_so_and_can_be_stopped(thread_runner):
    def never(x):
        raise ValueError("never")

    runner = thread_runner()
    heard = runner.begin(Dataset.range(10**12).map(never), skip_errors=True)
    runner.hear(heard, lambda heard: bool(told(heard)) and told(heard)[-1].count > 100)
    runner.send(StopRun(1))
    runner.hear(heard, lambda heard: bool(heard.of(RunStopped)))


def test_whoever_makes_a_part_again_comes_to_the_same_count(thread_runner, stately):
    made = Dataset.range(1000).map(odd)
    runner = thread_runner()
    whole = runner.read(made, skip_errors=True)

    for i, state in enumerate(whole.states[:: max(1, len(whole.states) // 5)], start=2):
        runner.send(StopRun(i - 1))
        again = runner.read(made, run=i, state=state, skip_errors=True)

        assert again.elements == whole.elements[state.number :]
        assert told(again)[-1].count == 100
        if json.loads(state.state)["on_error"]:
            assert told(again)[0].count == json.loads(state.state)["on_error"]


def test_a_job_that_was_saved_the_other_way_goes_on(thread_runner, stately):
    made = Dataset.range(1000).map(odd)
    runner = thread_runner()
    raised = runner.read(made)
    plain = next(state for state in reversed(raised.states) if state.number)
    runner.send(StopRun(1))
    gone_on = runner.read(made, run=2, state=plain, skip_errors=True)
    skipping = next(state for state in gone_on.states if state.number > plain.number)
    runner.send(StopRun(2))
    back = runner.read(made, run=3, state=skipping)

    expected = [x for x in range(1000) if x % 10 != 7]
    assert [int(x) for x in gone_on.elements] == expected[plain.number :]
    assert isinstance(back.reports[-1], RunFailed | RunEnded)
    assert [int(x) for x in back.elements] == expected[skipping.number :][: len(back.elements)]


def test_an_error_that_is_of_no_element_ends_the_run(thread_runner):
    state = Checkpoint(0, (), json.dumps({"on_error": 0, "at": {"nonsense": 1}}))

    heard = thread_runner().read(Dataset.range(10).map(odd), state=state, skip_errors=True)

    assert isinstance(heard.reports[-1], RunFailed)
