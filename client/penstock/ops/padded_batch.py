"""`padded_batch`: consecutive elements, padded to one length and stacked. State: as `batch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element, collate, describe, shown, unlike, with_parts
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.engine.tallies import Tally
from penstock.errors import DatasetError, ElementError
from penstock.graph.node import Node
from penstock.ops.batch import GroupsIterator, batches
from penstock.ops.internal.input_buffer import InputBuffer
from penstock.options import check_count
from penstock.padding import pad_value
from penstock.ragged import Ragged


@dataclass(frozen=True, eq=False)
class PaddedBatch(Node):
    """Runs of *size* elements, each leaf padded to a shape and stacked.

    *shapes* and *values* have the structure of the elements.
    """

    op: ClassVar[str] = "padded_batch"
    per_task: ClassVar[bool] = True
    upstream: Node
    size: int
    shapes: Any
    values: Any
    drop_remainder: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", check_count("padded_batch", "batch_size", self.size))
        object.__setattr__(self, "shapes", plain_spec(self.op, "padded_shapes", self.shapes))
        object.__setattr__(self, "values", plain_spec(self.op, "padding_values", self.values))

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return batches(self.upstream.cardinality, self.size, self.drop_remainder)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        shapes, values = self.shapes, self.values
        held, tally = InputBuffer(context, self.upstream, state), context.tally(self.label)
        return GroupsIterator(
            held, self.size, self.drop_remainder, lambda run: pad(run, shapes, values, tally)
        )


def pad(elements: Sequence[Element], shapes: Any, values: Any, tally: Tally) -> Element:
    """Stack *elements*, leaf by leaf, each padded to its shape (None: the longest) with its value.

    *tally* counts the entries of arrays, and the padding among them.

    Raises:
        ElementError: when the elements, or the shapes and values to pad with, do not fit together.
    """
    if (other := unlike(elements)) is not None:
        raise _differ("structure", elements[0], other)
    return _padded(elements, shapes, values, tally)


def _padded(elements: Sequence[Element], shapes: Any, values: Any, tally: Tally) -> Element:
    first = elements[0]
    if not isinstance(first, (tuple, dict)):
        return _pad_leaf(elements, shapes, values, tally)
    if isinstance(first, Ragged):
        return collate(elements)
    places = first if isinstance(first, dict) else range(len(first))
    columns = [[element[place] for element in elements] for place in places]
    wanted = parts("padded_shapes", shapes, first), parts("padding_values", values, first)
    return with_parts(first, map(_padded, columns, *wanted, repeat(tally)))


def plain_spec(op: str, name: str, spec: Any) -> Any:
    """Return *spec*, what to pad to or with, in dicts, tuples, numbers and text.

    Raises:
        DatasetError: naming the operator and the argument, when it is anything else.
    """
    if spec is None or isinstance(spec, (int, float, complex, str, bytes)):
        return spec
    if isinstance(spec, np.generic):
        return spec.item()
    if isinstance(spec, dict):
        return {key: plain_spec(op, name, part) for key, part in spec.items()}
    if isinstance(spec, (tuple, list)):
        return tuple(plain_spec(op, name, part) for part in spec)
    raise DatasetError(
        f"{op}: {name} must be a nest of {_HOLDS[name]} like the elements, and not hold "
        f"{shown(spec)}"
    )


_HOLDS = {
    "padded_shapes": "shapes (tuples of lengths or None)",
    "padding_values": "numbers or text",
}


def parts(name: str, spec: Any, like: Element) -> list[Any]:
    """Return the parts of *spec* that belong to the parts of *like*, a tuple or dict.

    Raises:
        ElementError: when it does not have the structure of *like*.
    """
    if spec is None or (not isinstance(spec, (tuple, dict)) and name == "padding_values"):
        return [spec] * len(like)
    if isinstance(like, dict):
        if isinstance(spec, dict) and spec.keys() == like.keys():
            return [spec[key] for key in like]
    elif isinstance(spec, tuple) and len(spec) == len(like):
        return list(spec)
    raise ElementError(
        f"padded_batch: {name} {shown(spec)} does not have the structure of the elements, "
        f"{describe(like)}"
    )


def _pad_leaf(leaves: Sequence[Any], shape: Any, value: Any, tally: Tally) -> NDArray[Any]:
    first = leaves[0]
    if not isinstance(first, np.ndarray):
        for leaf in leaves:
            if type(leaf) is not type(first):
                raise _differ("dtype and number of axes", first, leaf)
        if shape:
            raise ElementError(
                f"padded_batch: {describe(first)} has no axis to pad to {shown(shape)}"
            )
        return np.asarray(collate(leaves))
    # An empty list has no dtype: it takes the others' dtype, which converts no value.
    sample = next((leaf for leaf in leaves if np.size(leaf)), first)
    for leaf in leaves:
        same = np.ndim(leaf) == first.ndim and (not np.size(leaf) or leaf.dtype == sample.dtype)
        if not isinstance(leaf, np.ndarray) or not same:
            raise _differ("dtype and number of axes", sample, leaf)
    target = _target(leaves, shape)
    out = np.full((len(leaves), *target), _fill(leaves, value), sample.dtype)
    for row, leaf in zip(out, leaves, strict=True):
        row[tuple(map(slice, leaf.shape))] = leaf
    tally.positions += out.size
    tally.padding += out.size - sum(leaf.size for leaf in leaves)
    return out


def _target(leaves: Sequence[NDArray[Any]], shape: Any) -> tuple[int, ...]:
    longest = tuple(map(max, zip(*(leaf.shape for leaf in leaves), strict=True)))
    if shape is None:
        return longest
    known = isinstance(shape, tuple) and all(d is None or type(d) is int for d in shape)
    if not known or len(shape) != len(longest):
        raise ElementError(
            f"padded_batch: padded_shapes has {shown(shape)} for {describe(leaves[0])}: give one "
            "length or None for each axis"
        )
    target = tuple(
        have if want is None or want == -1 else want
        for want, have in zip(shape, longest, strict=True)
    )
    if any(have > want for have, want in zip(longest, target, strict=True)):
        raise ElementError(
            f"padded_batch: an element of shape {list(longest)} is longer than the padded shape "
            f"{list(target)}: give None for that axis, or cut the element in a map before"
        )
    return target


def _fill(leaves: Sequence[NDArray[Any]], value: Any) -> Any:
    """Return the value to pad with: *value* if one is given, else zero or empty text."""
    dtype = next((leaf.dtype for leaf in leaves if leaf.size), leaves[0].dtype)
    if dtype.kind == "O":
        return _text(leaves, value)
    if value is None:
        return np.zeros((), dtype)[()]
    filled = pad_value(value, dtype)
    if filled is None:
        raise _unfit(value, str(dtype))
    return filled


def _text(leaves: Sequence[NDArray[Any]], value: Any) -> str | bytes:
    kinds = {type(leaf.flat[0]) for leaf in leaves if leaf.size}
    if len(kinds) > 1:
        raise ElementError("padded_batch: a batch cannot hold str and bytes: use one kind of text")
    kind = kinds.pop() if kinds else type(value) if isinstance(value, bytes) else str
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise _unfit(value, kind.__name__)
    return value


def _unfit(value: Any, what: str) -> ElementError:
    return ElementError(
        f"padded_batch: padding value {value!r} does not fit {what}: give one that does, or map "
        "the arrays to another dtype"
    )


def _differ(what: str, first: Element, other: Element) -> ElementError:
    return ElementError(
        f"padded_batch: elements of one batch must have the same {what}, but {describe(first)} is "
        f"followed by {describe(other)}: map them to one first"
    )
