"""A remote file as Python reads files, in ranges of a few megabytes.

The bytes of the part that its reader reads from start to end come in pieces of 8 MiB that lie at
multiples of 8 MiB, and the next pieces are read ahead. Other bytes, such as the rest of the last
line or an index at the end of the file, come in small blocks.
"""

from __future__ import annotations

import io
from collections import OrderedDict, deque
from concurrent.futures import Future
from functools import lru_cache
from time import monotonic
from typing import Any

from penstock.storage.counts import count
from penstock.storage.fetching import hint, read_soon
from penstock.storage.part_key import PartKey
from penstock.storage.read_ahead import ReadAhead
from penstock.storage.retries import RetryBudget
from penstock.storage.stores import is_remote
from penstock.storage.urls import address_of

PIECE = 8 << 20
BLOCK = 256 << 10
AT_ONCE = 4
"""How many pieces one read of any place asks for at once."""
_KEPT = 32 << 20
"""Bytes of blocks that are kept."""


class _Piece:
    """A piece that was asked for: when that was, and when it came; 0 if it did not come yet."""

    def __init__(self, key: PartKey, future: Future[bytes]) -> None:
        self.key, self.future = key, future
        self.sent, self.came = monotonic(), 0.0
        future.add_done_callback(self._note)

    def _note(self, _: Future[bytes]) -> None:
        self.came = monotonic()


class RangedFile(io.RawIOBase):
    """The bytes of a remote file of *size* bytes in a *version*.

    Args:
        url: its name.
        version: the version that was listed.
        size: its bytes.
        start, stop: the bytes that are read from start to end; empty if no order is known.
    """

    def __init__(self, url: str, version: str, size: int, start: int = 0, stop: int = 0) -> None:
        self._url, self._version, self._size = url, version, size
        self._start, self._stop = start, min(stop, size)
        self._at = 0
        self._budget = RetryBudget()
        self._pieces: deque[_Piece] = deque()
        self._ahead = ReadAhead()
        self._had = 0.0
        """When the reader got the last piece; 0 if it had none."""
        self._piece: tuple[int, bytes] = (0, b"")
        """The piece that was read last, and where it begins."""
        self._blocks: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    def readable(self) -> bool:
        """See `io.RawIOBase.readable`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase.seekable`."""
        return True

    def tell(self) -> int:
        """See `io.RawIOBase.tell`."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.RawIOBase.seek`."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"a file has no byte {base + offset}")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase.readinto`."""
        view = memoryview(buffer).cast("B")
        wanted = min(len(view), self._size - self._at)
        if wanted <= 0:
            return 0
        begin, data = self._around(self._at, wanted)
        skip = self._at - begin
        found = memoryview(data)[skip : skip + wanted]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def read_to_end(self) -> None:
        """Read ahead up to the end of the file, although the reader gave an earlier end."""
        self._stop = self._size

    def close(self) -> None:
        """See `io.RawIOBase.close`."""
        self._pieces.clear()
        self._blocks.clear()
        self._piece = (0, b"")
        super().close()

    def _around(self, at: int, wanted: int) -> tuple[int, bytes]:
        """Return bytes that have byte *at* among them, and where they begin."""
        begin, data = self._piece
        if begin <= at < begin + len(data):
            return self._piece
        if self._start <= at < self._stop:
            return self._next_piece(at)
        return self._block(at, wanted)

    def _next_piece(self, at: int) -> tuple[int, bytes]:
        while self._pieces and not self._pieces[0].key.start <= at < self._pieces[0].key.stop:
            self._pieces.popleft()
        following = self._pieces[-1].key.stop if self._pieces else at
        if self._had:
            self._ahead.worked(monotonic() - self._had)
        while len(self._pieces) < self._ahead.pieces and following < self._stop:
            start = following if self._pieces else self._start  # the end may have moved
            key = piece(self._url, self._version, start, self._stop, following)
            self._pieces.append(_Piece(key, read_soon(key, self._budget)))
            following = key.stop
        first = self._pieces.popleft()
        self._piece = first.key.start, _waited(first.future)
        self._had = monotonic()
        self._ahead.arrived((first.came or self._had) - first.sent)
        return self._piece

    def _block(self, at: int, wanted: int) -> tuple[int, bytes]:
        for (begin, stop), data in self._blocks.items():
            if begin <= at < stop:
                return begin, data
        begin, end = at // BLOCK * BLOCK, min(-(-(at + wanted) // BLOCK) * BLOCK, self._size)
        if at < self._start < end:
            end = self._start
        if begin < self._stop <= at:
            begin = self._stop
        starts = range(begin, end, PIECE)[:AT_ONCE]
        keys = [PartKey(self._url, self._version, i, min(i + PIECE, end)) for i in starts]
        futures = [read_soon(key, self._budget) for key in keys]
        blocks = {(key.start, key.stop): _waited(f) for key, f in zip(keys, futures, strict=True)}
        self._blocks |= blocks
        while sum(map(len, self._blocks.values())) > _KEPT and len(self._blocks) > len(blocks):
            self._blocks.popitem(last=False)
        return begin, blocks[begin, keys[0].stop]


@lru_cache(maxsize=1024)
def has_ranges(url: str) -> bool:
    """Return whether *url* is a file of a store that can be asked for ranges, as far as is known.

    Archives and other chains of file systems are read as fsspec reads them.
    """
    if "::" in url:
        return False
    return address_of(url) is not None or is_remote(url)


def piece(url: str, version: str, start: int, stop: int, at: int) -> PartKey:
    """Return the piece of bytes *start* to *stop* of a file in which byte *at* lies."""
    first = at // PIECE * PIECE
    return PartKey(url, version, max(first, start), min(first + PIECE, stop))


def expect(url: str, version: str, start: int, stop: int) -> None:
    """Begin to read bytes *start* to *stop* of a file that is opened soon: their first piece."""
    if start < stop:
        hint(piece(url, version, start, stop, start))


def _waited(future: Future[bytes]) -> bytes:
    since = monotonic()
    try:
        return future.result()
    finally:
        count(wait_seconds=monotonic() - since)
