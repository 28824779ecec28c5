"""Where the Zstandard frames of a file begin, so that several workers can unpack it.

The seekable format has a table of its frames at its end. Without one, the headers of frames and
blocks say how long each is; of remote files only a table is read.
https://www.rfc-editor.org/rfc/rfc8878 has the format, and
https://github.com/facebook/zstd/tree/dev/contrib/seekable_format that of the table.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import accumulate
from typing import BinaryIO

from penstock import stored_file
from penstock.file_parts import FilePart

_FRAME = 0xFD2FB528
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_TABLE = struct.Struct("<IBI")
_TABLE_MAGIC = 0x8F92EAB1
_SKIP = struct.Struct("<II")
_BUFFER = 512
"""Bytes that are read for a header: blocks are much longer, and are passed over."""

_SIZES_OF_ID = (0, 1, 2, 4)
_SIZES_OF_CONTENT = (0, 2, 4, 8)
_REPEATED = 1
"""The type of a block that holds one byte, and how often it occurs."""


def first_frame(part: FilePart) -> int | None:
    """Return where the first frame begins that begins in *part*; None if none does.

    Of a file that cannot be divided, the first part has the only frame that is told.
    """
    starts = _frames(part.name, part.version)
    stop = part.size if part.stop is None else part.stop
    return next((at for at in starts if part.start <= at < stop), None)


def is_divisible(part: FilePart) -> bool:
    """Return whether the file of *part* has several frames, and it is known where they begin."""
    return bool(part.version) and len(_frames(part.name, part.version)) > 1


@lru_cache(maxsize=32)
def _frames(name: str, version: str) -> tuple[int, ...]:
    size = FilePart(name, version=version).size
    with stored_file.open_file(name, _BUFFER) as file:
        starts = _told(file, size)
        return starts if starts or stored_file.is_url(name) else _found(file, size)


def _told(file: BinaryIO, size: int) -> tuple[int, ...]:
    """Return what the table at the end of the seekable format says; nothing without one."""
    if size < _TABLE.size + _SKIP.size:
        return ()
    file.seek(size - _TABLE.size)
    count, flags, magic = _TABLE.unpack(file.read(_TABLE.size))
    entry = 12 if flags & 0x80 else 8
    begin = size - _TABLE.size - count * entry
    if magic != _TABLE_MAGIC or begin < _SKIP.size:
        return ()
    file.seek(begin)
    table = file.read(count * entry)
    sizes = [int.from_bytes(table[at : at + 4], "little") for at in range(0, len(table), entry)]
    *starts, end = accumulate(sizes, initial=0)
    return tuple(starts) if end == begin - _SKIP.size else ()


def _found(file: BinaryIO, size: int) -> tuple[int, ...]:
    """Return what the headers say; nothing if they are malformed, as unpacking will say."""
    starts: list[int] = []
    at: int | None = 0
    while at is not None and at < size:
        file.seek(at)
        head = file.read(_SKIP.size)
        magic = int.from_bytes(head[:4], "little")
        if len(head) == _SKIP.size and magic in _SKIPPABLE:
            at += _SKIP.size + _SKIP.unpack(head)[1]
        elif magic == _FRAME and len(head) > 4:
            starts.append(at)
            at = _end(file, at, head[4])
        else:
            at = None
    return tuple(starts) if at == size else ()


def _end(file: BinaryIO, at: int, flags: int) -> int | None:
    """Return where the frame at byte *at* ends; None if the file ends before."""
    is_single = flags >> 5 & 1
    content = _SIZES_OF_CONTENT[flags >> 6] or is_single
    at += 5 + (not is_single) + _SIZES_OF_ID[flags & 3] + content
    is_last = 0
    while not is_last:
        file.seek(at)
        head = file.read(3)
        if len(head) < 3:
            return None
        block = int.from_bytes(head, "little")
        is_last, kind, size = block & 1, block >> 1 & 3, block >> 3
        at += 3 + (1 if kind == _REPEATED else size)
    return at + 4 * (flags >> 2 & 1)
