"""What is left of a task that is done: its account."""

from penstock.protocol.calls import JobParameters
from penstock.protocol.control import ElementCounts, SkippedError, SkippedErrors
from penstock.protocol.ranges import AckedSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import Codec, DatasetId, Mode
from penstock_dispatcher.core.records import IterationRecord, TaskRecord, totals
from penstock_dispatcher.core.task_state import grant, settle

PARAMETERS = JobParameters(DatasetId("d"), Mode.DYNAMIC, Codec.NONE, ordered=True)


def made():
    iteration = IterationRecord("j", 1, 5, PARAMETERS, [])
    for name in (1, 2):
        task = iteration.tasks[name] = TaskRecord(9, name - 1, (), ())
        task.head, task.acked, task.counts = (
            10 * name,
            AckedSet(10 * name),
            ElementCounts(12 * name),
        )
        task.splits, task.units = 1, 20 * name
        task.errors = SkippedErrors(name, (SkippedError(1, f"letter {name}"),))
        task.done = True
    return iteration


def test_a_task_that_is_settled_is_gone_and_nothing_of_the_account_is():
    iteration = made()
    before = totals(iteration)

    settle(iteration, 1)

    assert list(iteration.tasks) == [2]
    assert totals(iteration) == before


def test_all_tasks_may_be_settled_in_any_order():
    iteration = made()
    before = totals(iteration)

    settle(iteration, 2)
    settle(iteration, 1)

    after = totals(iteration)
    assert sorted(after.letters) == sorted(before.letters)
    assert (after.elements, after.acked, after.errors) == (30, 30, 3)


def test_what_was_acked_counts_as_made_though_no_worker_could_say_so():
    iteration = made()
    iteration.tasks[1].head = 0

    settle(iteration, 1)

    assert iteration.before.elements == iteration.before.acked == 10


def test_splits_are_appended_and_their_passes_counted():
    task = TaskRecord(9, 0, (), ())
    task.logs, task.ended = (SplitLog(),), (0,)

    grant(task, 0, (Split(3, 7), Split(0, 0)))

    assert task.logs[0].splits == (Split(3, 7), Split(0, 0))
    assert (task.ended, task.splits, task.units) == ((1,), 1, 4)
