"""Record batches of Arrow as blocks of elements: columns in Arrow's own memory where it is NumPy's.

A column becomes an array of its declared type. Text is an array of objects in a batch, and `str` in
an element. A missing value is an error that names the column and the row, unless the user gave a
value to put there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element, read_only
from penstock.engine.rows import Block, ColumnsOfBlock, Rows, elements_of
from penstock.errors import DatasetError, ElementError
from penstock.extras import needed
from penstock.graph.node import Node
from penstock.normalise import normalise
from penstock.ops.internal.arrow_rows import column_of, typed
from penstock.ops.internal.file_parts import PartsSource, Place, RefusalError

_firsts: WeakKeyDictionary[Node, tuple[str, dict[str, Any]]] = WeakKeyDictionary()
"""The first file that this process read of each source, and the kinds of its columns. A process
compares only files that it reads itself: the dispatcher, which lists all, opens none."""

Nulls = Mapping[str, Any]
"""What to put in the place of missing values, by column."""


@dataclass(frozen=True, eq=False)
class ColumnsSource(PartsSource):
    """A source of rows that have the columns *columns*, or all."""

    columns: tuple[str, ...] | None
    nulls: Nulls

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", chosen(self.op, self.columns, self.nulls))


def chosen(op: str, columns: Any, nulls: Any) -> tuple[str, ...] | None:
    """Return the columns that a user chose, each once; None is all of them.

    Raises:
        DatasetError: when these are no names, or *nulls* is no dict.
    """
    if not isinstance(nulls, Mapping):
        raise DatasetError(f"{op}: nulls must be a dict by column, not {nulls!r}")
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(column, str) for column in columns):
        raise DatasetError(f"{op}: columns must be a list of names, not {columns!r}")
    if not columns:
        raise DatasetError(f"{op}: columns must name a column; None means all of them")
    return tuple(dict.fromkeys(columns))


def block_of(batch: Any, nulls: Nulls, first: int) -> Block:
    """Return the rows of *batch* as elements; *first* is the number of its first row, for errors.

    Raises:
        ElementError: for a missing value.
    """
    names = batch.schema.names
    columns = {name: filled(batch.column(i), name, nulls, first) for i, name in enumerate(names)}
    arrays = {name: _array(column) for name, column in columns.items()}
    count = batch.num_rows
    if all(isinstance(array, np.ndarray) for array in arrays.values()):
        ready = {name: read_only(array) for name, array in arrays.items()}
        return Rows(ColumnsOfBlock(ready, list(ready.values())), range(count))
    lists = [
        _listed(columns[name], name) if array is None else _read_only(array)
        for name, array in arrays.items()
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


def pieces_of(batch: Any, nulls: Nulls, first: int) -> Iterator[Block | ElementError]:
    """Yield the rows of *batch* as `block_of` makes them, and an error for each bad row."""
    try:
        block = block_of(batch, nulls, first)
    except ElementError as exc:
        half = batch.num_rows // 2
        if not half:
            yield exc
            return
        yield from pieces_of(batch.slice(0, half), nulls, first)
        yield from pieces_of(batch.slice(half), nulls, first + half)
    else:
        yield block


def by_group(places: Sequence[Place]) -> Iterator[tuple[int, list[int]]]:
    """Yield each group in *places*, which are sorted, and the rows in it."""
    for group, found in groupby(places, itemgetter(0)):
        yield group, [row for _, row in found]


def picked(table: Any, rows: list[int], nulls: Nulls) -> Iterator[tuple[int, Element | Exception]]:
    """Yield *rows* of *table*, each its number and the element; or the error of a bad one."""
    pa = needed("pyarrow", "parquet and arrow")
    taken = pa.table(table.take(rows)).combine_chunks()
    try:
        (batch,) = taken.to_batches() or [pa.record_batch({"": pa.nulls(len(rows))}).select([])]
        yield from zip(rows, elements_of(block_of(batch, nulls, 0)), strict=True)
    except ElementError:
        for at, row in enumerate(rows):
            (piece,) = pieces_of(taken.slice(at, 1).to_batches()[0], nulls, row)
            yield row, piece if isinstance(piece, ElementError) else piece[0]


def filled(column: Any, name: str, nulls: Nulls, first: int) -> Any:
    """Return *column* without missing values."""
    pa = needed("pyarrow", "parquet and arrow")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        # As text, because Arrow's own cast gives 0.5700000000000001 for 0.57.
        column = column.cast(pa.string()).cast(pa.float64())
    if pa.types.is_null(column.type) and name in nulls:
        return pa.array([nulls[name]] * len(column))
    if not column.null_count:
        return column
    if name in nulls:
        try:
            return column.fill_null(pa.scalar(nulls[name], column.type))
        except (pa.ArrowException, TypeError, ValueError) as exc:
            raise RefusalError(
                f"nulls={{{name!r}: {nulls[name]!r}}}: this cannot be put into a column of type "
                f"{column.type}: {exc}"
            ) from exc
    row = first + int(np.flatnonzero(np.asarray(column.is_null()))[0])
    raise ElementError(
        f"column {name!r} has no value in row {row}: give one, as in nulls={{{name!r}: ...}}, "
        "choose other columns (columns=), or leave these rows out (ignore_errors)"
    )


def _array(column: Any) -> NDArray[Any] | list[Any] | None:
    """Return *column* as `column_of` does, and moments and durations in the unit of the file."""
    pa = needed("pyarrow", "parquet and arrow")
    kind, types = column.type, pa.types
    if types.is_time(kind):  # of the day, since midnight
        column = column.cast(pa.int32() if types.is_time32(kind) else pa.int64())
        column = column.cast(pa.int64()).cast(pa.duration(kind.unit))
    elif types.is_date64(kind):
        column = column.cast(pa.timestamp("ms"))
    if types.is_temporal(kind) and not types.is_interval(kind):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return column_of(pa.chunked_array([column]))


def _read_only(array: NDArray[Any] | list[Any]) -> Any:
    if isinstance(array, np.ndarray):
        return read_only(array)
    return [read_only(each) for each in array]


def _listed(column: Any, name: str) -> list[Element]:
    """Return values of a type that NumPy has no array for, one by one.

    Raises:
        ElementError: naming the column.
    """
    feature = _feature(column.type)
    try:
        return [normalise(typed(value, feature, _plain)) for value in column.to_pylist()]
    except ElementError as exc:
        raise ElementError(f"in column {name!r}, {exc}") from exc


class _Feature:
    """The type of an Arrow column, in the form that `typed` knows."""

    def __init__(self, dtype: str | None = None, feature: Any = None) -> None:
        self.dtype, self.feature = dtype, feature


def _feature(kind: Any) -> Any:
    pa = needed("pyarrow", "parquet and arrow")
    types = pa.types
    if types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _Feature(feature=_feature(kind.value_type))
    return _Feature(dtype=_name(str(kind)))


def _name(text: str) -> str:
    """Return the name of an Arrow type as Hugging Face's features name it."""
    head = text.partition("[")[0]
    named = {"double": "float64", "float": "float32", "halffloat": "float16"}
    named |= {"date32": "date32", "date64": "date64"}
    return named.get(head, text)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, Decimal):
        return float(value)
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def mapped(name: str) -> Any:
    """Return a local file, mapped into memory; one whose name is not UTF-8 is read instead."""
    pa = needed("pyarrow", "parquet and arrow")
    if is_utf8(name):
        return pa.memory_map(name)
    return pa.BufferReader(Path(name).read_bytes())


