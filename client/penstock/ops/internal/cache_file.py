"""The file of a `cache`: how it is laid out, and how it is read.

    head, header            magic, version; the `Header`, as JSON;
    block, block, ...       consecutive elements, laid out as in `penstock.frames.frame`;
    index                   for each block, its first element's number and its offset;
    tail                    the offset of the index, the number of elements, magic.

Each part has a checksum. A block is read only when one of its elements is wanted.
"""

from __future__ import annotations

import struct
import threading
import weakref
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias

import google_crc32c
import msgspec

from penstock import stored_file
from penstock.element import Element
from penstock.errors import DatasetError, VersionMismatch
from penstock.frames.frame import Elements, Layout, unpack

Origin: TypeAlias = tuple[int, int, str]
"""The base seed, pass key and path of the pass in which elements were made."""

MAGIC, VERSION = b"PENSTOCK", 1
HEAD = struct.Struct("<8sIII")
"""Magic, version, the header's length and checksum."""
BLOCK = struct.Struct("<IQI")
"""The layout's length, the payload's, and the checksum of both."""
TAIL = struct.Struct("<QQI8s")
"""The index's offset, the number of elements, the checksum of index and these two, and magic."""


class Header(msgspec.Struct, frozen=True):
    """Describes the elements of a file: the pipeline of *fingerprint* made them in one pass.

    *stages* are the labels of the pipeline's operators, sources first.
    """

    fingerprint: str
    stages: tuple[str, ...]
    origin: Origin


class Index(msgspec.Struct, frozen=True, array_like=True):
    """Where the blocks are. Readers do not change it; the writer appends to the lists."""

    firsts: list[int]
    """The number of each block's first element."""
    offsets: list[int]
    """The offset of each block, and last the offset at which the last block ends."""

    def find(self, number: int) -> tuple[int, int, int]:
        """Return the first number, the offset and the end of the block with element *number*."""
        i = bisect_right(self.firsts, number) - 1
        return self.firsts[i], self.offsets[i], self.offsets[i + 1]


class CacheFileSource(Protocol):
    """Where the bytes of a file are. Any thread."""

    def size(self) -> int:
        """Return how many there are."""

    def read(self, start: int, stop: int) -> bytes:
        """Return those from *start* to *stop*, fewer at the end."""

    def close(self) -> None:
        """Close the file."""


@dataclass(slots=True)
class LocalCacheFile:
    """A file that is open."""

    file: BinaryIO
    lock: threading.Lock

    def size(self) -> int:
        """See `CacheFileSource.size`."""
        with self.lock:
            return self.file.seek(0, 2)

    def read(self, start: int, stop: int) -> bytes:
        """See `CacheFileSource.read`."""
        with self.lock:
            self.file.seek(start)
            return self.file.read(stop - start)

    def close(self) -> None:
        """See `CacheFileSource.close`."""
        self.file.close()


@dataclass(slots=True)
class RemoteCacheFile:
    """A file at a URL of which parts can be read."""

    fs: Any
    path: str

    def size(self) -> int:
        """See `CacheFileSource.size`."""
        return int(self.fs.size(self.path))

    def read(self, start: int, stop: int) -> bytes:
        """See `CacheFileSource.read`."""
        return bytes(self.fs.cat_file(self.path, start=start, end=stop))

    def close(self) -> None:
        """See `CacheFileSource.close`."""


