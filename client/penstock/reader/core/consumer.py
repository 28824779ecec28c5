"""The consumer that reads, if elements belong to consumers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Consumer:
    """Which consumer reads, of how many, and with which round it asks to begin.

    One that is *strided* reads no rounds: it gets every n-th element of one order.
    """

    index: int
    count: int
    start_round: int | None = None
    strided: bool = False