def is_utf8(name: str) -> bool:
    """Return whether *name* can be given to Arrow."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_columns(op: str, name: str, wanted: tuple[str, ...] | None, there: list[str]) -> None:
    """Check that the file *name* has the columns *wanted*.

    Raises:
        RefusalError: naming the first that it lacks, and those that it has.
    """
    for column in wanted or there:
        if there.count(column) > 1:
            raise RefusalError(f"{op}: {name} has several columns named {column!r}")
        if column not in there:
            raise RefusalError(
                f"{op}: {name} has no column {column!r}; its columns are {', '.join(there)}"
            )


def check_same(node: Node, name: str, schema: Any) -> None:
    """Check that the file *name*, read for *node*, has the columns of the first file read for it.

    Args:
        node: the source.
        name: the name of the file.
        schema: the pyarrow schema of the columns that are read.

    Raises:
        RefusalError: naming both files, and the first difference.
    """
    kinds = {field.name: _kind(field.type) for field in schema}
    first, wanted = _firsts.setdefault(node, (name, kinds))
    for column in [*wanted, *kinds]:
        if column not in kinds or column not in wanted:
            has, lacks = (name, first) if column in kinds else (first, name)
            differ = f"{has} has a column {column!r}, and {lacks} has none"
        elif not _alike(kinds[column], wanted[column]):
            differ = (
                f"column {column!r} is {_shown(wanted[column])} in {first}, and "
                f"{_shown(kinds[column])} in {name}"
            )
        else:
            continue
        raise RefusalError(
            f"{node.op}: {differ}: choose columns that are alike (columns=), or read these files "
            "as two datasets and map both to one structure"
        )


def _kind(given: Any) -> Any:
    """Return what decides the elements of a column of type *given*; None if it only has nulls."""
    types = needed("pyarrow", "parquet and arrow").types
    if types.is_dictionary(given):
        return _kind(given.value_type)
    if types.is_null(given):
        return None
    if types.is_struct(given):
        return {field.name: _kind(field.type) for field in given}
    if types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given):
        return [_kind(given.value_type)]
    if types.is_decimal(given):
        return "double"
    return str(given).removeprefix("large_").removesuffix("_view")


def _alike(kind: Any, other: Any) -> bool:
    if kind is None or other is None:
        return True
    if isinstance(kind, list) and isinstance(other, list):
        return _alike(kind[0], other[0])
    if isinstance(kind, dict) and isinstance(other, dict):
        return kind.keys() == other.keys() and all(_alike(kind[k], other[k]) for k in kind)
    return bool(kind == other)


def _shown(kind: Any) -> str:
    if isinstance(kind, list):
        return f"a list of {_shown(kind[0])}"
    if isinstance(kind, dict):
        return "a dict of " + ", ".join(f"{name} ({_shown(each)})" for name, each in kind.items())
    return str(kind)
