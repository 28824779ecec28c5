"""Describes elements before one is made; and writes such a description as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from penstock.element import leaves, map_leaves, parts_of, shown, with_parts
from penstock.errors import DatasetError
from penstock.frames.buffers import dtype_from, dtype_text
from penstock.frames.nest import Column, nest_from, nest_of
from penstock.protocol.malformed import MALFORMED, glimpse
from penstock.ragged import Ragged

Spec: TypeAlias = Any
"""A nest like an element, with an `ArraySpec` or a `DatasetSpec` in each leaf's place."""

Shape: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The shape and dtype of an array, a NumPy scalar or text: a leaf of an element.

    Attributes:
        shape: a length for each axis, None for one that may differ; empty for scalars and text.
        dtype: a `numpy.dtype`; for text, and for arrays of it, `str` or `bytes`.

    >>> Dataset.range(5).batch(2).element_spec
    ArraySpec(shape=(None,), dtype=dtype('int64'))
    """

    shape: Shape
    dtype: np.dtype[Any] | type[str | bytes]


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """Describes a dataset inside an element, as `Dataset.window` makes them.

    Attributes:
        element: the spec of its elements.

    >>> Dataset.range(5).window(2).element_spec
    DatasetSpec(element=ArraySpec(shape=(), dtype=dtype('int64')))
    """

    element: Spec


class Specs(NamedTuple):
    """The specs of elements that one pipeline makes, and of those that tasks make together.

    A task may end with a short batch where the whole has none.
    """

    whole: Spec
    divided: Spec


def common_spec(names: Sequence[str], specs: Sequence[Spec]) -> Spec:
    """Return the spec of the elements of several datasets, which look like *specs*.

    Raises:
        DatasetError: when two differ in more than the lengths of axes; it names both datasets.
    """
    common = specs[0]
    for name, spec in zip(names, specs, strict=True):
        merged = _merged(common, spec)
        if merged is None:
            raise DatasetError(
                f"mixture: the elements of {names[0]!r} look like {specs[0]} and those of {name!r} "
                f"like {spec}: make them alike in a map before the mixture"
            )
        common = merged
    return common


def _merged(one: Spec, other: Spec) -> Spec | None:
    if type(one) is not type(other):
        return None
    if isinstance(one, ArraySpec):
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            return None
        pairs = zip(one.shape, other.shape, strict=True)
        return replace(one, shape=tuple(a if a == b else None for a, b in pairs))
    if isinstance(one, dict) and one.keys() == other.keys():
        other = {key: other[key] for key in one}
    values, others = parts_of(one), parts_of(other)
    if values is None or others is None:
        return one if one == other else None
    if len(values) != len(others) or (isinstance(one, dict) and list(one) != list(other)):
        return None
    made = [_merged(*pair) for pair in zip(values, others, strict=True)]
    return None if None in made else with_parts(one, made)


def row_of(spec: Spec) -> Spec:
    """Return the spec of the elements that were stacked to one of *spec*."""
    if isinstance(spec, Ragged):
        return spec.values
    parts = parts_of(spec)
    return shrunk(spec) if parts is None else with_parts(spec, map(row_of, parts))


def rows_of(like: Spec, spec: Spec, rows: int | None) -> Spec:
    """Return the spec of elements of *spec*, stacked to one that looks like *like*."""
    if isinstance(like, Ragged):
        ends = ArraySpec((None if rows is None else rows + 1,), np.dtype(np.int64))
        return Ragged(map_leaves(_lengthened, spec), ends)
    parts = parts_of(like)
    if parts is None:
        return replace(spec, shape=(rows, *spec.shape))
    pairs = zip(parts, parts_of(spec) or (), strict=True)
    return with_parts(like, [rows_of(*pair, rows) for pair in pairs])


def _lengthened(leaf: ArraySpec) -> ArraySpec:
    return replace(leaf, shape=(None, *leaf.shape[1:]))


def shrunk(leaf: ArraySpec) -> ArraySpec:
    """Return the spec of a row of *leaf*."""
    return replace(leaf, shape=leaf.shape[1:])


_TEXTS: dict[str, type[str | bytes]] = {"str": str, "bytes": bytes}


def spec_to_bytes(spec: Spec) -> bytes:
    """Return *spec* as MessagePack. Named tuples are written as names and fields.

    Raises:
        DatasetError: when it is no spec of elements that can be sent.
    """
    return msgspec.msgpack.encode((nest_of(spec).plain(), list(map(_plain, leaves(spec)))))


def spec_from_bytes(data: bytes) -> Spec:
    """Read what `spec_to_bytes` wrote.

    Raises:
        DatasetError: when it wrote something else.
    """
    try:
        nest, places = msgspec.msgpack.decode(data)
        columns: list[Column] = [[_from_plain(place)] for place in reversed(places)]
        (spec,) = nest_from(nest).join(columns, 1)
    except MALFORMED as exc:
        raise DatasetError(f"{glimpse(data)} is no element spec") from exc
    return spec


def _plain(leaf: Any) -> Any:
    match leaf:
        case ArraySpec(shape, type() as text) if text in (str, bytes):
            return list(shape), text.__name__
        case ArraySpec(shape, np.dtype() as dtype):
            return list(shape), dtype_text(dtype)
        case DatasetSpec():
            raise DatasetError(
                "a dataset inside an element cannot be distributed: flatten it first, as in "
                "window(size).flat_map(lambda w: w.batch(size))"
            )
    raise DatasetError(
        "an element_spec is a nest of ArraySpec, as Dataset.element_spec is, and not of "
        f"{shown(leaf)}"
    )


def _from_plain(plain: Any) -> ArraySpec:
    shape, dtype = plain
    return ArraySpec(tuple(shape), _TEXTS.get(dtype) or dtype_from(dtype))
