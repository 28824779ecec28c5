"""What a reader in order may have: a sum for all tasks, and room for the first in any case."""

import pytest

from penstock.reader.core.limits import MIN_WINDOW, InOrderByteLimit, InOrderFrameLimit
from penstock.reader.core.task_stream import TaskStream

MIB = 1 << 20


def stream(task, nbytes=0, frames=0, **changed):
    one = TaskStream(task, worker="w", streaming=True, nbytes=nbytes, **changed)
    one.slices = [object()] * frames
    return one


def streams(*all_of_them):
    return {one.task: one for one in all_of_them}


def test_tasks_that_have_come_fill_the_sum_so_that_later_ones_get_nothing():
    limit = InOrderByteLimit(4 * MIB)
    first, here, later = stream(1), stream(2, 4 * MIB, all_sent=True), stream(3)
    known = streams(first, here, later)

    assert limit.initial_credit(later, known, 0.0) == 0
    assert limit.initial_credit(first, known, 0.0) >= MIN_WINDOW


def test_when_the_first_has_come_the_next_is_the_first():
    limit = InOrderByteLimit(4 * MIB)
    known = streams(stream(1, 4 * MIB, all_sent=True), later := stream(2))

    assert limit.initial_credit(later, known, 0.0) >= MIN_WINDOW


def test_many_tasks_of_which_nothing_is_here_share_the_sum():
    limit, known = InOrderByteLimit(64 * MIB), streams(*map(stream, range(16)))
    for one in known.values():
        one.balance = limit.initial_credit(one, known, 0.0)

    assert sum(one.balance for one in known.values()) == 64 * MIB


def test_a_task_that_was_sent_gets_room_again_only_when_it_has_none():
    limit = InOrderByteLimit(4 * MIB)
    known = streams(stream(0), sent := stream(1, all_sent=True, window=MIB, balance=1))

    assert limit.credit(sent, known, 0.0) == 0
    sent.balance = 0
    assert limit.credit(sent, known, 0.0) > 0


@pytest.mark.parametrize(("here", "more"), [(1, 1), (2, 0)])
def test_frames_of_all_tasks_are_counted(here, more):
    limit = InOrderFrameLimit(2)
    first, later = stream(1), stream(3)
    known = streams(first, stream(2, frames=here, all_sent=True), later)

    assert limit.initial_credit(later, known, 0.0) == more
    assert limit.initial_credit(first, known, 0.0) == 1
