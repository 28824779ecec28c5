"""The elements of files by their numbers: an index of each file, and readers that go by it.

The index of a file is an array. Where elements lie one by one, it has the byte at which each
begins. Where they lie in groups, it has a row for each group: its number, and how many elements it
has. An index is made once and kept, under the file's version: see `kept_indexes`.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, takewhile
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from penstock import files, stored_file
from penstock.element import Element, leaves, rebuild
from penstock.engine.rows import Block, ColumnsOfBlock, Rows, Table, elements_of
from penstock.errors import DatasetError, PenstockError, TransformError
from penstock.executors.function import transform_error
from penstock.file_parts import FilePart
from penstock.graph.node import Node
from penstock.ops.internal.compressed import GUESSED, decompressed
from penstock.ops.internal.file_parts import (
    START,
    FileSource,
    KeptGroups,
    PartReader,
    Place,
    RefusalError,
)
from penstock.ops.internal.kept_indexes import Index, KeptIndexes
from penstock.ops.sequence import ItemReader, Items
from penstock.ops.sequence import Sequence as SequenceNode
from penstock.runtime.interrupts import is_interrupt
from penstock.stored_file import CHUNK, why_unread

_KEPT = KeptIndexes()

_WHOLE = 1 << 62
"""Bytes of a part that is a whole file."""

_AT_ONCE = 16
"""How many files are indexed at a time."""

_MOST_OPEN = 16
"""How many files a reader keeps open."""

_KEPT_BYTES = 256 << 20
"""Bytes of decoded groups that a reader keeps."""

_WINDOW_BYTES = 64 << 20
"""About how many bytes of elements are read ahead."""

_MOST_AHEAD = 1 << 16

_MOST_TOLD = 64
"""How many files a definition describes for messages, and are taken for a sample of all."""


@dataclass(frozen=True, eq=False)
class FileItems(Items):
    """All elements of the files *names* of *source*: parts that are whole files, with versions."""

    source: FileSource
    names: tuple[str, ...]
    counts: tuple[int, ...]
    """How many elements each file has."""

    @property
    def label(self) -> str:
        """See `Items.label`."""
        return self.source.op

    @property
    def details(self) -> Mapping[str, str]:
        """See `Items.details`."""
        parts = map(FilePart.of, self.names[:_MOST_TOLD])
        return {f"file {part.name}": part.told for part in parts}

    @property
    def digest(self) -> str:
        """A digest of the files and their versions."""
        return files.digest(self.names)

    @property
    def ahead(self) -> int:
        """How many elements to read at once: reading in the order of the files costs less."""
        nbytes = sum(FilePart.of(name).size for name in self.names[:_MOST_TOLD])
        count = sum(self.counts[:_MOST_TOLD])
        each = 4 * nbytes // max(count, 1) + 64  # decoded, an element takes more than in a file
        return min(max(_WINDOW_BYTES // each, 1), _MOST_AHEAD)

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, number: int) -> Element:
        reader = _FilesReader(self)
        try:
            found = reader.read([number])[0]
        finally:
            reader.close()
        if isinstance(found, TransformError):
            raise found
        return found

    def open(self) -> ItemReader:
        """See `Items.open`."""
        return _FilesReader(self)


class _FilesReader(ItemReader):
    def __init__(self, items: FileItems) -> None:
        self._items = items
        self._ends = np.array(list(accumulate(items.counts)), np.int64)
        self._kept = KeptGroups(_KEPT_BYTES)
        self._opened: OrderedDict[int, tuple[FilePart, PartReader, Index]] = OrderedDict()

    def block(self, numbers: Sequence[int]) -> Block:
        """See `ItemReader.block`."""
        pieces, back = self._pieces(numbers)
        if (table := _table(pieces)) is not None:
            return Rows(table, back)
        made = _arranged(pieces, back)
        if TransformError not in set(map(type, made)):
            return made
        return list(takewhile(lambda each: not isinstance(each, TransformError), made))

    def read(self, numbers: Sequence[int]) -> list[Element | TransformError]:
        """Return the elements that have these *numbers*; an error in the place of a bad one."""
        return _arranged(*self._pieces(numbers))

    def _pieces(self, numbers: Sequence[int]) -> tuple[list[Block], NDArray[np.int64]]:
        """Return the elements in the order of the files, and where in it each of *numbers* is."""
        wanted = np.asarray(numbers, np.int64)
        order = np.argsort(wanted, kind="stable")
        owners = np.searchsorted(self._ends, wanted[order], side="right")
        pieces: list[Block] = []
        for group in np.split(order, np.flatnonzero(np.diff(owners)) + 1):
            owner = int(np.searchsorted(self._ends, wanted[group[0]], side="right"))
            inside = wanted[group] - (self._ends[owner] - self._items.counts[owner])
            pieces += self._read_file(owner, inside, wanted[group])
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return pieces, back

    def _read_file(
        self, owner: int, inside: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> Iterator[Block]:
        part, reader, index = self._open(owner)
        count = 0
        for each in reader.pick(places(index, inside), self._kept):
            if isinstance(each, Exception):
                label = f"{self._items.label}({part.name})"
                error = transform_error(label, int(numbers[count]), each)
                where = f"{reader.describe()} of {part.name}"
                piece: Block = [error.but(detail=f"{error.detail} ({where})")]
            else:
                piece = each
            count += len(piece)
            yield piece

    def _open(self, owner: int) -> tuple[FilePart, PartReader, Index]:
        op, known = self._items.label, self._opened.get(owner)
        part = FilePart.of(self._items.names[owner]) if known is None else known[0]
        with _as_said(op, part):
            if known is None:
                index = index_of(self._items.source, part)
                reader = self._items.source.open_part(replace(part, in_order=False), START)
                known = part, reader, index
                self._opened[owner] = known
                if len(self._opened) > _MOST_OPEN:
                    self._opened.popitem(last=False)[1][1].close()
            elif not stored_file.is_url(part.name):
                stored_file.check_version(op, part)
        self._opened.move_to_end(owner)
        return known

    def close(self) -> None:
        """See `ItemReader.close`."""
        while self._opened:
            self._opened.popitem()[1][1].close()

    def __del__(self) -> None:
        self.close()


def _arranged(pieces: list[Block], back: NDArray[np.int64]) -> list[Element | TransformError]:
    made = [element for piece in pieces for element in elements_of(piece)]
    return list(map(made.__getitem__, back.tolist()))


def _table(pieces: list[Block]) -> Table | None:
    """Return *pieces* as one table, if all are rows of numbers and texts: these are no views."""
    rows = [piece for piece in pieces if isinstance(piece, Rows)]
    if len(rows) < len(pieces) or any(leaf.ndim > 1 for leaf in leaves(rows[0][:1].stacked())):
        return None
    stacked = [piece.hand_over() for piece in rows]
    columns = zip(*map(leaves, stacked), strict=True)
    whole = rebuild(stacked[0], [np.concatenate(column) for column in columns])
    return ColumnsOfBlock(whole, leaves(whole))


@contextmanager
def _as_said(op: str, part: FilePart) -> Iterator[None]:
    """Raise the errors of reading *part* as a source of files does."""
    try:
        yield
    except RefusalError as exc:
        raise DatasetError(str(exc)) from None
    except PenstockError:
        raise
    except Exception as exc:
        if is_interrupt(exc):
            raise
        why = why_unread(exc)
        if isinstance(exc, FileNotFoundError) and not why:
            raise files.missing(op, part.name) from exc
        raise DatasetError(f"{op}: cannot read {part.name}: {why or exc}") from exc


def places(index: Index, numbers: NDArray[np.int64]) -> list[Place]:
    """Return where the elements with these *numbers* are, by the *index* of their file."""
    if index.ndim == 1:
        return list(zip(index[numbers].tolist(), numbers.tolist(), strict=True))
    ends = np.cumsum(index[:, 1])
    rows = np.searchsorted(ends, numbers, side="right")
    inside = numbers - (ends[rows] - index[rows, 1])
    return list(zip(index[rows, 0].tolist(), inside.tolist(), strict=True))


def size(index: Index) -> int:
    """Return how many elements a file with this *index* has."""
    return len(index) if index.ndim == 1 else int(index[:, 1].sum())


def indexed(node: FileSource) -> Node:
    """Return the elements of the files of *node* as a source with an index.

    It lists the files and makes the indexes that are not kept from an earlier time.

    Raises:
        DatasetError: when a file cannot be read, or cannot have an index.
        MissingFile: when there is no such file.
    """
    names = files.listing(node.op, replace(node.units(), part_bytes=_WHOLE))
    known = [node.count(FilePart.of(name)) for name in names]
    counts = tuple(each for each in known if each is not None)
    if len(counts) < len(names):
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            counts = tuple(threads.map(partial(_count, node), names))
    return SequenceNode(FileItems(node, names, counts), sum(counts))


def _count(node: FileSource, name: str) -> int:
    part = FilePart.of(name)
    with _as_said(node.op, part):
        return size(index_of(node, part))


def index_of(source: FileSource, part: FilePart) -> Index:
    """Return the index of the whole file *part*, which may be kept from an earlier time."""
    if source.count(part) is not None:
        return source.index(part)
    key = _key(source, part) if part.version else ""
    if key and (found := _KEPT.get(key)) is not None:
        return found
    stored_file.check_version(source.op, part)
    index = source.index(part)
    if key:
        _KEPT.keep(key, index)
    return index


def _key(source: FileSource, part: FilePart) -> str:
    text = f"1\0{source.index_name}\0{part.name}\0{part.version}".encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


@contextmanager
def opened_plain(op: str, part: FilePart) -> Iterator[BinaryIO]:
    """Open the whole file *part*, whose bytes an index can point to.

    Raises:
        RefusalError: when it is compressed.
    """
    with stored_file.open_part(op, part, CHUNK) as raw:
        if part.size and decompressed(raw, GUESSED) is not raw:
            raise RefusalError(
                f"{op}: {part.name} is compressed, so that its elements can only be read one after "
                "another: use shuffle(buffer_size), or decompress it for global_shuffle"
            )
        yield raw


def starts_of_lines(op: str, part: FilePart) -> Index:
    """Return the byte at which each line of the whole file *part* begins.

    Bytes of a compressed file are those of its content.
    """
    found, at = [np.zeros(1, np.int64)], 0
    with decompressed(stored_file.open_part(op, part, CHUNK), GUESSED) as file:
        while data := file.read(CHUNK):
            found.append(np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + (at + 1))
            at += len(data)
    starts = np.concatenate(found)
    return starts[starts < at]
