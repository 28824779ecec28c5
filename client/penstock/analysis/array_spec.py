"""Describes elements before one is made; and writes such a description as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from penstock.element import leaves, shown
from penstock.errors import DatasetError
from penstock.frames.buffers import dtype_from, dtype_text
from penstock.frames.nest import Column, nest_from, nest_of
from penstock.protocol.malformed import MALFORMED, glimpse

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
