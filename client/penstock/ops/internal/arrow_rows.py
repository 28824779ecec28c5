"""The rows of a Hugging Face dataset: Arrow's columns as NumPy's, in their own memory if possible.

Numbers of a block are views of Arrow's memory, which is a mapped file for a dataset on disk. Data
that Arrow keeps in another form than NumPy is copied: booleans, text, rows that an index picked.
Data with gaps, or that needs decoding (images), is made row by row by the dataset itself.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.element import read_only, text_array
from penstock.engine.rows import Block, ColumnsOfBlock, Rows, elements_of
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.normalise import normalise
from penstock.ops.sequence import ItemReader, Items


class ArrowRows(Items):
    """The rows of the map-style dataset *dataset*: dicts of its columns."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def label(self) -> str:
        """See `Items.label`."""
        return "from_huggingface"

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> Any:
        return elements_of(self.open().block([number]))[0]

    def open(self) -> ItemReader:
        """See `Items.open`. Rows of a dataset that has a format of the user's are made by it."""
        if self._dataset.format["type"] is not None:
            return _FormattedReader(self._dataset)
        return _ArrowReader(self._dataset)


class _FormattedReader(ItemReader):
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def block(self, numbers: Sequence[int]) -> Block:
        """See `ItemReader.block`."""
        return [normalise(plain(self._dataset[number])) for number in numbers]


class _ArrowReader(ItemReader):
    def __init__(self, dataset: Any) -> None:
        self._dataset, self._tables = dataset, dataset.with_format("arrow")

    def block(self, numbers: Sequence[int]) -> Block:
        """See `ItemReader.block`."""
        index = _index(numbers)
        table = self._tables[index]
        columns = {name: column_of(table.column(name)) for name in table.column_names}
        made = [name for name, column in columns.items() if column is None]
        if made:  # by the library
            rows = self._dataset.select_columns(made)[index]
            features = self._dataset.features
            columns |= {
                name: [normalise(typed(one, features.get(name), plain)) for one in rows[name]]
                for name in made
            }
        if all(isinstance(column, np.ndarray) for column in columns.values()):
            arrays = {name: read_only(column) for name, column in columns.items()}
            return Rows(ColumnsOfBlock(arrays, list(arrays.values())), range(len(numbers)))
        there = [
            read_only(each) if isinstance(each, np.ndarray) else each for each in columns.values()
        ]
        return [dict(zip(columns, row, strict=True)) for row in zip(*there, strict=True)]


def column_of(column: Any) -> NDArray[Any] | list[Any] | None:
    """Return an Arrow column as an array, or as a list of arrays of differing lengths.

    None if it has gaps, or is of a type that has no such form.
    """
    pa = needed("pyarrow", "from_huggingface")
    chunk = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(chunk, pa.ChunkedArray) or chunk.null_count:
        return None
    kind, types = chunk.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind):
        return _own(chunk.to_numpy(zero_copy_only=True))
    if types.is_boolean(kind) or isinstance(kind, pa.BaseExtensionType):  # arrays of several axes
        return _own(chunk.to_numpy(zero_copy_only=False))
    if any(is_text(kind) for is_text in _texts(types)):
        return text_array(chunk.to_pylist())
    return _lists(chunk, types)


def _own(array: NDArray[Any]) -> NDArray[Any] | None:
    return array if array.dtype.kind in "biuf" else None


def _texts(types: Any) -> tuple[Any, ...]:
    return types.is_string, types.is_large_string, types.is_binary, types.is_large_binary


def _lists(chunk: Any, types: Any) -> NDArray[Any] | list[Any] | None:
    kind = chunk.type
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return None
    inner = kind.value_type
    if not (types.is_integer(inner) or types.is_floating(inner)):
        return None
    if types.is_fixed_size_list(kind):
        flat = chunk.flatten()
        return None if flat.null_count else flat.to_numpy().reshape(len(chunk), kind.list_size)
    if chunk.values.null_count:
        return None
    ends, values = chunk.offsets.to_numpy(), chunk.values.to_numpy()
    lengths = np.diff(ends)
    if len(lengths) and (lengths == lengths[0]).all():
        whole: NDArray[Any] = values[ends[0] : ends[-1]].reshape(len(lengths), lengths[0])
        return whole
    return [values[low:high] for low, high in pairwise(ends)]


def _index(numbers: Sequence[int]) -> slice | list[int]:
    """Return *numbers* as the index that keeps Arrow's memory, if they are in a row."""
    if isinstance(numbers, range) and numbers.step == 1:
        return slice(numbers.start, numbers.stop)
    return list(numbers)


