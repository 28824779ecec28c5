"""Places for batches are free again when nothing looks at them, and not before."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest

from penstock.engine.rows import Rows
from penstock.executors import batch_memory
from penstock.executors.batch_memory import MOST_HELD, BatchMemory, Room, cut
from penstock.frames.row_layout import RowLayout

ROWS = 4
LIKE = np.zeros(1 << 12, np.uint8)


@pytest.fixture
def memory():
    made = BatchMemory(RowLayout.of(LIKE, ROWS), LIKE, 2)
    yield made
    made.close()


def filled(memory, value, rows=range(ROWS)):
    """Return the batch of a place of *memory* that is full of *value*."""
    place = memory.place()
    start = place.index * memory.stride
    everywhere(memory)[start : start + memory.layout.nbytes] = value
    return Rows(place, rows).hand_over()


def everywhere(memory):
    """Return all of *memory*, as another process has it."""
    return np.frombuffer(mmap.mmap(memory.file.fd, 0), np.uint8)


def pages(memory):
    return os.fstat(memory.file.fd).st_blocks


def test_a_whole_batch_is_the_memory_itself_and_its_place_is_used_again(memory):
    batch = filled(memory, 7)
    where = batch.ctypes.data
    assert filled(memory, 8).ctypes.data != where
    assert (batch == 7).all()

    del batch

    assert filled(memory, 9).ctypes.data == where


def test_a_view_of_a_part_keeps_the_place(memory):
    part = filled(memory, 7)[1][3:5]

    others = [filled(memory, 8) for _ in range(3)]

    assert part.tolist() == [7, 7]
    assert len({other.ctypes.data for other in others}) == 3


def test_rows_in_another_order_or_fewer_are_a_copy(memory):
    batch = filled(memory, 7, range(3))

    assert batch.shape == (3, 1 << 12)
    assert batch.base is None or not isinstance(batch.base, memoryview)
    assert (batch == 7).all()
    assert not np.shares_memory(batch, Rows(memory.place(), range(ROWS)).hand_over())


def test_users_who_keep_batches_get_copies_and_never_wait(memory):
    kept = [filled(memory, k) for k in range(MOST_HELD)]

    copied = [filled(memory, 100 + k) for k in range(20)]

    assert [int(batch[0, 0]) for batch in kept] == list(range(MOST_HELD))
    assert [int(batch[0, 0]) for batch in copied] == list(range(100, 120))


def test_there_are_no_more_places_than_that(memory):
    taken = [memory.place() for _ in range(2 + MOST_HELD)]

    assert None not in taken
    assert memory.place() is None


def test_memory_goes_back_when_it_is_closed_and_the_last_view_dies(memory):
    kept, gone = filled(memory, 1), filled(memory, 2)
    del gone
    whole = pages(memory)

    memory.close()
    between = pages(memory)
    assert (kept == 1).all()
    del kept

    assert whole > between > pages(memory) == 0


def test_what_a_fork_may_look_at_is_left_as_it_is(memory):
    kept = filled(memory, 1)
    seen = everywhere(memory)[: kept.nbytes]

    batch_memory._forks.add()
    del kept

    assert memory.stale
    assert (seen == 1).all()
    assert not isinstance(filled(memory, 2).base, memoryview)
    memory.close()
    assert (seen == 1).all()


def test_rooms_are_cut_as_their_elements_are(memory):
    first, second = memory.place(), memory.place()
    rooms = [Room(first, 3, 1), Room(second, 0, 4), Room(first, 0, 2)]

    assert list(cut(rooms, 0, 7)) == rooms
    assert list(cut(rooms, 1, 3)) == [Room(second, 0, 2)]
    assert list(cut(rooms, 4, 9)) == [Room(second, 3, 1), Room(first, 0, 2)]
    assert not list(cut([], 0, 3))
