"""Frames: consecutive elements as one block of bytes, leaf by leaf.

`FrameBuilder` decides which elements travel together; a `Layout` says how they lie in the payload
and writes them there, straight into the memory that it is given; `unpack` makes elements of them
again, arrays as views. Nothing here knows gRPC: runners use it.

A frame's layout is small and repeats: it holds the structure, and for each leaf its encoding (see
`penstock.frames.columns`), but no lengths. Array data lies in C order, in the byte order that it
had.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.element import Element, leaves
from penstock.errors import ElementError, ElementTooLarge, VersionMismatch
from penstock.frames.buffers import Bytes, aligned, clear
from penstock.frames.columns import Alike, Kind, kind_from, kind_of
from penstock.frames.compression import compress, decompress
from penstock.frames.nest import Column, Nest, nest_from, nest_of
from penstock.protocol.malformed import MALFORMED

__all__ = [
    "MOST_BYTES",
    "Elements",
    "FrameBuilder",
    "Layout",
    "compress",
    "decompress",
    "unpack",
    "unpack_with_root",
]


MOST_BYTES = (1 << 31) - (1 << 20)
"""The most bytes in one message: protobuf counts in 31 bits."""

MOST_COUNT = 8192
"""The most elements in a frame."""

MOST_EMPTY = 1 << 16
"""The most places without any byte in a frame, so that a made-up count takes little memory."""

MOST_LAYOUT = 1 << 20
"""The most bytes of a layout."""


@dataclass(frozen=True, slots=True)
class Elements:
    """The elements of a frame, leaf by leaf."""

    columns: list[list[Any]]
    count: int

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True)
class Layout:
    """How *count* elements of one structure lie in a payload of *nbytes*."""

    nest: Nest
    kinds: tuple[Kind, ...]
    count: int
    nbytes: int

    def to_bytes(self) -> bytes:
        """Return what `unpack` needs to know beside the payload."""
        return _layout_bytes(self.nest, self.kinds, self.count)

    def write(self, elements: Elements, out: memoryview) -> None:
        """Write the *elements* that came with this layout into the first *nbytes* of *out*."""
        place = np.frombuffer(out, np.uint8) if self.nbytes else np.empty(0, np.uint8)
        at = 0
        for kind, column in zip(self.kinds, elements.columns, strict=True):
            at = kind.write(column, place, clear(place, at))


class FrameBuilder:
    """Collects consecutive elements that can travel together, up to a limit.

    An element bigger than *limit_bytes* travels alone, one bigger than *most_bytes* not at all.
    """

    def __init__(
        self,
        limit_bytes: int = 1 << 20,
        limit_count: int = MOST_COUNT,
        *,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._limit_bytes = limit_bytes
        self._limit_count = min(limit_count, MOST_COUNT)
        self._most_bytes = most_bytes
        self._family: _Family | None = None
        self._columns: list[list[Any]] = []
        self._count = 0
        self._nbytes = 0
        self._empty = 0
        self._full = False

    def __len__(self) -> int:
        return self._count

    def add(self, block: Sequence[Element]) -> int:
        """Append the first elements of *block* that belong to the frame; return how many did.

        If not all did, the frame is ready: take it, then add the rest.

        Raises:
            ElementError: when an element holds something that cannot travel.
            ElementTooLarge: when the first element of the frame to be is too large for any.
        """
        if not block or self._full:
            return 0
        family = self._family
        if family is None or not self._count:
            family = self._family = _Family.of(block[0])
            self._columns = [[] for _ in family.kinds]
        alike, columns = family.longest(block[: self._limit_count - self._count])
        count, nbytes = self._fitting(family, columns, alike) if alike else (0, 0)
        for have, column in zip(self._columns, columns, strict=False):
            have.extend(column[:count])
        self._count += count
        self._nbytes += nbytes
        self._full = count < len(block) or self._count == self._limit_count
        return count

    def ready(self) -> bool:
        """Return whether the frame is full: another element like those in it would not fit."""
        count = self._count
        return self._full or (count > 0 and self._nbytes * (count + 1) > self._limit_bytes * count)

    def take(self) -> tuple[Layout, Elements]:
        """Return the elements collected and their layout, and start a new frame."""
        if self._family is None or not self._count:
            raise ElementError("there are no elements to make a frame of")
        family, elements = self._family, Elements(self._columns, self._count)
        self._family, self._columns = None, []
        self._count = self._nbytes = self._empty = 0
        self._full = False
        return family.layout(elements), elements

    def _fitting(self, family: _Family, columns: list[Column], alike: int) -> tuple[int, int]:
        """Return how many of the elements in *columns* fit, and how many bytes they are."""
        room = self._limit_bytes - self._nbytes
        each, varying = family.sizes(columns)
        empty = family.places - each
        if empty > 0:
            alike = min(alike, max((MOST_EMPTY - self._empty) // empty, 0 if self._count else 1))
            varying = varying if varying is None else varying[:alike]
        if varying is None:
            count = min(alike, room // each) if each else alike
            nbytes = count * each
        else:
            ends = np.cumsum(varying) + each * np.arange(1, alike + 1)
            count = int(np.searchsorted(ends, room, side="right"))
            nbytes = int(ends[count - 1]) if count else 0
        if count or self._count:
            self._empty += count * max(empty, 0)
            return count, nbytes
        nbytes = family.layout(Elements([list(column[:1]) for column in columns], 1)).nbytes
        if nbytes > self._most_bytes:
            raise ElementTooLarge(
                f"one element takes {nbytes} bytes, and a message carries {self._most_bytes} at "
                "most: make smaller batches, or split the element in the pipeline"
            )
        self._empty += max(empty, 0)
        return 1, nbytes


@dataclass(frozen=True, slots=True)
class _Family:
    """Elements that may share a frame: of one structure, and alike leaf by leaf."""

    nest: Nest
    kinds: tuple[Alike, ...]
    places: int

    @classmethod
    def of(cls, element: Element) -> _Family:
        nest = nest_of(element)
        return cls(nest, tuple(map(kind_of, leaves(element))), nest.size[1])

    def columns(self, block: Sequence[Element]) -> list[Column] | None:
        """Return *block* leaf by leaf, or None when it does not belong here as a whole."""
        columns: list[Column] = []
        if not self.nest.split(block, columns):
            return None
        alike = all(kind.alike(column) for kind, column in zip(self.kinds, columns, strict=True))
        return columns if alike else None

    def longest(self, block: Sequence[Element]) -> tuple[int, list[Column]]:
        """Return how many elements at the start of *block* belong here, and their columns."""
        columns = self.columns(block)
        if columns is not None:
            return len(block), columns
        found: list[Column] = []
        low, high = 0, len(block)  # the first *low* belong here, the first *high* do not
        while high - low > 1:
            middle = (low + high) // 2
            columns = self.columns(block[:middle])
            if columns is None:
                high = middle
            else:
                low, found = middle, columns
        return low, found

    def sizes(self, columns: list[Column]) -> tuple[int, NDArray[np.int64] | None]:
        """Return how many bytes each element takes, and how many more, where they differ."""
        each = 0
        varying: NDArray[np.int64] | None = None
        for kind, column in zip(self.kinds, columns, strict=True):
            size = kind.sizes(column)
            if isinstance(size, int):
                each += size
            else:
                more = np.array(size, np.int64)
                varying = more if varying is None else varying + more
        return each, varying

    def layout(self, elements: Elements) -> Layout:
        """Return the layout for *elements*."""
        kinds: list[Kind] = []
        at = 0
        for kind, column in zip(self.kinds, elements.columns, strict=True):
            settled = kind.settled(column)
            kinds.append(settled)
            at = settled.end(column, aligned(at))
        return Layout(self.nest, tuple(kinds), elements.count, at)


def unpack(
    layout: bytes, payload: memoryview | bytes | bytearray, *, writable: bool = False
) -> list[Element]:
    """Return the elements of a frame; see `unpack_with_root`."""
    return unpack_with_root(layout, payload, writable=writable)[0]


def unpack_with_root(
    layout: bytes, payload: memoryview | bytes | bytearray, *, writable: bool = False
) -> tuple[list[Element], Bytes]:
    """Return the elements of a frame, and the array that owns the memory of all their arrays.

    Arrays are read-only views of *payload*: when the root is gone, as a weak reference to it can
    tell, none is left. With *writable* they are views of fresh memory; a *payload* in a
    `bytearray`, as `decompress` may make, counts as fresh.

    Raises:
        VersionMismatch: when the payload is not laid out as *layout* says.
    """
    try:
        nest, kinds, count, places = _read_layout(layout)
        if count > 1 and count * places > memoryview(payload).nbytes + MOST_EMPTY:
            raise ValueError(f"{count} elements of {places} parts do not lie in it")
        root = _root(memoryview(payload), writable)
        columns: list[Column] = []
        at = 0
        for kind in kinds:
            column, at = kind.read(root, aligned(at), count)
            columns.append(column)
        columns.reverse()
        elements = nest.join(columns, count)
        if len(elements) != count:
            raise ValueError(f"it holds {len(elements)} elements, and its layout says {count}")
    except MALFORMED as exc:
        raise VersionMismatch(
            f"a frame of {memoryview(payload).nbytes} bytes is not laid out as its header says "
            f"({exc}): the sender is of a version that this one does not know"
        ) from exc
    return elements if isinstance(elements, list) else list(elements), root


def _root(payload: memoryview, writable: bool) -> Bytes:
    if not payload.nbytes:
        return np.empty(0, np.uint8)
    root = np.frombuffer(payload, np.uint8)
    if not writable:
        root.setflags(write=False)
    elif not isinstance(payload.obj, bytearray):
        root = root.copy()
    return root


@functools.lru_cache(maxsize=256)
def _layout_bytes(nest: Nest, kinds: tuple[Kind, ...], count: int) -> bytes:
    layout = msgspec.msgpack.encode([count, nest.plain(), [kind.plain() for kind in kinds]])
    if len(layout) > MOST_LAYOUT:
        raise ElementTooLarge(
            f"the structure of an element takes {len(layout)} bytes, and a frame carries "
            f"{MOST_LAYOUT}: put like parts into arrays, instead of {len(kinds)} single parts"
        )
    return layout


@functools.lru_cache(maxsize=256)
def _read_layout(layout: bytes) -> tuple[Nest, tuple[Kind, ...], int, int]:
    """Return structure, kinds and count that *layout* tells, and the structure's places."""
    if len(layout) > MOST_LAYOUT:
        raise ValueError(f"a layout of {len(layout)} bytes")
    count, plain, kinds = msgspec.msgpack.decode(layout, type=tuple[int, Any, list[Any]])
    nest = nest_from(plain)
    parts, places = nest.size
    if parts != len(kinds):
        raise ValueError(f"{len(kinds)} kinds of leaves for a structure of {parts}")
    if not 1 <= count <= MOST_COUNT:
        raise ValueError(f"{count} elements")
    return nest, tuple(map(kind_from, kinds)), count, places
