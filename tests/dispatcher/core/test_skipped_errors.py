"""How many elements a pass left out: whoever makes a part again, and however often, counts once."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.control import (
    FIRST,
    AttemptProgress,
    SkippedError,
    SkippedErrors,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Checkpoint, Failure, Mode
from penstock_dispatcher.core.skipped_errors import LETTERS_KEPT, LONGEST
from tests.dispatcher.core.driver import OneReader

STREAM = 60
"""How many elements a task's engine comes by; some of them fail."""


def letter(task, number):
    return json.dumps({"id": f"{task}/{number}", "source": "map", "message": f"error {number}"})


@dataclass
class Run:
    """An attempt at work: it has come by the elements before *at* of its task's."""

    at: int
    first: list = field(default_factory=list)


class World(OneReader):
    """Two tasks that each make a whole copy; elements whose numbers are in *bad* fail."""

    def __init__(self, bad, on_error="skip", max_errors=None, **more):
        self.bad, self.runs = set(bad), {}
        said = {"on_error": on_error, "max_errors": max_errors, **more}
        super().__init__(SplitProviderSpec((".0",), STREAM), 2, Mode.OFF, **said)

    def count(self, at):
        return sum(number < at for number in self.bad)

    def works(self, index, more):
        """Let the attempt of a task come by *more* elements, and report where it stands."""
        name = sorted(self.tasks)[index]
        task = self.tasks[name]
        if task.worker is None:
            return
        begins = Run(json.loads(task.checkpoint.state) or 0)
        run = self.runs.setdefault((name, task.attempt), begins)
        for number in range(run.at, min(run.at + more, STREAM)):
            if number in self.bad and len(run.first) < FIRST:
                which = self.count(number + 1)
                run.first.append(SkippedError(which, letter(name, which)))
        run.at = min(run.at + more, STREAM)
        self.reports(name, run, 0, None)

    def saves(self, index):
        """Let all that an attempt made be acked, and its state be known."""
        name = sorted(self.tasks)[index]
        task = self.tasks[name]
        run = self.runs.get((name, task.attempt))
        if task.worker is not None and run is not None:
            head = run.at - self.count(run.at)
            self.reports(name, run, head, Checkpoint(head, (), str(run.at)))

    def reports(self, name, run, acked, state):
        task, count = self.tasks[name], self.count(run.at)
        told = SkippedErrors(count, tuple(run.first)) if count else None
        head = run.at - count
        progress = AttemptProgress(task.attempt, head, AckedSet(acked), state, errors=told)
        revision = self.core.state.revision
        self.tell(WorkerHeartbeat(task.worker, 1, revision, {name: progress}))

    def dies(self, worker):
        super().dies(worker)
        self.reads()
        self.comes(worker)
        self.reads()

    def restart(self):
        super().restart()
        for worker in ("w0", "w1"):
            self.comes(worker)
        self.reads()


STEPS = st.one_of(
    st.tuples(st.just("works"), st.integers(0, 1), st.integers(1, 20)),
    st.tuples(st.just("saves"), st.integers(0, 1)),
    st.tuples(st.just("dies"), st.sampled_from(["w0", "w1"])),
    st.tuples(st.just("restart")),
)


@given(
    bad=st.sets(st.integers(0, STREAM - 1)),
    most=st.one_of(st.none(), st.integers(0, 2 * STREAM)),
    steps=st.lists(STEPS, max_size=40),
)
def test_each_element_that_was_left_out_counts_once_and_too_many_end_the_pass(bad, most, steps):
    world, furthest = World(bad, max_errors=most), {}
    for what, *more in steps:
        getattr(world, what)(*more)
        for (name, _), run in world.runs.items():
            furthest[name] = max(furthest.get(name, 0), run.at)
        known = world.stats.account.errors
        assert known == sum(map(world.count, furthest.values()))
        failed = [task.failure is not None for task in world.tasks.values()]
        assert any(failed) == all(failed) == (most is not None and known > most)
        ids = [one["id"] for one in world.stats.dead_letters]
        assert len(set(ids)) == len(ids) <= min(known, LETTERS_KEPT)


def test_the_error_names_the_count_the_first_error_and_the_remedy():
    world = World(bad=range(10), max_errors=3)
    world.works(0, 2)
    assert all(task.failure is None for task in world.view.tasks.values())

    world.works(1, 2)

    for task in world.view.tasks.values():
        assert task.worker is None
        error = str(task.failure.error())
        assert "error 1" in error
        assert "the first of 4 elements" in error
        assert "max_errors is 3" in error
        assert "larger max_errors" in error
    assert not world.view.finished


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"id": [1]}', "x" * (LONGEST + 1), '{"element": "seven"}']
)
def test_a_dead_letter_that_is_none_does_no_harm(text):
    world = World(bad=[0], max_errors=0)
    name = min(world.tasks)
    told = SkippedErrors(1, (SkippedError(1, text),))
    progress = AttemptProgress(1, 0, AckedSet(), errors=told)

    world.tell(WorkerHeartbeat(world.tasks[name].worker, 1, 0, {name: progress}))

    assert world.stats.account.errors == 1
    assert "max_errors is 0" in world.stats.tasks[0].failure


def test_a_saved_state_with_too_many_of_them_is_not_restored():
    state = {
        "v": 3, "kind": "job", "fingerprint": "d", "mode": "off", "job": "j", "repetition": 1,
        "seed": 1, "iteration_seed": 1, "next_task": 1, "account": {"errors": 4},
    }  # fmt: skip

    answer = World([], max_errors=3, restore=json.dumps(state).encode()).answer
    gone_on = World([], max_errors=4, restore=json.dumps(state).encode())

    assert answer.kind == "StateError"
    assert "4 elements were left out, and max_errors is 3: give a larger" in str(answer.error())
    assert gone_on.stats.account.errors == 4


def test_a_worker_that_was_not_asked_to_is_not_believed():
    world = World(bad=[0], on_error="raise")

    world.works(0, 5)

    assert world.stats.account.errors == 0


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"max_errors": -1}, "must not be negative"),
        ({"on_error": "raise", "max_errors": 1}, "on_error='skip'"),
        ({"num_consumers": 2}, "num_consumers do not go together"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(asked, words):
    answer = World([], **asked).answer

    assert isinstance(answer, Failure)
    assert words in str(answer.error())
