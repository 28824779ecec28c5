"""A consumer hands out what is released and here, in order, and fetches ahead."""

import pytest

from penstock.errors import Refused
from penstock.protocol.control import TaskView
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import ELEMENT_NBYTES, GroupsHeld, GroupsWanted, RoundsReport
from penstock.protocol.types import Failure, TaskId, WorkerId
from penstock.reader.core.limits import ByteLimit, TaskFrameLimit
from penstock.reader.core.session_core import NoElement
from tests.reader.core.driven_rounds import STAMP, DrivenRounds


def test_it_asks_for_its_place_before_it_has_an_id():
    reading = DrivenRounds(start_round=17)

    assert reading.report() == RoundsReport(1, STAMP, 17, 0, ())
    assert reading.core.next_slice(0.0) is NoElement.WAIT
    assert reading.core.locate(0.0) is NoElement.WAIT


def test_it_subscribes_to_each_task_from_the_first_group_that_is_not_here():
    reading = DrivenRounds(1, 2)

    assert [(r.task, r.wants, r.buffered) for r in reading.subscribes()] == [
        (1, GroupsWanted(1, 0), RangeSet()),
        (2, GroupsWanted(1, 0), RangeSet()),
    ]
    reading.frame(1, 0, 1, 2)
    reading.cut(1)
    reading.now = 1.0
    reading.core.on_tick(1.0)
    (again,) = reading.subscribes()
    assert (again.task, again.wants) == (1, GroupsWanted(1, 3))


def test_what_is_here_is_reported_and_not_handed_out_before_it_is_released():
    reading = DrivenRounds(1, 2)
    reading.frame(1, 0, 1)
    reading.frame(2, 0)

    assert reading.pull() is NoElement.WAIT
    assert reading.report().held == (GroupsHeld(1, 1, 2), GroupsHeld(2, 1, 1))
    reading.release((2, 0), (1, 0))
    assert reading.pull_all() == [(2, 0, 1), (1, 0, 1)]
    assert reading.pull() is NoElement.WAIT
    reading.release((1, 1))
    assert reading.pull_all() == [(1, 1, 1)]
    assert reading.report().held == (GroupsHeld(1, 1, 2), GroupsHeld(2, 1, 1))


def test_what_is_let_go_is_nowhere_any_more():
    reading = DrivenRounds(1, 2)
    reading.frame(1, 0, 1)
    reading.frame(2, 0)

    reading.core.let_go()

    assert [stream.slices for stream in reading.core.tasks.values()] == [[], []]
    reading.release((2, 0), (1, 0))
    assert reading.pull() is NoElement.WAIT


def test_what_is_released_and_not_here_holds_up_what_is_behind_it():
    reading = DrivenRounds(1, 2)
    reading.frame(1, 0)
    reading.release((2, 0), (1, 0))

    assert reading.pull() is NoElement.WAIT
    assert not reading.core.ready
    reading.frame(2, 0)
    assert reading.core.ready
    assert reading.pull_all() == [(2, 0, 1), (1, 0, 1)]


def test_without_marks_what_is_handed_out_is_taken():
    reading = DrivenRounds(1)
    reading.frame(1, 0, 1)
    reading.release((1, 0), (1, 1))
    reading.pull()

    assert (reading.core.round, reading.report().taken) == (1, 1)


def test_what_operators_have_is_taken_when_the_loop_gets_it():
    reading = DrivenRounds(1)
    reading.follow()
    reading.frame(1, 0, 1, 2)
    reading.release((1, 0), (1, 1), (1, 2))
    reading.pull_all()

    assert reading.report().taken == 0
    reading.take(1)
    assert reading.report().taken == 0
    reading.take(0)
    assert reading.report().taken == 2


def test_requeued_rounds_are_fetched_again_and_handed_out_first():
    reading = DrivenRounds(1, 2)
    reading.follow()
    reading.frame(1, 0, 1, 2)
    reading.frame(2, 0)
    reading.release((1, 0), (2, 0), (1, 1), (1, 2))
    assert [reading.pull() for _ in range(3)] == [(1, 0, 1), (2, 0, 1), (1, 1, 1)]
    reading.take(0)
    reading.effects()
    reading.core.requeue(RangeSet.of((1, 3)), 0.0)

    assert [(r.task, r.wants.group) for r in reading.subscribes()] == [(2, 0), (1, 1)]
    assert reading.pull() is NoElement.WAIT
    reading.frame(1, 1, 2)  # group 2 is here already
    assert reading.pull() is NoElement.WAIT
    reading.frame(2, 0)
    assert reading.pull_all() == [(2, 0, 1), (1, 1, 1), (1, 2, 1)]
    assert reading.pull() is NoElement.WAIT
    assert reading.report().taken == 1


