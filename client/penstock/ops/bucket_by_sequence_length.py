"""`bucket_by_sequence_length`: batches of elements of about the same length.

It is `group_by_window` with buckets for keys; State: as there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from penstock.element import Element, parts_of
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError, ElementError
from penstock.executors.function import UserFunction
from penstock.graph.node import Node, function
from penstock.ops.batch import Batch
from penstock.ops.group_by_window import GroupingIterator, integer, shown
from penstock.ops.padded_batch import PaddedBatch, parts, plain_spec
from penstock.ops.window import InMemory
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class BucketBySequenceLength(Node):
    """Batches, each of elements whose lengths lie between two of *boundaries*.

    Bucket i holds lengths below boundary i and not below boundary i - 1; there is one more for the
    rest. With *to_boundary* batches are padded to the longest that may be in their bucket.
    """

    op: ClassVar[str] = "bucket_by_sequence_length"
    stays_endless: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    boundaries: tuple[int, ...]
    sizes: tuple[int, ...]
    shapes: Any
    values: Any
    to_boundary: bool
    no_padding: bool
    drop_remainder: bool
    length_func: Callable[..., Any] = function()

    def __post_init__(self) -> None:
        if not callable(self.length_func):
            raise DatasetError(
                f"{self.op}: element_length_func must be callable, not {self.length_func!r}"
            )
        boundaries = _numbers("bucket_boundaries", self.boundaries)
        sizes = _numbers("bucket_batch_sizes", self.sizes)
        if not boundaries:
            raise DatasetError(
                f"{self.op}: bucket_boundaries must not be empty: without any, use padded_batch"
            )
        for before, boundary in pairwise(boundaries):
            if boundary <= before:
                raise DatasetError(
                    f"{self.op}: bucket_boundaries must increase, but {before} is followed by "
                    f"{boundary}"
                )
        if len(sizes) != len(boundaries) + 1:
            raise DatasetError(
                f"{self.op}: {len(boundaries)} bucket_boundaries make {len(boundaries) + 1} "
                f"buckets, but there are {len(sizes)} bucket_batch_sizes: give one for each bucket"
            )
        object.__setattr__(self, "boundaries", boundaries)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "shapes", plain_spec(self.op, "padded_shapes", self.shapes))
        object.__setattr__(self, "values", plain_spec(self.op, "padding_values", self.values))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        call = UserFunction(self.length_func, self.label, context.seed())
        return GroupingIterator(_Buckets(self, call), self.upstream, context, state)


class _Buckets:
    """A `Grouping` by length."""

    whole = True

    def __init__(self, node: BucketBySequenceLength, call: UserFunction) -> None:
        self._node, self._length = node, call

    def key(self, element: Element, number: int) -> int:
        """See `Grouping.key`."""
        answer = self._length(element, number)
        length = integer(answer)
        if length is None:
            error = DatasetError(f"element_length_func must return an integer, not {shown(answer)}")
            self._length.fail(error, number, element)
        node = self._node
        bucket = bisect_right(node.boundaries, length)
        if bucket == len(node.boundaries) and node.to_boundary and not node.no_padding:
            raise ElementError(
                f"{node.op}: element {number} has length {length}, and with pad_to_bucket_boundary "
                f"lengths must be below the last of bucket_boundaries, {node.boundaries[-1]}: add "
                "one, or filter such elements out before"
            )
        return bucket

    def size(self, key: int, number: int) -> int:  # noqa: ARG002  it depends on the key alone
        """See `Grouping.size`."""
        return self._node.sizes[key]

    def reduce(self, key: int, elements: list[Element], number: int) -> Node:  # noqa: ARG002
        """See `Grouping.reduce`."""
        node, bucket = self._node, InMemory(elements)
        size, drop = node.sizes[key], node.drop_remainder
        if node.no_padding:
            return Batch(bucket, size, drop)
        shapes = node.shapes
        if node.to_boundary:
            shapes = _filled(shapes, elements[0], node.boundaries[key] - 1)
        return PaddedBatch(bucket, size, shapes, node.values, drop)


def _filled(shapes: Any, like: Element, length: int) -> Any:
    """Return *shapes*, those of elements like *like*, with *length* for each that is open."""
    below = parts_of(like)
    if below is not None:
        pairs = zip(parts("padded_shapes", shapes, like), below, strict=True)
        filled = [_filled(*pair, length) for pair in pairs]
        return dict(zip(like, filled, strict=True)) if isinstance(like, dict) else tuple(filled)
    if shapes is None and isinstance(like, np.ndarray):
        return (length,) * like.ndim
    if isinstance(shapes, tuple):
        return tuple(length if axis in (None, -1) else axis for axis in shapes)
    return shapes


def _numbers(name: str, values: Sequence[int]) -> tuple[int, ...]:
    op = BucketBySequenceLength.op
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise DatasetError(f"{op}: {name} must be a list of integers, not {values!r}")
    return tuple(check_count(op, f"{name}[{i}]", value) for i, value in enumerate(values))
