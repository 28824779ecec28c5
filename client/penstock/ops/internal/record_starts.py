"""Where records of a TFRecord file begin, found from any byte of the file.

A record is its length (8 bytes, little-endian), the masked CRC-32C of that, the data, and the
masked CRC-32C of the data. From the start of a record on, headers follow each other up to the end
of the file. Data that looks like one header is rare, and like several in a row is made on purpose.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from penstock.saved.tfrecord_file import HEAD, MASK_DELTA, TAIL, masked
from penstock.stored_file import CHUNK

LONGEST = 1 << 31
"""The most bytes of a record; a length above it is malformed, because no message is longer."""

_CHAIN_RECORDS, _CHAIN_BYTES = 3, 1 << 16
"""How many records and bytes must follow each other, unless the file ends before."""


def record_length(head: bytes) -> int | None:
    """Return the length that the header *head* holds, or None if its checksum is wrong."""
    if masked(head[:8]) != int.from_bytes(head[8:HEAD], "little"):
        return None
    return int.from_bytes(head[:8], "little")


def find_start(file: BinaryIO, start: int, stop: int, size: int) -> int | None:
    """Return the first byte from *start* to before *stop* where a record begins, or None.

    *size* is that of the whole *file*. The file is moved.
    """
    for at in range(start, stop, CHUNK):
        file.seek(at)
        data = file.read(min(CHUNK, stop - at) + HEAD - 1)
        for offset in _candidates(data):
            if _follow(file, at + offset, size):
                return at + offset
    return None


def _follow(file: BinaryIO, first: int, size: int) -> bool:
    """Return whether enough records follow each other from byte *first* on."""
    at, count = first, 0
    while at < size and (count < _CHAIN_RECORDS or at - first < _CHAIN_BYTES):
        file.seek(at)
        head = file.read(HEAD)
        length = record_length(head) if len(head) == HEAD else None
        if length is None or length > LONGEST:
            return False
        at, count = at + HEAD + length + TAIL, count + 1
    return at <= size


def _candidates(data: bytes) -> list[int]:
    """Return the offsets of *data* at which a header with the right checksum begins."""
    raw = np.frombuffer(data, np.uint8)
    count = len(raw) - HEAD + 1
    if count <= 0:
        return []
    # The upper half of a length is zero.
    high = raw[4 : count + 4] | raw[5 : count + 5] | raw[6 : count + 6] | raw[7 : count + 7]
    where = np.flatnonzero(high == 0)
    zero, tables = _tables()
    crc = np.full(len(where), zero, np.uint64)
    told = np.zeros(len(where), np.uint64)
    for i in range(4):
        crc ^= tables[i][raw[where + i]]
        told |= raw[where + 8 + i].astype(np.uint64) << np.uint64(8 * i)
    turned = (crc >> np.uint64(15) | crc << np.uint64(17)) & np.uint64(0xFFFFFFFF)
    right = (turned + np.uint64(MASK_DELTA)) & np.uint64(0xFFFFFFFF) == told
    found: list[int] = where[right].tolist()
    return found


@lru_cache(maxsize=1)
def _tables() -> tuple[int, NDArray[Any]]:
    """Return the CRC of eight zeros, and what each value of each of the first four bytes changes.

    A CRC is linear: the changes add up by exclusive or.
    """
    zero = int(google_crc32c.value(bytes(8)))
    made = np.zeros((4, 256), np.uint64)
    for i in range(4):
        for value in range(256):
            length = bytes([0] * i + [value] + [0] * (7 - i))
            made[i, value] = int(google_crc32c.value(length)) ^ zero
    return zero, made