def test_what_is_requeued_is_asked_for_again_though_its_stream_ended():
    reading = DrivenRounds(1)
    reading.follow()
    reading.frame(1, 0)
    reading.end(1)
    reading.release((1, 0))
    reading.pull_all()
    reading.effects()
    reading.core.requeue(RangeSet.of((0, 1)), 0.0)

    (request,) = reading.subscribes()
    assert request.wants.group == 0
    reading.frame(1, 0)
    assert reading.pull_all() == [(1, 0, 1)]


@pytest.mark.parametrize("limit", [lambda: ByteLimit(1), lambda: TaskFrameLimit(1)])
def test_there_is_room_for_what_is_lacking_though_all_is_full_behind_it(limit):
    reading = DrivenRounds(1, limit=limit())
    reading.follow()
    reading.frame(1, 0, nbytes=2 << 20)
    reading.release((1, 0))
    reading.pull_all()
    reading.frame(1, 1, nbytes=2 << 20)
    reading.effects()
    reading.core.requeue(RangeSet.of((0, 1)), 0.0)

    (request,) = reading.subscribes()
    assert request.credit > 0


def test_elements_take_credit_however_small_they_are():
    reading = DrivenRounds(1, limit=ByteLimit(1))
    (request,) = reading.subscribes()

    reading.frame(1, *range(1000), nbytes=0)

    reading.now = 1.0
    reading.core.on_tick(1.0)
    assert reading.acks() == []  # none of them was handed out
    stream = reading.core.tasks[1]
    assert stream.balance == request.credit - 1000 * ELEMENT_NBYTES
    assert stream.balance + stream.nbytes == stream.window


def test_each_task_has_room_for_an_element_whatever_is_here_of_others():
    reading = DrivenRounds(*range(1, 9), limit=TaskFrameLimit(1))

    assert [request.credit for request in reading.subscribes()] == [1] * 8
    for task in range(1, 9):
        reading.frame(task, 0)
    reading.now = 1.0
    reading.core.on_tick(1.0)
    assert reading.acks() == []  # and no more than that
    reading.release((3, 0))
    reading.pull_all()
    assert [(effect.task, effect.ack.credit > 0) for effect in reading.acks()] == [(3, True)]


def test_what_the_next_attempt_finds_not_released_is_dropped():
    reading = DrivenRounds(1)
    reading.frame(1, 0, 1, 2)
    reading.release((1, 0))
    reading.effects()
    reading.assign(1, attempt=2, worker=WorkerId("v"))

    (request,) = reading.subscribes()
    assert (request.attempt, request.wants.group) == (2, 1)
    assert reading.report().held == (GroupsHeld(1, 2, 1),)
    reading.frame(1, 1)
    reading.release((1, 1))
    assert reading.pull_all() == [(1, 0, 1), (1, 1, 2)]


def test_what_the_same_view_releases_is_kept():
    reading = DrivenRounds(1)
    reading.frame(1, 0, 1)
    reading.tasks[TaskId(1)] = TaskView(2, WorkerId("v"))
    reading.release((1, 0))

    assert reading.report().held == (GroupsHeld(1, 2, 1),)
    assert reading.pull_all() == [(1, 0, 1)]


def test_an_attempt_that_is_over_keeps_what_is_here_until_the_next_begins():
    reading = DrivenRounds(1)
    reading.frame(1, 0)
    reading.assign(1, worker=None)

    assert reading.core.tasks[1].between_attempts
    assert reading.report().held == (GroupsHeld(1, 1, 1),)
    reading.release((1, 0))
    assert reading.pull_all() == [(1, 0, 1)]


def test_frames_of_older_attempts_and_subscriptions_are_ignored():
    reading = DrivenRounds(1)
    reading.cut(1)
    reading.now = 1.0
    reading.core.on_tick(1.0)
    reading.frame(1, 0, subscription=1)
    reading.frame(1, 0, attempt=0)

    assert reading.report().held == (GroupsHeld(1, 1, 0),)


def test_a_restarted_consumer_fetches_released_rounds_again():
    reading = DrivenRounds()
    reading.tasks = {TaskId(1): TaskView(3, WorkerId("w")), TaskId(2): TaskView(1, WorkerId("w"))}
    reading.first, reading.start = 1, 2
    reading.release((1, 0), (1, 1), (2, 0), (1, 2))

    assert [(r.task, r.wants.group) for r in reading.subscribes()] == [(1, 2), (2, 0)]
    assert reading.core.round == 2
    reading.frame(1, 1, 2, 3)  # the first of them it does not want
    assert reading.pull() is NoElement.WAIT
    reading.frame(2, 0)
    assert reading.pull_all() == [(2, 0, 1), (1, 2, 3)]
    assert reading.report() == RoundsReport(
        1, STAMP, None, 4, (GroupsHeld(1, 3, 4), GroupsHeld(2, 1, 1)), 4
    )


