"""What a dispatcher that died leaves in SQLite's write-ahead log: a torn end, or a broken middle.

SQLite reads the log up to the first frame whose checksum is wrong, and ignores the rest in
silence. A write that was cut short looks like that, and was never acknowledged; but so does a bad
byte before a thousand transactions that were. So the log is checked before SQLite gets it.

The format is that of https://www.sqlite.org/fileformat2.html#walformat: a header, then a frame for
each page, with checksums that go on from frame to frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

Words: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"

MAGIC = 0x377F0682
"""The lowest bit says that checksums read big-endian words."""

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Tail:
    """What a log holds behind its last whole transaction, in bytes from *at* on.

    It was never acknowledged, unless it is *broken*: then later transactions stand behind it.
    """

    at: int
    nbytes: int = 0
    broken: bool = False


def inspect(file: Path) -> Tail:
    """Look at a write-ahead log; a missing one is empty."""
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return Tail(0)
    if len(data) < HEADER.size:
        return Tail(0, len(data))
    magic, _, page, resets, *salts, first, second = HEADER.unpack_from(data)
    order = ">u4" if magic & 1 else "<u4"
    head = np.frombuffer(data, order, 6).astype(np.uint32)[None]
    if magic & ~1 != MAGIC or _follow((0, 0), head) != [(first, second)]:
        return Tail(0, len(data), broken=len(data) > HEADER.size and not _begins_anew(data, order))
    size = FRAME.size + page
    count, rest = divmod(len(data) - HEADER.size, size)
    frames = np.frombuffer(data, np.uint8, count * size, HEADER.size).reshape(count, size)
    headers = frames[:, : FRAME.size].copy().view(">u4").astype(np.uint32)
    summed = np.concatenate((frames[:, :8], frames[:, FRAME.size :]), axis=1).view(order)
    sums = _follow((first, second), summed.astype(np.uint32))

    current = (headers[:, 2:4] == np.array(salts, np.uint32)).all(axis=1)
    good = current & (headers[:, 4:] == np.array(sums, np.uint32).reshape(count, 2)).all(axis=1)
    older = (np.uint32(salts[0]) - headers[:, 2] - np.uint32(1)) < resets  # of an earlier round
    commits = headers[:, 1] != 0
    whole = _last(commits & np.logical_and.accumulate(good)) + 1
    at = HEADER.size + whole * size
    stop = len(data) if rest else HEADER.size + (_last(~older) + 1) * size
    # The last transaction may be torn; one before it was whole when the next began.
    ends = (current & commits)[whole:].nonzero()[0]
    torn = len(ends) > 0 and bool(current[whole + int(ends[0]) + 1 :].any())
    return Tail(at, max(0, stop - at), broken=torn)


def _begins_anew(data: bytes, order: str) -> bool:
    """Return whether a header was cut short that was to begin the log anew.

    It then has the beginning of the new one, and the rest of the one before, whose salts are those
    of the first frame. All that stands behind it was copied into the database before.
    """
    if len(data) < HEADER.size + FRAME.size:
        return False
    magic, version, page, resets, _, second, *_ = HEADER.unpack_from(data)
    salts = FRAME.unpack_from(data, HEADER.size)[2:4]
    for before in {resets, (resets - 1) & MASK}:
        old = _header(order, magic, version, page, before, *salts)
        new = _header(
            order, magic, version, page, (before + 1) & MASK, (salts[0] + 1) & MASK, second
        )
        if any(data[: HEADER.size] == new[:cut] + old[cut:] for cut in range(HEADER.size)):
            return True
    return False


def _header(order: str, *words: int) -> bytes:
    """Return a header of these words, and their checksums."""
    row = np.array(words, np.uint32).astype(">u4").view(order).astype(np.uint32)[None]
    ((first, second),) = _follow((0, 0), row)
    return HEADER.pack(*words, first, second)


def _last(which: np.ndarray[Any, np.dtype[np.bool_]]) -> int:
    """Return the index of the last that is true, or -1."""
    return int(which.nonzero()[0].max(initial=-1))


def _follow(start: tuple[int, int], rows: Words) -> list[tuple[int, int]]:
    """Return the running checksum behind each of *rows*.

    For each pair of words u, v it does a step, ``x += u + y; y += v + x``, modulo 2**32. That is
    linear: a row adds a sum of its words, each times what the steps behind it make of it.
    """
    matrices = _powers(rows.shape[1] // 2)
    first = [n for (a, b), _ in reversed(matrices[:-1]) for n in (a + b, b)]
    second = [n for _, (c, d) in reversed(matrices[:-1]) for n in (c + d, d)]
    parts = np.stack((rows @ _words(first), rows @ _words(second)), axis=1).tolist()
    (a, b), (c, d) = matrices[-1]
    out, (x, y) = [], start
    for p, q in parts:
        x, y = (a * x + b * y + p) & MASK, (c * x + d * y + q) & MASK
        out.append((x, y))
    return out


def _powers(steps: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the matrices of no step to *steps* steps."""
    a, b, c, d = 1, 0, 0, 1
    out = [((a, b), (c, d))]
    for _ in range(steps):
        a, b, c, d = (a + c) & MASK, (b + d) & MASK, (a + 2 * c) & MASK, (b + 2 * d) & MASK
        out.append(((a, b), (c, d)))
    return out


def _words(values: list[int]) -> Words:
    return np.array([value & MASK for value in values], np.uint32)