def plain(value: Any) -> Any:
    """Return a row as the library hands it out, with lists of numbers as arrays, images too."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return _array(value)
    if not hasattr(value, "__array__") and hasattr(value, "__array_interface__"):  # as Pillow's
        return np.asarray(value)
    return value


def _array(values: list[Any]) -> Any:
    try:
        array = np.asarray(values)
    except ValueError:  # parts of differing lengths
        return tuple(map(plain, values))
    if array.dtype.kind in "biufc" and (array.size or array.ndim == 1):
        return array
    return tuple(map(plain, values))


def check_map_style(dataset: Any) -> None:
    """Check that *dataset* is one that `ArrowRows` can read.

    Raises:
        DatasetError: when it is another thing, with what to give.
    """
    if isinstance(dataset, dict):
        raise DatasetError(
            f"from_huggingface: this is a dict of the splits {sorted(dataset)}: give one of them, "
            'as dataset["train"]'
        )
    if not (hasattr(dataset, "with_format") and hasattr(dataset, "features")):
        raise DatasetError(
            "from_huggingface: give a datasets.Dataset or a datasets.IterableDataset, not "
            f"{type(dataset).__name__}"
        )


_NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
_TEMPORAL = re.compile(r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)\b")
_TEXTS = {"string", "large_string", "string_view", "binary", "large_binary", "binary_view"}


def typed(value: Any, feature: Any, otherwise: Callable[[Any], Any]) -> Any:
    """Return *value* with the type that *feature* declares.

    Values that have no such type (None, images, decimals) are given to *otherwise*.
    """
    if isinstance(feature, dict) and isinstance(value, dict):
        return {name: typed(each, feature.get(name), otherwise) for name, each in value.items()}
    if isinstance(value, list):
        return _list(value, feature, otherwise)
    dtype = _dtype(feature)
    if value is None or dtype is None:
        return otherwise(value)
    return np.asarray(_moment(value), dtype)[()]


def _list(values: list[Any], feature: Any, otherwise: Callable[[Any], Any]) -> Any:
    inner = getattr(feature, "feature", None)
    if inner is None:  # an array of several axes has a dtype of its own
        return _shaped(values, feature, otherwise)
    axes, leaf = 1, inner
    while getattr(leaf, "feature", None) is not None:
        axes, leaf = axes + 1, leaf.feature
    dtype = _dtype(leaf)
    if dtype is not None and _is_full(values):
        try:
            return np.asarray(_moments(values), dtype) if values else np.zeros((0,) * axes, dtype)
        except ValueError:  # parts of differing lengths
            return tuple(typed(each, inner, otherwise) for each in values)
    if axes == 1 and getattr(leaf, "dtype", None) in _TEXTS and _is_full(values):
        return text_array(values)
    if values and not isinstance(inner, dict):
        return otherwise(values)
    return tuple(typed(each, inner, otherwise) for each in values)


def _shaped(values: list[Any], feature: Any, otherwise: Callable[[Any], Any]) -> Any:
    if getattr(feature, "shape", None) is None:
        return otherwise(values)
    return np.asarray(values, feature.dtype)


def _dtype(feature: Any) -> np.dtype[Any] | None:
    """Return the dtype of the scalars that *feature* declares, if NumPy has one."""
    name = getattr(feature, "dtype", None)
    if not isinstance(name, str) or getattr(feature, "shape", None) is not None:
        return None
    if _NUMBERS.fullmatch(name):
        return np.dtype(name)
    if name in ("date32", "date64"):
        return np.dtype("datetime64[D]" if name == "date32" else "datetime64[ms]")
    found = _TEMPORAL.match(name)
    if found is None:
        return None
    kind = "datetime64" if found[1] == "timestamp" else "timedelta64"
    return np.dtype(f"{kind}[{found[2]}]")


def _is_full(values: list[Any]) -> bool:
    """Return whether nothing is missing in *values* and the lists in it."""
    return not any(each is None or (type(each) is list and not _is_full(each)) for each in values)


def _moments(values: list[Any]) -> list[Any]:
    return [_moments(each) if type(each) is list else _moment(each) for each in values]


def _moment(value: Any) -> Any:
    """Return *value* as NumPy takes it: moments in UTC, times of day since midnight."""
    if isinstance(value, dt.time):
        return dt.timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    if type(value).__module__.startswith("pandas") and hasattr(value, "to_numpy"):
        return value.tz_convert(None).to_numpy() if getattr(value, "tz", None) else value.to_numpy()
    return value
