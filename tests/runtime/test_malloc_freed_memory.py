from penstock.runtime import malloc
from penstock.runtime.malloc import MMAP_THRESHOLD, TRIM_EVERY, FreedMemory, TrimTimes


def test_memory_is_given_back_at_once_and_then_once_in_a_period():
    times = TrimTimes()

    assert times.after(100) == 0
    assert times.after(101) == TRIM_EVERY - 1
    assert times.after(102) is None, "that was said"
    assert times.after(100 + TRIM_EVERY) == 0, "as said"
    assert times.after(100 + 3 * TRIM_EVERY) == 0, "there was nothing for a period"


def test_what_was_to_be_given_back_later_is_given_back_when_a_reader_ends():
    times = TrimTimes()
    times.after(100)
    assert not times.owed(101)
    times.after(101)
    assert times.owed(102)
    assert not times.owed(102), "it was given back"


def test_small_messages_give_nothing_back(monkeypatch):
    given_back = []
    monkeypatch.setattr(malloc, "trim", lambda: given_back.append(1))
    memory = FreedMemory()

    memory.received(MMAP_THRESHOLD - 1)
    assert given_back == []
    memory.received(MMAP_THRESHOLD)
    assert given_back == [1]
