"""Places in the shared memory, and the memory itself."""

import errno
import fcntl
import mmap
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_worker.runner import main
from penstock_worker.runner.arena import ALIGNMENT, Allocator, Arena, LeftMemory, SealedMemory, span

PAGE = mmap.PAGESIZE
BUDGET, LARGEST = 16 * PAGE, 64 * PAGE


@pytest.fixture
def memory():
    memory = SealedMemory(span(BUDGET, LARGEST))
    yield memory
    memory.close()


def allocated(memory):
    return os.fstat(memory.fd).st_blocks * 512


def test_the_first_place_that_is_free_is_used_again():
    places = Allocator(1024, 4096)
    first, second, third = (places.take(64) for _ in range(3))

    places.free(second)
    again = places.take(10)

    assert (first, second, third) == (0, 64, 128)
    assert again == second


def test_neighbours_that_are_free_become_one():
    places = Allocator(1024, 4096)
    first, second, third, fourth = (places.take(256) for _ in range(4))

    for offset in (first, third, second):
        places.free(offset)

    assert places.take(768) == first
    assert fourth == 768


def test_no_more_than_the_budget_is_in_use():
    places = Allocator(1024, 8192)
    offset = places.take(1000)

    assert places.take(64) is None
    places.free(offset)
    assert places.take(64) == 0


def test_one_giant_at_a_time_is_given_beside_the_budget():
    places = Allocator(1024, 1024 + 4096)
    giant = places.take(4096)

    assert places.take(2048) is None
    assert places.take(1024) == 4096
    places.free(giant)
    assert places.take(2048) == 0


def test_what_a_giant_leaves_beyond_the_budget_is_named():
    places = Allocator(1024, 1024 + 4096)
    small, giant = places.take(512), places.take(4096)

    beyond_small, beyond_giant = places.free(small), places.free(giant)

    assert beyond_small[0] == beyond_small[1]
    assert beyond_giant == (1024, 1024 + 4096)


def test_a_place_that_is_not_there_cannot_be_freed():
    places = Allocator(1024, 4096)

    with pytest.raises(KeyError):
        places.free(64)


