"""Splits, and the logs of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.ranges import NO_RANGES
from penstock.protocol.splits import Split, SplitLog


@given(st.lists(st.integers(1, 5), max_size=10), st.integers(0, 12))
def test_a_log_forgets_its_beginning_and_keeps_its_positions(sizes, position):
    log = SplitLog().plus(Split(0, size) for size in sizes)

    short = log.forget(min(position, log.stop))

    assert short.stop == log.stop
    assert short.after(position) == log.after(position)


def test_an_empty_split_ends_a_pass_and_a_negative_one_is_refused():
    assert not Split(3, 3)
    assert len(Split(3, 7)) == 4
    assert not NO_RANGES
    with pytest.raises(ValueError, match="negative"):
        Split(5, 3)
