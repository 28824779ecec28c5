"""`Pace`: small blocks of slow inputs, large blocks of fast ones."""

from __future__ import annotations

import time

from penstock.engine.iterator import OpIterator
from penstock.engine.pace import Pace


class Source(OpIterator):
    def __init__(self, seconds):
        self.seconds = seconds
        self.asked = []

    def block(self, n):
        self.asked.append(n)
        time.sleep(self.seconds * n)
        return list(range(n))

    def mark(self):
        return lambda back: None


def test_a_fast_input_is_asked_for_more_and_more_but_never_for_too_much():
    source, pace = Source(0), Pace()

    for _ in range(8):
        pace.read(source, 40)

    assert source.asked[0] == 1
    assert sorted(source.asked) == source.asked
    assert max(source.asked) <= 40


def test_a_slow_input_is_asked_for_one_at_a_time():
    source, pace = Source(0.004), Pace()

    for _ in range(5):
        pace.read(source, 40)

    assert source.asked == [1] * 5