@given(st.lists(st.one_of(st.integers(0, 700), st.integers(-40, -1)), max_size=120))
def test_places_never_overlap_and_nothing_is_lost(steps):
    budget, size = 1024, 1024 + 700
    places = Allocator(budget, size)
    live = {}
    for step in steps:
        if step >= 0:
            offset = places.take(step)
            if offset is None:
                continue
            assert offset % ALIGNMENT == 0
            assert 0 <= offset <= size - step
            assert all(offset >= at + n or offset + max(step, 1) <= at for at, n in live.items())
            live[offset] = max(step, 1)
        elif live:
            offset = sorted(live)[step % len(live)]
            del live[offset]
            places.free(offset)
        assert places.in_use == sum(-(-n // ALIGNMENT) * ALIGNMENT for n in live.values())
        assert places.in_use <= budget
    for offset in live:
        places.free(offset)

    assert places.take(budget) == 0
    assert list(places) == [0]


def test_the_worker_reads_what_the_runner_writes(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    memory.release()

    offset = arena.take(5)
    arena.room(offset, 5)[:] = b"hello"

    assert bytes(memory.memory[offset : offset + 5]) == b"hello"
    assert memory.memory.readonly


def test_readers_cannot_write_and_the_length_is_sealed(memory):
    with pytest.raises(PermissionError):
        mmap.mmap(memory.fd, PAGE)
    for change in (PAGE, 2 * span(BUDGET, LARGEST)):
        with pytest.raises(PermissionError):
            os.ftruncate(memory.writable, change)
    with pytest.raises(OSError) as caught:
        fcntl.fcntl(memory.writable, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert caught.value.errno == errno.EPERM


def test_memory_beyond_the_budget_goes_back_when_a_giant_is_freed(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    offset = arena.take(LARGEST)
    arena.room(offset, LARGEST)[:] = bytes(LARGEST)
    before = allocated(memory)

    arena.free(offset)

    assert before == LARGEST
    assert allocated(memory) == BUDGET


def test_clearing_frees_every_place(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    for nbytes in (PAGE, 3 * PAGE, LARGEST):
        offset = arena.take(nbytes)
        arena.room(offset, nbytes)[:] = bytes(nbytes)

    arena.clear()

    assert allocated(memory) <= BUDGET
    assert arena.take(BUDGET) == 0


def test_a_view_outlives_the_memory(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    arena.room(0, 5)[:] = b"hello"
    view = memory.memory[0:5]

    memory.close()
    memory.close()

    assert bytes(view) == b"hello"


def test_an_arena_that_is_not_read_frees_all_memory(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    for nbytes in (BUDGET // 2, LARGEST):
        offset = arena.take(nbytes)
        arena.room(offset, nbytes)[:] = bytes(nbytes)

    main.tidy_up(None, frozenset())
    kept = allocated(memory)
    main.tidy_up(arena, frozenset())

    assert kept == BUDGET // 2 + LARGEST
    assert allocated(memory) == 0
    assert arena.take(BUDGET) == 0


def test_a_window_bounds_all_that_is_in_use_here_and_elsewhere():
    places = Allocator(1024, 8192)
    assert places.set_window((4096, 1024)) == []

    assert [places.take(1024) for _ in range(4)] == [0, 1024, 2048, None]
    assert places.set_window((4096, 0)) == []
    assert places.take(1024) == 3072


def test_in_a_window_a_larger_place_stands_alone():
    places = Allocator(1024, 8192)
    places.set_window((2048, 64))
    assert places.take(4096) is None
    places.set_window((2048, 0))
    assert places.take(4096) == 0
    assert places.take(64) is None

    places.free(0)
    assert places.take(64) == 0
    assert places.take(4096) is None


def test_a_smaller_window_gives_back_all_that_is_free(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    arena.set_window((64 * PAGE, 0))
    offsets = [arena.take(16 * PAGE) for _ in range(4)]
    for offset in offsets:
        arena.room(offset, 16 * PAGE)[:] = bytes(16 * PAGE)
    arena.free(offsets[0])
    arena.free(offsets[2])
    assert allocated(memory) == 64 * PAGE

    arena.set_window((32 * PAGE, 0))
    assert allocated(memory) == 32 * PAGE
    arena.set_window(None)
    assert arena.take(PAGE) is None
    arena.free(offsets[1])
    arena.free(offsets[3])
    assert allocated(memory) <= 16 * PAGE
    assert arena.take(PAGE) == 0


def test_of_a_runner_that_is_gone_only_its_frames_are_kept(memory):
    arena = Arena(memory.writable, BUDGET, LARGEST)
    places = [arena.take(4 * PAGE) for _ in range(4)]
    for number, offset in enumerate(places):
        arena.room(offset, 4 * PAGE)[:] = bytes([number]) * 4 * PAGE
    memory.release()

    left = LeftMemory(memory.fd, [(places[2], 4 * PAGE), (places[1], 4 * PAGE)])
    assert (left.nbytes, allocated(memory)) == (8 * PAGE, 8 * PAGE)
    kept = left.frame(places[2])
    left.free(places[1])
    assert bytes(kept) == bytes([2]) * 4 * PAGE
    assert (left.nbytes, allocated(memory)) == (4 * PAGE, 4 * PAGE)
    left.free(places[2])
    assert not left


def test_of_small_frames_of_a_runner_that_is_gone_each_page_goes_back_with_its_last(memory):
    arena, nbytes = Arena(memory.writable, BUDGET, LARGEST), PAGE * 3 // 8
    places = [arena.take(nbytes) for _ in range(40)]
    for number, offset in enumerate(places):
        arena.room(offset, nbytes)[:] = bytes([number]) * nbytes
    memory.release()
    left = LeftMemory(memory.fd, [(offset, nbytes) for offset in places])
    kept = dict(enumerate(places))

    for number in random.Random(1).sample(range(40), 40):
        left.free(kept.pop(number))
        pages = {at // PAGE for offset in kept.values() for at in (offset, offset + nbytes - 1)}
        assert allocated(memory) == len(pages) * PAGE
        for still, offset in kept.items():
            assert bytes(left.frame(offset)) == bytes([still]) * nbytes


def test_a_budget_for_a_run_bounds_it_until_another_run_has_another():
    places = Allocator(1024, 8192)
    places.set_budget(128)
    assert places.set_window(None) == [(0, 8192)]
    assert [places.take(64) for _ in range(3)] == [0, 64, None]
    assert places.take(512) == 128, "a larger place stands beside the budget"

    places.set_budget(0)
    places.set_window(None)
    assert places.take(512) == 640


def test_a_budget_for_a_run_is_never_more_than_at_first():
    places = Allocator(128, 8192)
    places.set_budget(4096)
    places.set_window(None)

    assert [places.take(128), places.take(128)] == [0, None]
