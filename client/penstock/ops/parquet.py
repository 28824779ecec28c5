"""`parquet`: the rows of Parquet files.

A part has the row groups whose middle byte is in it. State: see `penstock.ops.internal.file_parts`;
a place is a row group, and the number of an element in it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock import stored_file
from penstock.element import collate
from penstock.engine.rows import Block, Rows
from penstock.errors import DatasetError, ElementError
from penstock.extras import needed
from penstock.file_parts import FilePart
from penstock.ops.internal.arrow_blocks import (
    ColumnsSource,
    block_of,
    by_group,
    check_columns,
    check_same,
    is_utf8,
    mapped,
    picked,
    pieces_of,
)
from penstock.ops.internal.file_parts import (
    START,
    BadRecordError,
    KeptGroups,
    PartReader,
    Place,
    RefusalError,
)
from penstock.options import check_count
from penstock.runtime.interrupts import is_interrupt
from penstock.stored_file import CHUNK

ROWS, DECODED_BYTES = 1 << 17, 16 << 20
"""The most rows, and about how many bytes, that are decoded at a time: a row group may be large."""


@dataclass(frozen=True, eq=False)
class Parquet(ColumnsSource):
    """The rows of files, as dicts; or dicts of arrays, of up to *batch_rows* rows each."""

    op: ClassVar[str] = "parquet"
    filters: Any
    batch_rows: int | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_rows is not None:
            size = check_count(self.op, "batch_rows", self.batch_rows)
            object.__setattr__(self, "batch_rows", size)
        object.__setattr__(self, "filters", _tuples(self.filters))
        _expression(self.filters)

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return self.filters is None and self.batch_rows is None

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        metadata = _fragment(part).metadata
        sizes = [(i, metadata.row_group(i).num_rows) for i in range(metadata.num_row_groups)]
        return np.array(sizes, np.int64).reshape(-1, 2)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _RowGroupReader(self, part, place)


class _RowGroupReader(PartReader):
    """The rows of the row groups of *part*."""

    def __init__(self, node: Parquet, part: FilePart, place: Place) -> None:
        self._name, self._fragment = part.name, _fragment(part)
        metadata = self._fragment.metadata
        schema = metadata.schema.to_arrow_schema()
        check_columns(node.op, part.name, node.columns, schema.names)
        check_columns(f"{node.op}(nulls=)", part.name, tuple(node.nulls), schema.names)
        self._columns = list(node.columns or schema.names)
        check_same(node, part.name, [schema.field(name) for name in self._columns])
        self._filter, self._nulls = _expression(node.filters), node.nulls
        _check_filter(self._fragment, self._filter, part.name, schema)
        self._batch_rows = node.batch_rows
        self._metadata = metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._firsts = [0, *accumulate(sizes)]
        """The number of the first row of each row group."""
        groups = [i for i in range(metadata.num_row_groups) if _is_in(metadata.row_group(i), part)]
        self._group, self._row = (groups[0], 0) if place == START and groups else place
        self._blocks = self._read(groups, self._group, self._row)
        self._left: Block = []

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        if not len(self._left):
            self._group, self._row, left = next(self._blocks, (self._group, self._row, []))
            if isinstance(left, ElementError):
                raise BadRecordError(str(left), 1)
            self._left = left
        block, self._left = self._left[:n], self._left[n:]
        self._row += len(block)
        return block

    def _read(
        self, groups: list[int], first: int, row: int
    ) -> Iterator[tuple[int, int, Block | ElementError]]:
        """Yield blocks from *row* of row group *first* on, each with where it begins.

        An error stands in the place of its element.
        """
        for run in self._runs([group for group in groups if group >= first]):
            for group, number, piece in self._elements(run):
                stop = number + _count(piece)
                begin = max(number, row if group == first else 0)
                if isinstance(piece, ElementError) and begin < stop:
                    yield group, number, piece
                elif not isinstance(piece, ElementError) and begin < stop:
                    yield group, begin, piece[begin - number :]

    def _elements(self, run: list[int]) -> Iterator[tuple[int, int, Block | ElementError]]:
        """Yield the elements of *run*, each block with its row group, and its number there."""
        if len(run) == 1:
            size = self._rows_at_once(run[0])
            yield from self._numbered(_of_size(self._scan(run[0], size), size), run[0])
            return
        try:
            table = self._table(run)
        except Exception as exc:
            if is_interrupt(exc):
                raise
            for group in run:  # those before the damaged one can be read
                yield from self._elements([group])
            return
        if self._batch_rows is None:
            for _, number, piece in self._numbered(_batches(table), run[0]):
                yield from self._by_group(self._firsts[run[0]] + number, piece)
            return
        for group in run:
            start, stop = (self._firsts[each] - self._firsts[run[0]] for each in (group, group + 1))
            yield from self._numbered(_batches(table.slice(start, stop - start)), group)

    def _numbered(
        self, batches: Iterator[Any], group: int
    ) -> Iterator[tuple[int, int, Block | ElementError]]:
        number = 0
        for batch in batches:
            for piece in self._pieces(batch, group, number):
                yield group, number, piece
                number += _count(piece)

    def _by_group(
        self, row: int, piece: Block | ElementError
    ) -> Iterator[tuple[int, int, Block | ElementError]]:
        """Cut *piece*, which begins with this row of the file, where a row group ends."""
        stop = row + _count(piece)
        while row < stop:
            group = bisect_right(self._firsts, row) - 1
            number, count = row - self._firsts[group], min(stop, self._firsts[group + 1]) - row
            if isinstance(piece, ElementError):
                yield group, number, piece
            else:
                yield group, number, piece[:count]
                piece = piece[count:]
            row += count

    def _runs(self, groups: list[int]) -> Iterator[list[int]]:
        """Yield *groups* in runs that are decoded at a time: a scan costs more than a small group.

        The first run has four row groups, and each next one twice as many, up to the bounds. With a
        filter, a run has one row group: nobody knows of which one the rows are that it left.
        """
        run, rows, nbytes, most = list[int](), 0, 0, 1 if self._filter is not None else 4
        for group in groups:
            size = self._firsts[group + 1] - self._firsts[group]
            size_bytes = int(self._metadata.row_group(group).total_byte_size)
            full = rows + size > ROWS or nbytes + size_bytes > DECODED_BYTES
            if run and (full or len(run) == most or group > run[-1] + 1):
                yield run
                run, rows, nbytes, most = [], 0, 0, most if self._filter is not None else 2 * most
            run.append(group)
            rows, nbytes = rows + size, nbytes + size_bytes
        if run:
            yield run

    def _rows_at_once(self, group: int) -> int:
        """Return how many rows of *group* to decode at a time, which is a number of elements."""
        row_group = self._metadata.row_group(group)
        row_bytes = int(row_group.total_byte_size) // max(row_group.num_rows, 1)
        rows: int = min(max(DECODED_BYTES // max(row_bytes, 1), 1), ROWS)
        of_element = self._batch_rows or 1
        return max(rows // of_element, 1) * of_element

    def _pieces(self, batch: Any, group: int, seen: int) -> Iterator[Block | ElementError]:
        # Nobody knows which rows of the file a filter left out.
        first = self._firsts[group] if self._filter is None else 0
        size, count = self._batch_rows, batch.num_rows
        if size is None:
            yield from pieces_of(batch, self._nulls, first + seen)
            return
        try:
            block = block_of(batch, self._nulls, first + seen * size)
        except ElementError as exc:
            if count <= size:
                yield exc
                return
            for i in range(0, count, size):
                yield from self._pieces(batch.slice(i, size), group, seen + i // size)
        else:
            runs = (block[i : i + size] for i in range(0, count, size))
            yield [run.stacked() if isinstance(run, Rows) else collate(run) for run in runs]

    def _scan(self, group: int, size: int) -> Iterator[Any]:
        yield from self._fragment.subset(row_group_ids=[group]).to_batches(
            columns=self._columns, filter=self._filter, batch_size=size, use_threads=False
        )

    def pick(self, places: Sequence[Place], kept: KeptGroups) -> Iterator[Block | Exception]:
        """See `PartReader.pick`."""
        for group, rows in by_group(places):
            table = kept.get((self._name, group), partial(self._table, [group]))
            for row, element in picked(table, rows, self._nulls):
                self._group, self._row = group, row
                yield element if isinstance(element, Exception) else [element]

    def _table(self, groups: list[int]) -> Any:
        subset = self._fragment.subset(row_group_ids=groups)
        return subset.to_table(columns=self._columns, use_threads=False)

    def is_before(self, following: FilePart) -> bool:  # noqa: ARG002
        """See `PartReader.is_before`. Columns and footers are read in any order."""
        return False

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        group, row = self._group, self._row
        return lambda back: (group, row - back)

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self._row += size

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"element {self._row} of row group {self._group}"


def _fragment(part: FilePart) -> Any:
    needed("pyarrow", "parquet")
    from pyarrow import PythonFile, dataset, fs  # noqa: PLC0415  an extra

    options = dataset.ParquetFragmentScanOptions(pre_buffer=True)
    form = dataset.ParquetFileFormat(default_fragment_scan_options=options)
    name = part.name
    if stored_file.is_url(name):
        file = stored_file.open_part("parquet", part, CHUNK, in_order=False)
        return form.make_fragment(PythonFile(file, mode="r"))
    stored_file.check_version("parquet", part)
    if not is_utf8(name):
        return form.make_fragment(mapped(name))
    # Not mapped into memory: to read a map of a file that was cut short ends the process.
    return form.make_fragment(name, fs.LocalFileSystem(use_mmap=False))


def _check_filter(fragment: Any, chosen: Any, name: str, schema: Any) -> None:
    pa = needed("pyarrow", "parquet")
    try:
        fragment.scanner(filter=chosen)
    except pa.ArrowException as exc:
        columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise RefusalError(
            f"parquet: filters={chosen} cannot be used on {name}, whose columns are {columns}: "
            f"{str(exc).partition(' in ')[0]}"
        ) from exc


def _of_size(batches: Iterator[Any], size: int) -> Iterator[Any]:
    """Yield the rows of *batches* in record batches of *size*; the last may have fewer."""
    pa = needed("pyarrow", "parquet")
    held: list[Any] = []
    for batch in batches:
        if batch.num_rows == size and not held:
            yield batch
            continue
        held.append(batch)
        while sum(each.num_rows for each in held) >= size:
            table = pa.Table.from_batches(held)
            yield from table.slice(0, size).combine_chunks().to_batches()
            held = table.slice(size).to_batches()
    if any(batch.num_rows for batch in held):
        yield from pa.Table.from_batches(held).combine_chunks().to_batches()


def _batches(table: Any) -> Iterator[Any]:
    """Yield the rows of *table* as one record batch, unless its text is too long for one."""
    yield from table.combine_chunks().to_batches()


def _count(piece: Block | ElementError) -> int:
    return 1 if isinstance(piece, ElementError) else len(piece)


def _is_in(group: Any, part: FilePart) -> bool:
    if part.stop is None:
        return True
    if not group.num_columns:
        return not part.start
    columns = [group.column(i) for i in range(group.num_columns)]
    offsets = (columns[0].dictionary_page_offset, columns[0].data_page_offset)
    first = min(offset for offset in offsets if offset is not None)
    middle = first + sum(column.total_compressed_size for column in columns) // 2
    middle = min(middle, part.size - 1)  # each row group is in one part, whatever the file says
    return bool(part.start <= middle < part.stop)


def _expression(filters: Any) -> Any:
    if filters is None:
        return None
    needed("pyarrow", "parquet")
    from pyarrow import dataset, parquet  # noqa: PLC0415  an extra

    if isinstance(filters, dataset.Expression):
        return filters
    try:
        return parquet.filters_to_expression(_rules(filters))
    except (TypeError, ValueError, AttributeError) as exc:
        raise DatasetError(
            f"parquet: filters={filters!r} cannot be used ({exc}): give tuples of a column, an "
            "operator and a value, as [('x', '>', 3)], or an expression of pyarrow"
        ) from exc


def _rules(filters: Any) -> Any:
    """Return filters as pyarrow takes them: a list of tuples, or a list of such lists."""
    if not isinstance(filters, tuple) or not filters or isinstance(filters[0], str):
        return filters
    return [each if isinstance(each[0], str) else list(each) for each in filters]


def _tuples(value: Any) -> Any:
    """Return *value* with all lists in it as tuples, as a pipeline has them that travels."""
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value
