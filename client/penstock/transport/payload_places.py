"""Where the payloads of several frames lie that follow one message on a connection."""

from __future__ import annotations

from collections.abc import Iterable

ALIGNMENT = 64
"""Each payload begins at a multiple of so many bytes after the end of the message."""


def payload_places(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """Return where each payload begins and ends, in bytes after the message.

    >>> payload_places([10, 100, 1])
    [(0, 10), (64, 164), (192, 193)]
    """
    places, stop = list[tuple[int, int]](), 0
    for nbytes in sizes:
        start = -(-stop // ALIGNMENT) * ALIGNMENT
        stop = start + nbytes
        places.append((start, stop))
    return places
