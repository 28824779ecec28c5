"""`arrow`: the rows of Arrow IPC files, which are also Feather files of version 2.

A part has the record batches whose share of the file begins in it. State: see
`penstock.ops.internal.file_parts`; a place is a record batch and a row in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock import stored_file
from penstock.engine.rows import Block
from penstock.errors import ElementError
from penstock.extras import needed
from penstock.file_parts import FilePart
from penstock.ops.internal.arrow_blocks import (
    ColumnsSource,
    by_group,
    check_columns,
    check_same,
    mapped,
    picked,
    pieces_of,
)
from penstock.ops.internal.file_parts import START, BadRecordError, KeptGroups, PartReader, Place
from penstock.stored_file import CHUNK


@dataclass(frozen=True, eq=False)
class Arrow(ColumnsSource):
    """The rows of files, as dicts."""

    op: ClassVar[str] = "arrow"

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return True

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        reader = _BatchReader(self, part, START)
        try:
            return reader.sizes()
        finally:
            reader.close()

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _BatchReader(self, part, place)


class _BatchReader(PartReader):
    def __init__(self, node: Arrow, part: FilePart, place: Place) -> None:
        pa = needed("pyarrow", "Dataset.arrow")
        self._nulls = node.nulls
        if stored_file.is_url(part.name):
            file = stored_file.open_part(node.op, part, CHUNK, in_order=False)
            self._source = pa.PythonFile(file, mode="r")
        else:
            stored_file.check_version(node.op, part)
            self._source = mapped(part.name)
        reader = pa.ipc.open_file(self._source)
        names = reader.schema.names
        check_columns(node.op, part.name, node.columns, names)
        check_columns(f"{node.op}(nulls=)", part.name, tuple(node.nulls), names)
        check_same(node, part.name, [reader.schema.field(c) for c in node.columns or names])
        if node.columns is not None:
            only = [names.index(column) for column in node.columns]
            options = pa.ipc.IpcReadOptions(included_fields=only)
            reader = pa.ipc.open_file(self._source, options=options)
        count, size = reader.num_record_batches, self._source.size()
        self._reader, self._columns, self._name = reader, node.columns, part.name
        self._batches = [i for i in range(count) if _begins_in(part, size * i // count)]
        self._batch, self._row = place
        if place == START and self._batches:
            self._batch = self._batches[0]
        self._pieces: Iterator[Block | ElementError] | None = None
        """The rows after `_left` in the record batch."""
        self._left: Block = []

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        while not len(self._left):
            if self._batch not in self._batches:
                return []
            if self._pieces is None:
                self._pieces = self._begin()
            piece = next(self._pieces, None)
            if piece is None:
                where = self._batches.index(self._batch) + 1
                self._batch = self._batches[where] if where < len(self._batches) else -1
                self._row, self._pieces = 0, None
            elif isinstance(piece, ElementError):
                raise BadRecordError(str(self._in_file(piece)), 1)
            else:
                self._left = piece
        block, self._left = self._left[:n], self._left[n:]
        self._row += len(block)
        return block

    def _begin(self) -> Iterator[Block | ElementError]:
        """Return the rows of the record batch from `_row` on."""
        batch = self._reader.get_batch(self._batch)
        if self._columns is not None:
            batch = batch.select(list(self._columns))
        return pieces_of(batch.slice(self._row), self._nulls, self._row)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of each record batch, and how many rows it has."""
        get = self._reader.get_batch
        sizes = [(i, get(i).num_rows) for i in self._batches]
        return np.array(sizes, np.int64).reshape(-1, 2)

    def pick(self, places: Sequence[Place], kept: KeptGroups) -> Iterator[Block | Exception]:
        """See `PartReader.pick`."""
        for number, rows in by_group(places):
            batch = kept.get((self._name, number), partial(self._reader.get_batch, number))
            if self._columns is not None:
                batch = batch.select(list(self._columns))
            for row, element in picked(batch, rows, self._nulls):
                self._batch, self._row = number, row
                yield element if isinstance(element, Exception) else [element]

    def _in_file(self, error: ElementError) -> ElementError:
        """Return *error* of the next row with the number that the row has in the file."""
        before = sum(self._reader.get_batch(i).num_rows for i in range(self._batch))
        row = self._reader.get_batch(self._batch).slice(self._row, 1)
        made = next(pieces_of(row, self._nulls, before + self._row), error)
        return made if isinstance(made, ElementError) else error

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self._row += size

    def is_before(self, following: FilePart) -> bool:  # noqa: ARG002
        """See `PartReader.is_before`. Columns and footers are read in any order."""
        return False

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        batch, row = self._batch, self._row
        return lambda back: (batch, row - back)

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"row {self._row} of record batch {self._batch}"

    def close(self) -> None:
        """See `PartReader.close`."""
        self._pieces, self._left = None, []
        self._source.close()


def _begins_in(part: FilePart, at: int) -> bool:
    return part.stop is None or part.start <= at < part.stop
