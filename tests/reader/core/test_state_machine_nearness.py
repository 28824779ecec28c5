"""Which workers' elements a reader hands out first, and which workers it does not read."""

import pytest

from penstock.protocol.nearness import TargetWorkers, WorkerProfile
from penstock.protocol.types import Failure
from penstock.reader.core.effects import SendAck
from penstock.reader.core.limits import REQUEST_PATIENCE, FrameLimit
from penstock.reader.core.reachability import Vicinity
from penstock.reader.core.session_core import NoElement

HERE, FAR = WorkerProfile("here"), WorkerProfile("far")
ROW = {1: ("far", FAR), 2: ("near", HERE), 3: ("mine", HERE)}


def row(task, attempt=1):
    worker, profile = ROW[task]
    return task, attempt, worker, None, 5, 0, 0, profile


def reading(driven_core, target, limit=None):
    reader = driven_core(limit, Vicinity(TargetWorkers(target), "here"))
    reader.core.vicinity.see({"mine": 5})
    reader.view(*map(row, ROW))
    return reader


def pulled(reader, count):
    return [reader.pull()[0] for _ in range(count)]


@pytest.mark.parametrize(
    ("target", "order"), [("AUTO", [3, 3, 2, 2, 1, 1]), ("ANY", [1, 2, 3, 1, 2, 3])]
)
def test_of_what_is_ready_nearer_elements_come_first_or_what_came_first(driven_core, target, order):
    reader = reading(driven_core, target)
    for number in (0, 1):
        for task in ROW:
            reader.frame(number, number + 1, task=task)

    assert pulled(reader, 6) == order


def test_what_is_far_is_handed_out_while_nothing_nearer_is_ready(driven_core):
    reader = reading(driven_core, "AUTO")
    reader.frame(0, 1, task=1)
    assert pulled(reader, 1) == [1]

    reader.frame(1, 2, task=1)
    reader.frame(0, 1, task=3)
    assert pulled(reader, 2) == [3, 1]


def test_a_task_that_goes_on_elsewhere_is_preferred_as_it_is_there(driven_core):
    reader = reading(driven_core, "AUTO")
    reader.view(row(1), row(2), (3, 1, None))
    reader.view(row(1), row(2), (3, 2, *row(1)[2:]))
    for task in (3, 2):
        reader.frame(0, 1, task=task)

    assert pulled(reader, 2) == [2, 3]


def test_credit_in_frames_goes_to_the_nearest_and_to_one_that_waited_long(driven_core):
    reader = reading(driven_core, "AUTO", FrameLimit(3))
    assert [request.credit for request in reader.subscribes()] == [1, 1, 1]
    for task in ROW:
        reader.frame(0, 1, task=task)
    reader.now = 0.5
    assert pulled(reader, 1) == [3]
    assert credited(reader) == [3]

    reader.frame(1, 2, task=3)
    reader.now = REQUEST_PATIENCE
    assert pulled(reader, 1) == [3]
    assert credited(reader) == [1]


def credited(reader):
    return [e.task for e in reader.effects() if isinstance(e, SendAck) and e.ack.credit]


def test_only_workers_of_this_process_are_read_if_that_is_wanted(driven_core):
    reader = reading(driven_core, "LOCAL")

    assert [request.task for request in reader.subscribes()] == [3]
    reports = reader.core.heartbeat(reader.now).reports
    assert [(task, report.fence) for task, report in reports.items()] == [(1, 1), (2, 1), (3, 1)]


def test_a_colocated_worker_of_another_process_is_not_read(driven_core):
    reader = driven_core(None, Vicinity(TargetWorkers.AUTO, "here"))
    tagged = WorkerProfile("here", tags=("COLOCATED",))
    reader.view((1, 1, "w", None, 5, 0, 0, tagged), row(2))

    assert [request.task for request in reader.subscribes()] == [2]


def test_a_task_that_is_read_elsewhere_is_fenced_when_it_ends_there_and_read_when_it_comes(
    driven_core,
):
    reader = reading(driven_core, "LOCAL")
    reader.effects()
    reader.view((1, 1, None), row(2), row(3))
    assert reader.core.heartbeat(reader.now).reports[1].fence == 2

    reader.view((1, 2, *row(3)[2:]), row(2), row(3))

    assert [request.task for request in reader.subscribes()] == [1]


def test_operators_make_do_with_what_they_have_where_the_rest_is_read_by_others(driven_core):
    reader = reading(driven_core, "LOCAL")
    reader.follow(size=4)
    reader.frame(0, 2, task=3)
    assert reader.pull_slice() == (3, 0, 2)
    reader.core.loop_waiting()
    assert reader.pull_slice() is NoElement.WAIT

    reader.recall(3, last=True)

    assert reader.pull_slice() is NoElement.FLUSH


def test_what_fails_where_others_read_is_raised_here_too(driven_core):
    reader = reading(driven_core, "LOCAL")
    failure = Failure("TransformError", ("map(f)", 7, "ValueError: no", None, ""))
    reader.view((1, 1, "far", failure, 5, 0, 0, FAR), row(2), row(3))

    with pytest.raises(Exception, match="ValueError: no"):
        reader.pull()