def test_workers_are_told_what_all_have_taken():
    reading = DrivenRounds(1)
    reading.frame(1, 0, 1)
    reading.release((1, 0), (1, 1))
    reading.effects()
    reading.assign(1, floor=4)
    reading.now = 1.0
    reading.core.on_tick(1.0)

    (effect,) = reading.acks()
    assert effect.ack.acked == RangeSet.of((0, 4))
    reading.cut(1)
    reading.now = 2.0
    reading.core.on_tick(2.0)
    (request,) = reading.subscribes()
    assert request.acked == AckedSet(4)


def test_what_is_not_its_turn_any_more_is_not_delivered():
    reading = DrivenRounds(1)
    reading.follow()
    reading.frame(1, 0)
    reading.release((1, 0))
    found = reading.core.next_slice(0.0)
    reading.core.skip_to(1, 0.0)

    assert not reading.core.deliver(found, 0.0)
    assert reading.core.acks.deliveries.next_tag == 0


GONE = Failure("Refused", ("a reader of task 1 wants group 0, and all have taken those below 2",))


def test_a_request_that_came_when_its_groups_were_skipped_is_made_again_behind_them():
    reading = DrivenRounds(1)
    reading.release((1, 0), (1, 1), (1, 2))
    reading.effects()
    reading.core.skip_to(2, 0.0)

    reading.end(1, GONE)

    assert reading.pull() is NoElement.WAIT, "what the dispatcher knows is asked for first"
    assert reading.beats() == 1
    reading.view(answers=False)
    assert reading.subscribes() == []
    reading.view()
    (again,) = reading.subscribes()
    assert again.wants == GroupsWanted(1, 2)
    reading.frame(1, 2)
    assert reading.pull() == (1, 2, 1)


def test_what_is_refused_again_is_raised():
    reading = DrivenRounds(1)
    reading.effects()
    reading.end(1, GONE)
    reading.view()
    assert len(reading.subscribes()) == 1

    reading.end(1, GONE)

    with pytest.raises(Refused, match="those below 2"):
        reading.pull()


def test_who_comes_when_the_pass_is_over_stands_at_its_end():
    reading = DrivenRounds()
    reading.start = reading.first = 5

    reading.view(finished=True, last=5)

    assert reading.core.locate(reading.now) == reading.core.round == 5
    assert reading.core.finished


def test_what_is_here_is_handed_out_though_the_pass_is_over():
    reading = DrivenRounds(1)
    reading.frame(1, 0)
    reading.release((1, 0))
    reading.first = reading.start = 1

    reading.view(finished=True, last=1)

    assert reading.core.look(reading.now) is True


class _Struck(BaseException):
    """Stands for Ctrl-C."""


@pytest.mark.parametrize("where", ["add", "discard", "hand_out"])
def test_ctrl_c_while_rounds_are_handed_out_loses_none_of_them(where, monkeypatch):
    reading = DrivenRounds(1)
    reading.follow(8)
    reading.frame(1, *range(4))
    reading.release(*((1, group) for group in range(4)))
    assert reading.pull() == (1, 0, 1)
    core = reading.core
    inside = {"add": core.acks.deliveries, "discard": core._groups, "hand_out": core.log}[where]
    made, calls = getattr(inside, where), []

    def strike(*args):
        calls.append(args)
        if len(calls) == (2 if where == "discard" else 1):
            raise _Struck
        made(*args)

    with monkeypatch.context() as patch, pytest.raises(_Struck):
        patch.setattr(inside, where, strike)
        core.deliver(core.next_slice(0.0), 0.0)

    reading.effects()
    reading.buffer.held.clear()  # operators begin anew, and what they had is requeued
    core.requeue(RangeSet.of((0, core.acks.deliveries.next_tag)), 0.0)
    for request in reading.subscribes():
        reading.frame(1, *range(request.wants.group, 4))
    assert [group for _, group, _ in reading.pull_all()] == [0, 1, 2, 3]


@pytest.mark.parametrize("behind", [True, False])
def test_rounds_that_were_skipped_are_counted_once_and_not_fetched(behind):
    reading = DrivenRounds(1)
    reading.follow(8)
    reading.frame(1, *range(6))
    reading.release(*((1, group) for group in range(6)))
    for _ in range(2):
        reading.pull()
    if behind:
        reading.core.requeue(RangeSet.of((0, 2)), 0.0)

    reading.core.skip_to(4, 0.0)
    reading.core.skip_to(4, 0.0)
    reading.core.requeue(RangeSet.of((0, 2)), 0.0)

    assert (reading.core.skipped, reading.core.round) == (4, 4)
    assert [group for _, group, _ in reading.pull_all()] == [4, 5]
