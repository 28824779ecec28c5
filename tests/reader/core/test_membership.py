"""A reader at the dispatcher: its lease, and the tasks that it was told of."""

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.types import ReaderStatus
from penstock.reader.core.effects import SendHeartbeat
from penstock.reader.core.membership import KnownTasks
from penstock.reader.core.session_core import NoElement

WAIT, OVER = NoElement.WAIT, NoElement.END


def test_nothing_is_handed_out_after_the_lease_until_it_is_renewed(reading):
    reading.frame(0, 2)
    reading.frame(2, 4)
    reading.ask()
    reading.now = 31.0
    assert reading.ask() is WAIT

    reading.view((1, 1, "w"))

    assert reading.ask() == (1, 1, 2)


def test_permission_runs_from_the_sending_of_the_heartbeat_that_was_answered(driven_core):
    reader = driven_core()
    reader.core.heartbeat(0.0)
    reader.core.heartbeat(10.0)
    reader.now = 20.0
    reader.view((1, 1, "w"), answers=False)
    assert reader.core.membership.lease_until == float("-inf")

    reader.now = 12.0
    reader.view((1, 1, "w"))

    assert reader.core.membership.lease_until == 42.0


def test_a_reader_that_was_never_let_in_simply_goes(driven_core):
    reader = driven_core()
    reader.core.leave(0.0)

    assert reader.core.membership.left
    assert reader.effects() == []


def test_a_reader_whose_first_heartbeat_is_not_answered_yet_does_not_simply_go(driven_core):
    reader = driven_core()
    reader.core.heartbeat(0.0)

    reader.core.leave(0.0)

    assert not reader.core.membership.left
    assert reader.effects() == [SendHeartbeat()]
    heartbeat = reader.core.heartbeat(0.0)
    assert heartbeat.leaving
    assert heartbeat.reader is None
    reader.view((1, 1, "w"), reader=7)  # the answer to the first heartbeat
    assert not reader.core.membership.left
    reader.view(status=ReaderStatus.LEFT, reader=7)
    assert reader.core.membership.left


HERE, THERE = TaskView(1, "w:1"), TaskView(2, "w:2")


def told(revision, tasks, since=None, over=()):
    live = ReaderStatus.LIVE
    return ReaderView(revision, "r", 1, live, 1, tasks, changes_since=since, over=over)


def test_a_view_without_a_revision_to_build_on_says_all_tasks():
    known = KnownTasks()
    known.take(told(3, {1: HERE, 2: HERE}))

    assert known.take(told(4, {2: THERE})) == {2: THERE}
    assert known.as_of == 4


def test_changes_are_added_to_what_is_known_and_tasks_that_are_over_go():
    known = KnownTasks()
    known.take(told(3, {1: HERE, 2: HERE, 3: HERE}))

    assert known.take(told(5, {2: THERE}, since=3, over=(1,))) == {2: THERE, 3: HERE}
    assert known.as_of == 5


def test_changes_since_an_older_revision_than_is_known_are_no_harm():
    known = KnownTasks()
    known.take(told(3, {1: HERE}))
    known.take(told(5, {2: HERE}, since=3))

    assert known.take(told(5, {2: HERE}, since=3)) == {1: HERE, 2: HERE}
    assert known.take(told(6, {1: THERE, 2: HERE}, since=3)) == {1: THERE, 2: HERE}
    assert known.as_of == 6


def test_changes_of_what_is_not_known_are_not_taken_and_it_says_as_of_when_it_knows():
    known = KnownTasks()
    known.take(told(3, {1: HERE}))

    assert known.take(told(9, {2: THERE}, since=7)) == {1: HERE}
    assert known.as_of == 3
