"""Coordinated reads: what is released, in which order, and where a pass ends."""

from penstock.protocol.rounds import RoundEntry
from penstock.protocol.types import Checkpoint, Failure, Mode
from penstock_dispatcher.core import rounds
from penstock_dispatcher.core.events import WorkerDead, WorkerDisconnected
from tests.dispatcher.core.coordinated import Coordinated

FAILED = Failure("TransformError", ("map", 3, "no"))


def started(workers=1, **parameters):
    """Return a pass with so many tasks, which two consumers read."""
    world = Coordinated(**parameters)
    for number in range(workers):
        world.worker(f"w{number}")
    world.joins(0)
    for number in range(1, parameters.get("consumers", 2)):
        world.joins(number)
    assert len(world.tasks) == workers
    return world, *world.readers.values()


def test_a_round_is_released_when_all_consumers_have_it():
    world, a, b = started()
    (task,) = world.tasks

    world.holds(a, t0=2)
    assert a.log == []
    world.holds(b, t0=1)

    assert a.log == b.log == [(task, 0)]
    assert a.view.tasks[task].released == 1


def test_nothing_is_released_before_all_consumers_are_there():
    world = Coordinated(consumers=3)
    world.worker("w")
    world.joins(0), world.joins(1)

    world.all_hold(t0=2)
    assert world.released == []
    world.joins(2)
    world.all_hold(t0=2)

    assert world.released == [0, 0]


def test_what_all_have_taken_is_settled_and_no_more():
    world, a, b = started()
    (task,) = world.tasks
    world.all_hold(t0=5)

    world.reports(a, taken=5)
    assert (world.rounds.floor, world.task(task).acked.floor) == (0, 0)
    world.reports(b, taken=3)

    assert (world.rounds.floor, world.rounds.released) == (3, 5)
    assert world.task(task).acked.floor == 6
    assert (b.view.rounds.first, b.log) == (3, [(task, 3), (task, 4)])
    assert (a.view.rounds.first, a.log) == (5, [])
    world.reports(a)
    assert a.view.tasks[task].floor == 6


def test_a_worker_is_told_how_a_task_is_cut():
    world, *_ = started(remainder="pad")
    (run,) = world.assignments["w0"].tasks

    assert (run.grouped.consumers, run.grouped.base) == (2, 0)
    assert run.grouped.remainder.value == "pad"
    assert run.unacked == {}


def test_another_attempt_voids_what_consumers_have_of_the_one_before():
    world, a, b = started(workers=2)
    first, second = world.tasks
    world.holds(a, t0=3, t1=1)
    world.holds(b, t1=1)
    lost = world.task(first).worker
    world.tell(WorkerDisconnected(lost, 1))
    world.tell(WorkerDead(lost, 1))

    assert world.task(first).attempt == 2, "no consumer is asked"
    b.held[first] = (1, 3)
    world.reports(b)
    assert world.released == [1]
    world.reports(a, taken=1)
    world.reports(b, taken=1)
    a.held[first] = b.held[first] = (2, 1)
    world.reports(a)
    world.reports(b)

    assert world.released == [1, 0]


def test_a_new_attempt_begins_at_the_floor():
    world, a, b = started(workers=2)
    (first, _) = world.tasks
    world.all_hold(t0=4, t1=4)
    world.made(first, 20, checkpoint=Checkpoint(6))
    assert world.task(first).checkpoint.number == 0, "not all before it is taken by all"
    for consumer in (a, b):
        world.reports(consumer, taken=6)
    world.made(first, 20, checkpoint=Checkpoint(6))
    assert world.task(first).checkpoint.number == 6
    lost = world.task(first).worker
    world.tell(WorkerDisconnected(lost, 1))
    world.tell(WorkerDead(lost, 1))

    (run,) = [r for r in world.assignments[world.task(first).worker].tasks if r.task == first]
    assert (run.checkpoint.number, run.acked.floor) == (6, 6)


def test_a_task_that_is_not_ready_loses_its_turn_while_few_rounds_are_in_hand():
    world, a, b = started(workers=2, patience=2)

    world.all_hold(t1=9)
    assert world.released == [1, 1], "with two in hand its turn is waited for"
    world.reports(a, taken=1)
    world.reports(b, taken=1)
    assert world.released == [1, 1, 1]
    world.all_hold(t0=1)

    assert world.released == [1, 1, 1, 0, 1]


