"""How long a buffer pays: scenarios and laws; the budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.autotune.buffers import FIRST, LONGEST, BufferTuner

PLENTY = 1e12


def after(tuner, events, room=PLENTY, nbytes=1.0):
    """Let it be found (f)ull and (e)mpty; return the size behind each."""
    sizes = []
    for event in events:
        tuner.full() if event == "f" else tuner.empty(room=room, nbytes=nbytes)
        sizes.append(tuner.size)
    return sizes


def test_it_doubles_when_it_is_empty_after_it_was_full():
    assert after(BufferTuner(), "effefe") == [2, 2, 2, 4, 4, 8]


def test_an_input_that_is_slow_makes_no_buffer_longer():
    assert after(BufferTuner(), "e" * 50) == [FIRST] * 50


def test_a_reader_that_is_slow_makes_no_buffer_longer():
    assert after(BufferTuner(), "f" * 50) == [FIRST] * 50


def test_it_grows_no_more_than_there_is_room_for():
    assert after(BufferTuner(), "fe", room=19, nbytes=10) == [2, 2]
    assert after(BufferTuner(), "fe", room=20, nbytes=10) == [2, 4]


def test_it_is_halved_while_it_is_too_large_down_to_one_element():
    tuner = BufferTuner(8)

    fitted = [tuner.fit(excess=excess) for excess in (0, 1, 1, 1, 1)]

    assert fitted == [False, True, True, True, False]
    assert tuner.size == 1


@given(st.lists(st.tuples(st.booleans(), st.floats(-100, 1e6), st.floats(0, 1e4))))
def test_laws(events):
    tuner = BufferTuner()
    for full, room, nbytes in events:
        before = tuner.size

        if full:
            tuner.full()
        grew = not full and tuner.empty(room=room, nbytes=nbytes)

        assert 1 <= tuner.size <= LONGEST
        assert tuner.size == (2 * before if grew else before)
        if grew:
            assert before * nbytes <= room
        if room < 0:
            tuner.fit(excess=-room)
