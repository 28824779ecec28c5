"""What readers are told of tasks: what changed since the revision as of which they know them."""

import random

import pytest

from penstock.protocol.control import ReaderView
from penstock.protocol.types import Codec, DatasetId, Mode, ReaderStatus
from penstock.reader.core.membership import KnownTasks
from penstock_dispatcher.core import task_views
from penstock_dispatcher.core.records import (
    IterationRecord,
    JobParameters,
    TaskRecord,
    WorkerRecord,
)
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.task_views import changes, draw

PARAMETERS = JobParameters(DatasetId("d"), Mode.DYNAMIC, Codec.NONE)


class Drawn:
    """An iteration of which readers are told, as of revision 10 at first."""

    def __init__(self, tasks=3):
        self.state = DispatcherState()
        self.state.length = 10  # its revision
        self.state.workers["w:1"] = WorkerRecord(1)
        self.iteration = IterationRecord("j", 1, 5, PARAMETERS, [])
        for task in range(1, tasks + 1):
            self.create(task)
        self.view = draw(self.state, self.iteration, None)

    def create(self, task):
        self.iteration.tasks[task] = TaskRecord(9, task, (), (), attempt=1, worker="w:1")

    def begin(self, task):
        self.iteration.tasks[task].attempt += 1

    def end(self, task):
        self.iteration.tasks[task].done = True

    def at(self, revision, *changed):
        """Let *changed* happen, each a method and a task, by *revision*."""
        for change, task in changed:
            change(task)
        self.state.length = revision
        self.view = draw(self.state, self.iteration, self.view)

    def told(self, known, **more):
        return changes(self.view, known, self.state.revision, **more)


def test_a_reader_that_knows_nothing_is_told_of_all_tasks():
    told = Drawn().told(0)

    assert list(told.tasks) == [1, 2, 3]
    assert told.since is None


def test_a_reader_that_knows_all_is_told_of_none():
    drawn = Drawn()

    assert drawn.told(10) == task_views.TaskChanges({}, 10, ())
    drawn.at(17)
    assert drawn.told(10) == task_views.TaskChanges({}, 10, ())


def test_a_reader_is_told_what_changed_began_or_is_over_since_then():
    drawn = Drawn()
    drawn.at(12, (drawn.begin, 2))
    drawn.at(14, (drawn.end, 1), (drawn.create, 4))

    told = drawn.told(10)
    assert (sorted(told.tasks), told.since, told.over) == ([2, 4], 10, (1,))
    assert told.tasks[2].attempt == 2

    told = drawn.told(13)
    assert (sorted(told.tasks), told.over) == ([4], (1,))


def test_what_is_drawn_again_and_is_the_same_has_not_changed():
    drawn = Drawn()
    drawn.at(12, (drawn.begin, 2))
    drawn.at(13, (drawn.begin, 3))

    assert sorted(drawn.told(12).tasks) == [3]


def test_a_reader_of_before_a_restart_is_told_of_all_tasks_unless_nothing_became_fact_since():
    drawn = Drawn()

    assert drawn.told(9).since is None
    assert drawn.told(10).since == 10


def test_a_reader_of_a_later_history_than_this_one_is_told_of_all_tasks():
    assert Drawn().told(11).since is None


def test_tasks_that_are_done_for_a_trainer_are_over_for_its_readers_and_no_others():
    drawn = Drawn()
    drawn.at(12, (drawn.begin, 2))

    assert list(drawn.told(0, hidden=(2, 3)).tasks) == [1]
    assert drawn.told(10, hidden=(2,)).over == (2,)
    assert not drawn.told(10, hidden=(2,)).tasks
    assert drawn.told(12, hidden=(3,)).over == (3,)


def test_tasks_that_are_over_are_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(task_views, "MOST_OVER", 4)
    drawn = Drawn(20)
    for task in range(1, 20):
        drawn.at(10 + task, (drawn.end, task))

    assert len(drawn.view.over) <= 4
    assert drawn.told(10).since is None
    assert list(drawn.told(10).tasks) == [20]
    assert drawn.told(28).over == (19,)


@pytest.mark.quick(81)
@pytest.mark.parametrize("seed", range(100))
def test_whatever_is_lost_doubled_or_late_a_view_that_arrives_gives_all_tasks(seed, monkeypatch):
    chance = random.Random(seed)
    monkeypatch.setattr(task_views, "MOST_OVER", 6)
    drawn, known, revision = Drawn(), KnownTasks(), 0
    sent, history, number = [], {10: drawn.view.tasks}, 10
    for step in range(100):
        for _ in range(chance.randint(0, 2)):
            number += chance.randint(1, 3)
            running = [name for name, task in drawn.iteration.tasks.items() if not task.done]
            what = chance.choice([drawn.begin, drawn.end, drawn.create])
            task = step + 100 if what == drawn.create or not running else chance.choice(running)
            drawn.at(number, (drawn.create if task >= 100 + step else what, task))
            history[number] = drawn.view.tasks
        if chance.random() < 0.05:
            drawn.view = draw(drawn.state, drawn.iteration, None)  # by another life
        new = drawn.told(known.as_of)
        to = (number, "r", 1, ReaderStatus.LIVE, None)
        sent.append(ReaderView(*to, new.tasks, changes_since=new.since, over=new.over))
        chance.shuffle(sent)
        while sent and chance.random() < 0.6:
            view = sent[-1] if chance.random() < 0.1 else sent.pop()
            if view.revision < revision:
                continue  # as `Membership.concerns` has it
            revision = view.revision
            assert known.take(view) == history[revision]
            assert known.as_of == revision
