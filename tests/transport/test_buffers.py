"""Buffers of a link: who uses them when, and what goes back to the system."""

import threading

import numpy as np
import pytest

from penstock.transport import buffers
from penstock.transport.buffers import LARGEST, LEAST, FrameBuffers


def address(root):
    return root.__array_interface__["data"][0]


def test_a_buffer_is_used_again_when_its_last_view_has_died():
    pool = FrameBuffers()
    root = pool.take(100_000)
    where = address(root)
    view = np.frombuffer(root.data[8:16], np.int64)
    del root

    assert address(pool.take(100_000)) != where
    del view
    assert address(pool.take(90_000)) == where


def test_a_live_view_is_never_overwritten():
    pool, kept = FrameBuffers(), []
    for number in range(50):
        root = pool.take(LEAST)
        root[:] = number
        if number % 3 == 0:
            kept.append((number, root))

    assert all((root == number).all() for number, root in kept)
    assert pool.lent_nbytes == (len(kept) + (root is not kept[-1][1])) * LEAST


def test_what_is_lent_and_what_is_idle_is_counted():
    pool = FrameBuffers()
    held, freed = pool.take(1), pool.take(LEAST + 1)
    assert (pool.lent_nbytes, pool.idle_nbytes) == (3 * LEAST, 0)

    del freed
    assert (pool.lent_nbytes, pool.idle_nbytes) == (LEAST, 2 * LEAST)
    assert len(held) == 1


def test_no_more_is_kept_than_may_be_idle(monkeypatch):
    monkeypatch.setattr(buffers, "MOST_IDLE", 4 * LEAST)
    pool = FrameBuffers()
    roots = [pool.take(LEAST) for _ in range(10)]
    del roots[:]

    assert pool.idle_nbytes == 4 * LEAST


def test_a_large_buffer_goes_back_to_the_system_at_once():
    pool = FrameBuffers()
    root = pool.take(LARGEST + 1)
    assert pool.lent_nbytes == LARGEST + 1

    del root
    assert (pool.lent_nbytes, pool.idle_nbytes) == (0, 0)


def test_idle_buffers_go_back_to_the_system_when_none_was_taken_for_a_while():
    pool = FrameBuffers()
    pool.take(LEAST)
    pool.trim()
    assert pool.idle_nbytes == LEAST

    pool.trim()
    assert pool.idle_nbytes == 0


def test_after_the_end_views_keep_what_they_show_and_nothing_else_is_kept():
    pool = FrameBuffers()
    root = pool.take(LEAST)
    root[:] = 7
    pool.take(LEAST)
    pool.close()
    assert (pool.lent_nbytes, pool.idle_nbytes) == (0, 0)

    assert (root == 7).all()
    del root
    assert pool.idle_nbytes == 0


@pytest.mark.quick(1)
def test_views_may_die_in_any_thread():
    pool, roots = FrameBuffers(), []

    def drop():
        while roots:
            try:
                roots.pop()
            except IndexError:
                return

    for _ in range(20):
        roots.extend(pool.take(LEAST) for _ in range(20))
        threads = [threading.Thread(target=drop) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert (pool.lent_nbytes, pool.idle_nbytes) == (0, 20 * LEAST)