def test_what_operators_behind_a_consumer_have_is_in_nobody_s_hand():
    world, a, b = started(workers=2, patience=2)
    world.all_hold(t1=9)
    assert world.released == [1, 1]

    a.handed = b.handed = 2
    world.reports(a)
    world.reports(b)

    assert world.released == [1, 1, 1, 1], "they wait for more, to fill a batch"
    assert world.rounds.floor == 0


def test_tasks_take_turns_where_the_order_is_to_be_the_same_each_time():
    world, a, b = started(workers=3, ordered=True)

    world.all_hold(t2=5)
    assert world.released == []
    world.all_hold(t0=1)
    assert world.released == [0]
    world.all_hold(t1=5)
    assert world.released == [0, 1, 2]
    world.all_hold(t0=9)

    assert world.released == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0]


def test_a_task_that_has_ended_is_passed_over():
    world, a, b = started(workers=2, ordered=True)
    first, second = world.tasks

    world.made(first, 2, ended=True)
    world.all_hold(t0=1, t1=3)
    assert world.released == [0, 1, 1, 1]
    assert world.rounds.tasks[first].total == 2
    for consumer in (a, b):
        world.reports(consumer, taken=1)

    assert world.task(first).done
    assert not world.task(second).done


def test_no_task_joins_an_order_that_is_to_be_the_same_each_time():
    world, *_ = started(workers=2, ordered=True)
    free, *_ = started(workers=2)

    world.worker("late")
    free.worker("late")

    assert len(world.tasks) == 2
    assert len(free.tasks) == 3


def test_only_so_many_rounds_are_released_ahead(monkeypatch):
    monkeypatch.setattr(rounds, "MOST_IN_HAND", 5)
    world, a, b = started()

    world.all_hold(t0=100)
    assert len(world.released) == 5
    world.reports(a, taken=3)
    world.reports(b, taken=2)

    assert len(world.released) == 7


def test_a_pass_of_copies_ends_at_the_same_round_for_all():
    world, a, b = started()
    (task,) = world.tasks
    world.made(task, 5, ended=True)

    world.all_hold(t0=2)
    assert (a.view.rounds.last, b.view.rounds.last) == (2, 2)
    world.reports(a, taken=2)
    world.reports(b, taken=1)
    assert not world.record.finished
    assert world.task(task).acked.floor == 2
    world.reports(b, taken=2)

    assert world.record.finished
    assert a.view.finished and b.view.finished
    assert world.record.before.rounds.left_out == 1


def test_who_comes_when_a_pass_is_over_is_told_where_it_ended():
    world, a, b = started()
    world.made(*world.tasks, 4, ended=True)
    world.all_hold(t0=2)
    for consumer in (a, b):
        world.reports(consumer, taken=2)

    late = world.joins(1)

    assert late.view.finished
    assert (late.view.rounds.start, late.view.rounds.released, late.view.rounds.last) == (2, 2, 2)


def test_what_fills_up_a_group_is_counted():
    world, a, b, c = started(consumers=3, remainder="pad")
    (task,) = world.tasks
    world.made(task, 4, ended=True)

    world.all_hold(t0=2)
    for consumer in (a, b, c):
        world.reports(consumer, taken=2)

    assert world.record.finished
    assert world.record.before.rounds.padding == 2
    assert world.record.before.acked == world.record.before.elements == 4


def test_what_fills_up_a_group_is_no_element_of_an_attempt_that_began_behind_it():
    world, *consumers = started(consumers=3, workers=3, remainder="pad")
    first, *_ = tasks = world.tasks
    world.all_hold(t0=2, t1=2, t2=2)
    for consumer in consumers:
        world.reports(consumer, taken=6)
    for _ in range(2):
        assert world.task(first).acked.floor == 6, "that there are four is not known yet"
        lost = world.task(first).worker
        world.made(first, 6)
        world.tell(WorkerDisconnected(lost, 1))
        world.tell(WorkerDead(lost, 1))
    for task in tasks:
        world.made(task, 4, ended=True)
    for consumer in consumers:
        world.reports(consumer)

    assert world.record.finished
    assert world.record.before.acked == world.record.before.elements == 12


