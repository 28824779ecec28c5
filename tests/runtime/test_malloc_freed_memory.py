import asyncio

import pytest

from penstock.runtime import malloc
from penstock.runtime.malloc import MMAP_THRESHOLD, TRIM_EVERY, FreedMemory, TrimTimes


def test_memory_is_given_back_at_once_and_then_once_more_after_a_period():
    times = TrimTimes()

    assert times.after(100) == (True, TRIM_EVERY)
    assert times.after(102) == (False, None), "the trim that is planned follows this message, too"
    assert times.owed(), "the period is over"
    assert times.after(100 + TRIM_EVERY) == (True, TRIM_EVERY)


def test_a_message_after_the_planned_trim_and_within_a_period_plans_the_next_one():
    times = TrimTimes()
    times.after(100)
    assert times.owed(), "the reader has ended"

    assert times.after(101) == (False, TRIM_EVERY - 1)


def test_a_trim_that_was_done_is_owed_no_more():
    times = TrimTimes()
    assert not times.owed()
    times.after(100)
    assert times.owed()
    assert not times.owed()


@pytest.fixture
def given_back(monkeypatch):
    calls = []
    monkeypatch.setattr(malloc, "trim", lambda: calls.append(1))
    return calls


async def test_small_messages_give_nothing_back(given_back):
    memory = FreedMemory()

    memory.received(MMAP_THRESHOLD - 1)
    assert given_back == []
    memory.received(MMAP_THRESHOLD)
    assert given_back == [1]
    memory.settle()
    assert given_back == [1, 1]


async def test_what_a_message_freed_late_is_given_back_without_another_message(
    given_back, monkeypatch
):
    monkeypatch.setattr(malloc, "TRIM_EVERY", 0.01)
    memory = FreedMemory()

    memory.received(MMAP_THRESHOLD)
    async with asyncio.timeout(10):
        while len(given_back) < 2:
            await asyncio.sleep(0.001)
