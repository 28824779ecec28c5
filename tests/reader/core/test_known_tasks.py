"""What a reader knows of its tasks, by views that say all, or what changed."""

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.types import ReaderStatus
from penstock.reader.core.known_tasks import KnownTasks

HERE, THERE = TaskView(1, "w:1"), TaskView(2, "w:2")


def view(revision, tasks, since=None, over=()):
    live = ReaderStatus.LIVE
    return ReaderView(revision, "r", 1, live, 1, tasks, changes_since=since, over=over)


def test_a_view_without_a_revision_to_build_on_says_all_tasks():
    known = KnownTasks()
    known.take(view(3, {1: HERE, 2: HERE}))

    assert known.take(view(4, {2: THERE})) == {2: THERE}
    assert known.as_of == 4


def test_changes_are_added_to_what_is_known_and_tasks_that_are_over_go():
    known = KnownTasks()
    known.take(view(3, {1: HERE, 2: HERE, 3: HERE}))

    assert known.take(view(5, {2: THERE}, since=3, over=(1,))) == {2: THERE, 3: HERE}
    assert known.as_of == 5


def test_changes_since_an_older_revision_than_is_known_are_no_harm():
    known = KnownTasks()
    known.take(view(3, {1: HERE}))
    known.take(view(5, {2: HERE}, since=3))

    assert known.take(view(5, {2: HERE}, since=3)) == {1: HERE, 2: HERE}
    assert known.take(view(6, {1: THERE, 2: HERE}, since=3)) == {1: THERE, 2: HERE}
    assert known.as_of == 6


def test_changes_of_what_is_not_known_are_not_taken_and_it_says_as_of_when_it_knows():
    known = KnownTasks()
    known.take(view(3, {1: HERE}))

    assert known.take(view(9, {2: THERE}, since=7)) == {1: HERE}
    assert known.as_of == 3
