"""Decides how many pieces of a file are asked for before the reader needs them.

To keep a link busy, bandwidth times delay bytes must be in flight. The reader's own speed stands
for the bandwidth, because more bytes are of no use. If the reader works `w` seconds on a piece, and
a piece takes `d` seconds to come, then `d / w` pieces must be in flight.
"""

from __future__ import annotations

from collections import deque
from math import ceil

FIRST = 4
"""The number of pieces before anything was measured."""

LEAST, MOST = 2, 8
"""Bounds of the number of pieces. `MOST` bounds the memory of an open file."""

_RECENT = 4


class ReadAhead:
    """The pieces of one file that are read from its start to its end."""

    def __init__(self) -> None:
        self._delays: deque[float] = deque(maxlen=_RECENT)
        self._works: deque[float] = deque(maxlen=_RECENT)

    def arrived(self, seconds: float) -> None:
        """Note that a piece came *seconds* after it was asked for."""
        self._delays.append(seconds)

    def worked(self, seconds: float) -> None:
        """Note that the reader asked for the next piece *seconds* after it had the one before."""
        self._works.append(seconds)

    @property
    def pieces(self) -> int:
        """How many pieces to ask for, the one that the reader needs now among them."""
        if not self._delays or not self._works:
            return FIRST
        delay, work = max(self._delays), sum(self._works) / len(self._works)
        if delay >= MOST * work:
            return MOST
        return min(max(ceil(delay / work) + 1, LEAST), MOST)