class CacheFile:
    """A file that is whole. Any thread.

    Methods raise a `DatasetError` that names the file, the offset and the remedy, when it cannot be
    read.
    """

    def __init__(self, name: str, source: CacheFileSource) -> None:
        self._name, self._source = name, source
        weakref.finalize(self, source.close)
        self.header = self._read_header()
        self._index, self._count = self._read_index()

    @classmethod
    def open(cls, name: str) -> CacheFile | None:
        """Open the file *name*; None when there is none."""
        try:
            source = source_of(name)
            return None if source is None else cls(name, source)
        except DatasetError:
            raise
        except Exception as exc:
            raise unreadable(name, 0, f"{type(exc).__name__}: {exc}") from exc

    def __len__(self) -> int:
        return self._count

    def run(self, number: int) -> tuple[int, Sequence[Element]]:
        """Return the elements among which number *number* is, and the number of the first."""
        first, start, stop = self._index.find(number)
        return first, read_block(self._name, self._source, start, stop)

    def _read_header(self) -> Header:
        head = self._source.read(0, HEAD.size)
        if len(head) < HEAD.size or not head.startswith(MAGIC):
            raise unreadable(self._name, 0, "it is no cache file")
        _, version, length, check = HEAD.unpack(head)
        if version != VERSION:
            raise unreadable(self._name, 8, f"it has version {version}; this reads {VERSION}")
        text = self._source.read(HEAD.size, HEAD.size + length)
        if google_crc32c.value(text) != check:
            raise unreadable(self._name, HEAD.size, "the header's checksum is wrong")
        return msgspec.json.decode(text, type=Header)

    def _read_index(self) -> tuple[Index, int]:
        size = self._source.size()
        place = max(HEAD.size, size - TAIL.size)
        tail = self._source.read(place, size)
        if len(tail) < TAIL.size or not tail.endswith(MAGIC):
            raise unreadable(self._name, size, "its end is missing: it was cut short")
        at, count, check, _ = TAIL.unpack(tail)
        packed = self._source.read(at, place) if at <= place else b""
        if index_check(packed, at, count) != check:
            raise unreadable(self._name, min(at, place), "the index's checksum is wrong")
        return msgspec.msgpack.decode(packed, type=Index), count


def source_of(name: str) -> CacheFileSource | None:
    """Open the file *name*; None if there is none."""
    with suppress(FileNotFoundError):
        if not stored_file.is_url(name):
            return LocalCacheFile(Path(name).open("rb"), threading.Lock())
        from fsspec.core import url_to_fs  # noqa: PLC0415  only who needs it waits for it

        fs, path = url_to_fs(name)
        if fs.exists(path):
            return RemoteCacheFile(fs, path)
    return None


def read_block(name: str, source: CacheFileSource, start: int, stop: int) -> list[Element]:
    """Return the elements of the block that lies from *start* to *stop*.

    Raises:
        DatasetError: as `CacheFile` says.
    """
    try:
        data = source.read(start, stop)
    except Exception as exc:
        raise unreadable(name, start, f"{type(exc).__name__}: {exc}") from exc
    if len(data) < stop - start:
        raise unreadable(name, start + len(data), "it was cut short")
    plan, payload, check = BLOCK.unpack_from(data)
    body = memoryview(data)[BLOCK.size :]
    if plan + payload != len(body) or google_crc32c.value(bytes(body)) != check:
        raise unreadable(name, start, "the checksum of a block is wrong")
    try:
        return unpack(bytes(body[:plan]), body[plan:])
    except VersionMismatch as exc:
        raise unreadable(name, start, str(exc)) from exc


def block(layout: Layout, elements: Elements) -> tuple[bytes, bytearray]:
    """Return the bytes of a block, in two parts."""
    payload = bytearray(layout.nbytes)
    layout.write(elements, memoryview(payload))
    plan = layout.to_bytes()
    check = google_crc32c.extend(google_crc32c.value(plan), bytes(payload))
    return BLOCK.pack(len(plan), len(payload), check) + plan, payload


def head(header: Header) -> bytes:
    """Return what a file begins with."""
    text = msgspec.json.encode(header)
    return HEAD.pack(MAGIC, VERSION, len(text), google_crc32c.value(text)) + text


def end(index: Index, count: int) -> bytes:
    """Return what a file of *count* elements ends with."""
    packed, at = msgspec.msgpack.encode(index), index.offsets[-1]
    return packed + TAIL.pack(at, count, index_check(packed, at, count), MAGIC)


def index_check(packed: bytes, at: int, count: int) -> int:
    """Return the checksum of the index, its offset, and the number of elements."""
    return int(google_crc32c.value(packed + struct.pack("<QQ", at, count)))


def unreadable(name: str, offset: int, why: str) -> DatasetError:
    """Return the error that says that a file cannot be read, and what to do."""
    return DatasetError(
        f"cache: {name!r} cannot be read at byte {offset}: {why}; delete the file, and the next "
        "pass makes it again, or give another filename"
    )
