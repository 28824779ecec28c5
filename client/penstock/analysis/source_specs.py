"""What the elements of a source look like, if that is known without one: also of an empty source.

Where no function of the user's runs, `sampled` lets made-up elements take the place of the source's
own, so that no file is opened and an empty pipeline has a spec, too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from penstock.analysis.array_spec import ArraySpec, Spec
from penstock.analysis.registered import samples
from penstock.element import map_leaves
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.graph.node import Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.ops.cache import Cache
from penstock.ops.counter import Counter
from penstock.ops.fixed_length_records import FixedLengthRecords
from penstock.ops.list_files import ListFiles
from penstock.ops.prefetch import Prefetch
from penstock.ops.random import Random
from penstock.ops.range import Range
from penstock.ops.repeat import Repeat
from penstock.ops.shard import Shard
from penstock.ops.shuffle import Shuffle
from penstock.ops.skip import Skip
from penstock.ops.slices import Slices
from penstock.ops.take import Take
from penstock.ops.text_lines import TextLines
from penstock.ops.tfrecords import TFRecords


def source_spec(node: Node) -> Spec | None:
    """Return what the elements of *node* look like; None if only an element tells."""
    match node:
        case Range() | Counter() | Random():
            return ArraySpec((), np.dtype(np.int64))
        case Slices(tensors):
            return map_leaves(_row, tensors)
        case TextLines() | ListFiles():
            return ArraySpec((), str)
        case TFRecords() | FixedLengthRecords():
            return ArraySpec((), bytes)
        case _:
            return None


def sampled(root: Node) -> Node:
    """Return *root* with samples in place of each source whose elements are known.

    If a function of the user's would see the samples, *root* comes back unchanged.
    """
    if any(_calls(node) for node in topological_order(root)):
        return root
    return rewritten(root, _sampled)


def leaf_spec(leaf: Any) -> ArraySpec:
    """Return what an array, a NumPy scalar or text looks like."""
    if isinstance(leaf, (str, bytes)):
        return ArraySpec((), type(leaf))
    if leaf.dtype.hasobject:
        texts = leaf.ravel()
        return ArraySpec(leaf.shape, bytes if texts.size and type(texts[0]) is bytes else str)
    return ArraySpec(leaf.shape, leaf.dtype)


@dataclass(frozen=True, eq=False)
class _Samples(Node):
    """Elements that look as *spec* says and hold zeros; only `element_spec` opens it."""

    op: ClassVar[str] = "samples"
    spec: Spec

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`."""
        return samples(self.spec, state)


def _sampled(node: Node) -> Node:
    if isinstance(node, _PASSING):
        return node.inputs[0]
    spec = source_spec(node)
    return node if spec is None else _Samples(spec)


_PASSING = (Cache, Prefetch, Repeat, Shard, Shuffle, Skip, Take)
"""Operators whose elements look like those of their input. A `take(0)` has none, and a `cache` must
not keep samples in its file."""


def _calls(node: Node) -> bool:
    """Return whether *node* holds a function or an object of the user's."""
    return any(
        each.metadata.get("kind") == "function" and getattr(node, each.name) is not None
        for each in fields(node)
    )


def _row(array: Any) -> ArraySpec:
    whole = leaf_spec(array)
    return replace(whole, shape=whole.shape[1:])
