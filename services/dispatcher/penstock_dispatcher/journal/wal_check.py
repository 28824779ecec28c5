"""How SQLite's write-ahead log of a killed dispatcher ends: whole, torn, or broken in the middle.

SQLite reads the log up to the first frame whose checksum is wrong, and silently ignores the rest. A
write that was cut short looks like that, and was never acknowledged. A damaged byte before a
thousand acknowledged transactions looks the same. So the dispatcher checks the log before SQLite
reads it.

The format is described at https://www.sqlite.org/fileformat2.html#walformat: a header, then a frame
for each page. Each checksum continues that of the frame before.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x377F0682
"""The lowest bit says that checksums read big-endian words."""

HEADER = struct.Struct(">8I")
FRAME = struct.Struct(">6I")
SUMMED = 24
"""The checksum of the header covers this many of its bytes."""

MASK = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Tail:
    """The *nbytes* of a log behind its last whole transaction, which ends at byte *at*.

    They were never acknowledged, unless the log is *broken*: then later transactions follow.
    """

    at: int
    nbytes: int = 0
    broken: bool = False


def inspect(file: Path) -> Tail:
    """Find the tail of a write-ahead log; a missing file is an empty log."""
    data = file.read_bytes() if file.exists() else b""
    if len(data) < HEADER.size:
        return Tail(0, len(data))
    magic, _, page, resets, *salts, first, second = HEADER.unpack_from(data)
    sums = _follow((0, 0), data[:SUMMED], magic)
    if magic & ~1 != MAGIC or sums != (first, second):
        return Tail(0, len(data), broken=len(data) > HEADER.size and not _begins_anew(data))
    size = FRAME.size + page
    starts = range(HEADER.size, len(data) - size + 1, size)
    frames = [FRAME.unpack_from(data, start) for start in starts]
    whole = 0
    for number, (start, (_, commits, *salt, one, two)) in enumerate(
        zip(starts, frames, strict=True)
    ):
        sums = _follow(
            sums, data[start : start + 8] + data[start + FRAME.size : start + size], magic
        )
        if salt != salts or sums != (one, two):
            break
        whole = number + 1 if commits else whole
    at = HEADER.size + whole * size
    # Behind the newest frames stand those of earlier rounds of the log, whose salts are lower.
    newest = [n for n, frame in enumerate(frames) if (salts[0] - frame[2] - 1) & MASK >= resets]
    rest = (len(data) - HEADER.size) % size
    stop = len(data) if rest else HEADER.size + (max(newest, default=-1) + 1) * size
    # The last transaction may be torn. A transaction before it was whole when the next one began.
    current = [n for n in range(whole, len(frames)) if list(frames[n][2:4]) == salts]
    end = next((n for n in current if frames[n][1]), None)
    return Tail(at, max(0, stop - at), broken=end is not None and current[-1] > end)


def _begins_anew(data: bytes) -> bool:
    """Return whether the header is torn because SQLite was restarting the log.

    Its first bytes are then those of the new header, and the others those of the old one, whose
    salts are in the first frame. All transactions of the old log were copied into the database
    before.
    """
    if len(data) < HEADER.size + FRAME.size:
        return False
    magic, version, page, resets, _, second, *_ = HEADER.unpack_from(data)
    salts = FRAME.unpack_from(data, HEADER.size)[2:4]
    for before in {resets, (resets - 1) & MASK}:
        old = _header(magic, version, page, before, *salts)
        new = _header(magic, version, page, (before + 1) & MASK, (salts[0] + 1) & MASK, second)
        if any(data[: HEADER.size] == new[:cut] + old[cut:] for cut in range(HEADER.size)):
            return True
    return False


def _header(*words: int) -> bytes:
    """Return a header of these words, and their checksums."""
    return HEADER.pack(*words, *_follow((0, 0), struct.pack(">6I", *words), words[0]))


def _follow(sums: tuple[int, int], data: bytes, magic: int) -> tuple[int, int]:
    """Return the checksum behind *data*, which begins with *sums*."""
    x, y = sums
    for u, v in struct.iter_unpack(">2I" if magic & 1 else "<2I", data):
        x = (x + u + y) & MASK
        y = (y + v + x) & MASK
    return x, y