def test_a_pass_over_splits_ends_when_nothing_is_left_and_all_is_released():
    world, a, b = started(workers=2, mode=Mode.DYNAMIC, units=4)
    first, second = world.tasks
    assert not world.record.providers[0].left or world.rounds.last is None
    while world.record.providers[0].left:
        world.ask(first)
    world.made(first, 2, ended=True)
    world.made(second, 2, ended=True)

    world.all_hold(t0=1)
    assert a.view.rounds.last is None
    world.all_hold(t1=1)
    assert a.view.rounds.last == 2
    world.worker("late")
    assert len(world.tasks) == 2

    for consumer in (a, b):
        world.reports(consumer, taken=2)
    assert world.record.finished


def test_a_pass_over_nothing_is_over_for_whoever_comes():
    world = Coordinated()
    world.worker("w")
    a = world.joins(0)
    world.made(*world.tasks, 0, ended=True)
    b = world.joins(1)

    assert world.record.finished
    assert a.view.finished and b.view.finished


def test_a_task_that_failed_ends_the_pass_at_the_same_round_for_all():
    world, a, b = started(workers=2)
    first, _ = world.tasks
    world.made(first, 5, failure=FAILED)

    world.all_hold(t0=1)
    assert a.view.rounds.last is None, "what was made before is still read"
    world.all_hold(t0=2)

    assert a.view.rounds == b.view.rounds
    assert (a.view.rounds.last, a.view.rounds.failure) == (2, FAILED)
    for consumer in (a, b):
        world.reports(consumer, taken=2)
    assert not world.record.finished


def test_a_failure_comes_when_the_turn_of_its_task_comes():
    world, a, b = started(workers=2, ordered=True)
    first, second = world.tasks
    world.made(second, 1, failure=FAILED)

    assert a.view.rounds.last is None
    world.all_hold(t0=3)

    assert world.released == [0]
    assert a.view.rounds.last == 1


def test_the_last_consumer_to_leave_ends_a_pass():
    world, a, b = started()
    world.made(*world.tasks, 2, ended=True)
    world.all_hold(t0=1)

    world.reports(a, taken=1, leaving=True)
    assert not world.record.finished
    world.reports(b, taken=1, leaving=True)

    assert world.record.finished


def test_a_restarted_dispatcher_goes_on_when_all_are_heard():
    world, a, b = started()
    (task,) = world.tasks
    world.all_hold(t0=3)
    for consumer in (a, b):
        world.reports(consumer, taken=1)

    world.restart()
    assert world.rounds.entries() == [RoundEntry(task, 1), RoundEntry(task, 2)]
    world.holds(a, t0=9)
    assert len(world.released) == 3
    world.holds(b, t0=5)

    assert len(world.released) == 5
    assert (b.view.rounds.first, b.log) == (1, [(task, group) for group in range(1, 5)])


def test_what_a_silent_consumer_has_counts_again_when_it_speaks():
    world, a, b = started()
    world.holds(b, t0=5)
    world.passes(11, a)

    world.holds(a, t0=5)
    assert world.released == []
    world.reports(b)

    assert len(world.released) == 5


def test_views_are_sent_when_rounds_are_released_and_not_for_a_floor():
    world, a, b = started()
    world.all_hold(t0=2)
    seen = a.view

    world.reports(b, taken=1)
    assert a.view is seen
    world.reports(a, taken=1)
    seen = b.view
    world.reports(a, taken=2)
    assert b.view is seen
    world.all_hold(t0=3)

    assert b.view is not seen


def test_a_report_of_more_than_was_released_is_refused():
    world, a, b = started()

    world.reports(a, taken=1)

    assert a.failure.kind == "Refused"
    assert "0 are released here" in str(a.failure.error())


def test_status_says_how_far_each_consumer_is():
    world, a, b = started()
    world.all_hold(t0=2)
    world.reports(a, taken=2)
    world.reports(b, taken=1)

    (known,) = world.core.stats(world.now).iterations

    assert (known.rounds.released, known.rounds.floor, known.rounds.last) == (2, 1, None)
    assert [(one.index, one.taken) for one in known.rounds.consumers] == [(0, 2), (1, 1)]
    assert "round 2 waits for elements of task" in known.waiting_for


def test_loops_are_told_whom_a_round_waits_for():
    world, a, b = started()

    world.passes(3, a)

    assert "round 0 waits for consumer 1 (host host, pid 101), silent for 3" in a.view.waiting_for
