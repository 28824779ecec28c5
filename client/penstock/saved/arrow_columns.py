"""Columns of leaves as Arrow's arrays, and back.

Numbers and text have Arrow's own types. An array of one axis is a list; one of several axes is a
struct of its numbers and its shape. Dtypes that Arrow does not have (complex numbers, records,
text of a fixed length) are binary values of fixed size, whose meaning the layout tells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.element import read_only, stacks_by_leaf, text_array
from penstock.engine.rows import Block, ColumnsOfBlock, Rows, gathered
from penstock.errors import DatasetError
from penstock.extras import EXTENDED, needed
from penstock.frames.columns import Alike, Scalars, Text, TextArrays
from penstock.frames.nest import Column
from penstock.saved.layout import SavedLayout

Table: TypeAlias = Any
"""A record batch of pyarrow."""

Numbers: TypeAlias = NDArray[np.int64]
"""Numbers of rows."""

_PURPOSE = "a saved dataset of format 'arrow'"
_FOREIGN = EXTENDED | {"longdouble", "float96", "float128"}
"""Dtypes of numbers that Arrow does not have."""
_UNITS = ("s", "ms", "us", "ns")
_SHAPE, _DATA = "shape", "data"


def schema(layout: SavedLayout) -> Any:
    """Return the schema of tables with this *layout*."""
    pa = needed("pyarrow", _PURPOSE)
    fields = [
        pa.field(name, _type(kind), nullable=False)
        for name, kind in zip(layout.names, layout.kinds, strict=True)
    ]
    return pa.schema(fields)


def table(layout: SavedLayout, of: Any, columns: list[Column]) -> Table:
    """Return *columns* as a table with the schema *of*.

    Raises:
        DatasetError: when Arrow cannot hold a value, naming its column.
    """
    pa = needed("pyarrow", _PURPOSE)
    arrays = []
    for name, kind, column in zip(layout.names, layout.kinds, columns, strict=True):
        try:
            arrays.append(_array(kind, column))
        except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError) as exc:
            raise DatasetError(
                f"save: column {name!r} has a value that cannot be written: {exc}; map it to bytes"
            ) from exc
    return pa.RecordBatch.from_arrays(arrays, schema=of)


def block(layout: SavedLayout, found: Table, rows: Numbers | None = None) -> Block:
    """Return all *rows* of a table as elements, or those with these numbers.

    Arrays of all rows are views of the table's memory, and those of some rows are copies.
    """
    columns = [_column(kind, found.column(i), rows) for i, kind in enumerate(layout.kinds)]
    count = found.num_rows if rows is None else len(rows)
    if count and all(isinstance(column, np.ndarray) for column in columns):
        arrays = [read_only(column) for column in columns]
        stacked = layout.join([[array] for array in arrays], 1)[0]
        if stacks_by_leaf(stacked):
            return Rows(ColumnsOfBlock(stacked, arrays), range(count))
    return layout.join([list(map(read_only, column)) for column in columns], count)


@lru_cache(maxsize=256)
def _type(kind: Alike) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    match kind:
        case Scalars():
            return _number(kind.dtype)[0]
        case Text():
            return pa.large_string() if kind.kind is str else pa.large_binary()
        case TextArrays():
            inner = pa.large_binary()  # it may hold `str` in one array and `bytes` in another
            return _nested(inner, kind.ndim + 1, more=[pa.field("text", pa.bool_())])
    return _nested(_number(kind.dtype)[0], kind.ndim)


def _nested(inner: Any, ndim: int, more: Any = ()) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    listed = pa.large_list(pa.field("item", inner, nullable=False))
    if ndim == 1:
        return listed
    axes = ndim - len(more)
    shape = pa.list_(pa.field("item", pa.int64(), nullable=False), axes)
    parts = [pa.field(_DATA, listed, nullable=False), pa.field(_SHAPE, shape, nullable=False)]
    return pa.struct([*parts, *more])


@lru_cache(maxsize=256)
def _number(dtype: np.dtype[Any]) -> tuple[Any, str]:
    """Return the Arrow type of numbers of *dtype*, and how they get there."""
    pa = needed("pyarrow", _PURPOSE)
    if dtype.isnative and dtype.kind in "biuf" and dtype.name not in _FOREIGN:
        return pa.from_numpy_dtype(dtype), "same"
    if dtype.isnative and dtype.kind in "mM":
        unit, step = np.datetime_data(dtype)
        if unit in _UNITS and step == 1:
            return (pa.timestamp if dtype.kind == "M" else pa.duration)(unit), "moment"
    return pa.binary(dtype.itemsize) if dtype.itemsize else pa.bool_(), "bytes"


def _array(kind: Alike, column: Column) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    match kind:
        case Scalars():
            out = np.empty(kind.end(column, 0), np.uint8)
            kind.write(column, out, 0)
            return _numbers(out.view(kind.dtype))
        case Text():
            return pa.array(list(column), _type(kind))
        case TextArrays():
            texts = [
                text.encode() if isinstance(text, str) else text
                for text in chain.from_iterable(array.flat for array in column)
            ]
            listed = _listed(pa.array(texts, pa.large_binary()), column)
            is_text = [not (array.size and isinstance(array.flat[0], bytes)) for array in column]
            more = pa.array(is_text, pa.bool_())
            return _struct(listed, column, kind, [more])
    flat = [np.ravel(array) for array in column]
    values = flat[0] if len(flat) == 1 else np.concatenate(flat, dtype=kind.dtype)
    listed = _listed(_numbers(values), column)
    return listed if kind.ndim == 1 else _struct(listed, column, kind, [])


def _listed(values: Any, column: Column) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    ends = np.zeros(len(column) + 1, np.int64)
    np.cumsum([array.size for array in column], out=ends[1:])
    kind = pa.large_list(pa.field("item", values.type, nullable=False))
    return pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), values, type=kind)


def _struct(listed: Any, column: Column, kind: Any, more: list[Any]) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    whole = _type(kind)
    sizes = np.array([array.shape for array in column], np.int64).ravel()
    shapes = pa.FixedSizeListArray.from_arrays(
        pa.array(sizes, pa.int64()), type=whole.field(whole.get_field_index(_SHAPE)).type
    )
    fields = [whole.field(i) for i in range(whole.num_fields)]
    return pa.StructArray.from_arrays([listed, shapes, *more], fields=fields)


def _numbers(values: NDArray[Any]) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    kind, how = _number(values.dtype)
    if how == "same":
        return pa.array(values, kind)
    if how == "moment":  # as integers: "not a time" is a value, and nothing is missing
        return pa.array(values.view(np.int64), pa.int64()).view(kind)
    if not values.dtype.itemsize:
        return pa.array(np.zeros(len(values), bool))
    data = pa.py_buffer(np.ascontiguousarray(values).tobytes())
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(values), [None, data])


def _column(kind: Alike, found: Any, rows: Numbers | None) -> NDArray[Any] | list[Any]:
    """Return a column, or *rows* of it: an array if all its leaves have one shape, else a list.

    Raises:
        ValueError: when the table was not made of this kind.
    """
    if found.type != _type(kind) or found.null_count:
        raise ValueError(f"a column is {found.type} instead of {_type(kind)}")
    match kind:
        case Scalars():
            numbers = _from_numbers(found, kind.dtype)
            return numbers if rows is None else gathered(numbers, rows)
        case Text():
            return text_array(_taken(found, rows).to_pylist())
        case TextArrays():
            return _texts(_taken(found, rows))
    values: Callable[[Any], NDArray[Any]] = partial(_from_numbers, dtype=kind.dtype)
    if kind.ndim == 1:
        return _arrays(found, values, rows=rows)
    return _arrays(found.field(_DATA), values, _shapes(found), rows)


def _taken(found: Any, rows: Numbers | None) -> Any:
    pa = needed("pyarrow", _PURPOSE)
    return found if rows is None else found.take(pa.array(rows, pa.int64()))


def _texts(found: Any) -> list[Any]:
    is_text = found.field("text").to_pylist()

    def decoded(values: Any) -> NDArray[Any]:
        return text_array(values.to_pylist())

    arrays = _arrays(found.field(_DATA), decoded, _shapes(found))
    return [_strings(array) if text else array for array, text in zip(arrays, is_text, strict=True)]


def _strings(array: NDArray[Any]) -> NDArray[Any]:
    return text_array([text.decode() for text in array.flat]).reshape(array.shape)


def _shapes(found: Any) -> NDArray[np.int64]:
    shapes = found.field(_SHAPE)
    whole: NDArray[np.int64] = shapes.flatten().to_numpy()
    return whole.reshape(len(shapes), shapes.type.list_size)


def _arrays(
    listed: Any,
    values: Callable[[Any], NDArray[Any]],
    shapes: NDArray[np.int64] | None = None,
    rows: Numbers | None = None,
) -> NDArray[Any] | list[Any]:
    ends = listed.offsets.to_numpy()
    flat = values(listed.values)
    lengths = np.diff(ends) if shapes is None else shapes
    if len(lengths) and (lengths == lengths[0]).all():
        shape = (lengths[0],) if shapes is None else tuple(lengths[0].tolist())
        whole = flat[ends[0] : ends[-1]].reshape(len(lengths), *shape)
        return whole if rows is None else gathered(whole, rows)
    if rows is None:
        cut = [flat[low:high] for low, high in pairwise(ends.tolist())]
    else:
        bounds = zip(ends[rows].tolist(), ends[rows + 1].tolist(), strict=True)
        cut = [flat[low:high].copy() for low, high in bounds]
    if shapes is None:
        return cut
    if rows is not None:
        shapes = shapes[rows]
    return [array.reshape(shape) for array, shape in zip(cut, shapes.tolist(), strict=True)]


def _from_numbers(found: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    pa = needed("pyarrow", _PURPOSE)
    _, how = _number(dtype)
    if how == "same":
        return np.asarray(found.to_numpy(zero_copy_only=dtype.kind != "b"))
    if how == "moment":
        return np.asarray(found.view(pa.int64()).to_numpy(zero_copy_only=True)).view(dtype)
    if not dtype.itemsize:
        return np.zeros(len(found), dtype)
    if not len(found):
        return np.empty(0, dtype)
    data = np.frombuffer(found.buffers()[1], np.uint8)
    begin = found.offset * dtype.itemsize
    return data[begin : begin + len(found) * dtype.itemsize].view(dtype)
