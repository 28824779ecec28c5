"""Walk a graph, rewrite it, and read its options and structure."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from penstock.element import NestedDataset
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.options import Options

V = TypeVar("V")


def structure_of(node: Node) -> str:
    """Return the operators of the graph of *node*, shortened; equal for the same code.

    Parameters and functions are left out: a state may be restored after a fix in a function.
    """
    names = [f"{path.count('.')}{stage.op}" for path, stage in walk(node)]
    if len(names) <= 8:
        return " ".join(names)
    digest = hashlib.blake2b(" ".join(names).encode(), digest_size=4).hexdigest()
    return f"{names[0]} and {len(names) - 1} more, {digest}"


DEEPEST = 1000
"""The most operators in a chain."""

MOST_PLACES = 1 << 16
"""The most operators that run in one pipeline; one that is read in two places runs twice."""

_SHALLOW = 32
"""The depth of a graph up to which Python's own limit of nested calls, 1000, is enough."""

_ROOM = 1000
"""The nested calls that are left to the code that reads."""

_FRAMES = 16
"""The most nested calls between an operator and the one before it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How large a graph is: see `DEEPEST` and `MOST_PLACES`."""

    depth: int
    places: int


_extents: WeakKeyDictionary[Node, Extent] = WeakKeyDictionary()


def extent(root: Node) -> Extent:
    """Return how large the graph of *root* is."""
    return folded(root, _extents, _extent_of)


def _extent_of(_: Node, below: list[Extent]) -> Extent:
    depth = max((each.depth for each in below), default=0)
    return Extent(1 + depth, 1 + sum(each.places for each in below))


def folded(root: Node, known: MutableMapping[Node, V], make: Callable[[Node, list[V]], V]) -> V:
    """Return *make* of *root* and of the results of its inputs; *known* keeps all results."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in known:
            stack.pop()
            continue
        inputs = node.inputs
        missing = [each for each in inputs if each not in known]
        stack += missing
        if not missing:
            known[node] = make(node, [known[each] for each in inputs])
    return known[root]


def check_extent(root: Node) -> None:
    """Check that the graph of *root* can be run, and raise Python's limit of nested calls for it.

    Operators call the operators before them, so a deep graph needs a higher limit of nested calls.
    It is set for the whole process (`sys.setrecursionlimit`).

    Raises:
        DatasetError: when there are too many operators; it names how many, and the remedy.
    """
    if not root.inputs:
        return
    size = extent(root)
    if size.depth > DEEPEST:
        raise DatasetError(
            f"{root.op}: the pipeline would be {size.depth} operators deep, and {DEEPEST} is the "
            "most: call functions one after the other in one map; and read many datasets by "
            "from_sequence(...).flat_map or interleave, not by concatenate or zip in a loop"
        )
    if size.places > MOST_PLACES:
        raise DatasetError(
            f"{root.op}: the pipeline would run {size.places} operators, and {MOST_PLACES} is the "
            "most: a dataset that is read in two places runs twice, so zip((d, d)) in a loop "
            "doubles them each time; make the copies in a map, as in map(lambda x: (x, x))"
        )
    needed = _ROOM + _FRAMES * size.depth
    if size.depth > _SHALLOW and sys.getrecursionlimit() < needed:
        sys.setrecursionlimit(needed)


def walk(root: Node) -> Iterator[tuple[str, Node]]:
    """Yield each node below *root* with its path, inputs after the node that reads them."""
    stack = [("", root)]
    while stack:
        path, node = stack.pop()
        yield path, node
        below = [(f"{path}.{i}", upstream) for i, upstream in enumerate(node.inputs)]
        stack.extend(reversed(below))


def topological_order(root: Node) -> list[Node]:
    """Return each node below *root* once, before the nodes that read it."""
    order: dict[int, Node] = {}
    stack = [(root, False)]
    while stack:
        node, entered = stack.pop()
        if entered:
            order.setdefault(id(node), node)
        elif id(node) not in order:
            stack.append((node, True))
            stack.extend((below, False) for below in reversed(node.inputs))
    return list(order.values())


def shown_pipeline(root: Node) -> str:
    """Return the operators of the pipeline that ends in *root* in a line, sources first.

    For a long pipeline, it returns the last operators and how many come before them.
    """
    text, _ = _shown(root, _SHOWN)
    return text


_SHOWN = 12
"""How many operators of a pipeline messages show."""


def _shown(root: Node, room: int) -> tuple[str, int]:
    """Return the operators, at most *room* of them, and for how many more there is room."""
    labels: list[str] = []
    below: tuple[Node, ...] = (root,)
    while len(below) == 1 and room > 0:
        (node,) = below
        labels.append(node.label)
        below = node.inputs or ((node.on_workers[0],) if node.on_workers else ())
        room -= 1
    if not below:
        return " → ".join(reversed(labels)), room
    parts: list[str] = []
    for each in below:
        if room <= 0:
            parts.append("…")
            break
        part, room = _shown(each, room)
        parts.append(part)
    first = f"({', '.join(parts)})" if len(below) > 1 else "…"
    return " → ".join([first, *reversed(labels)]), room


def options_of(node: Node) -> Options:
    """Return the options of the pipeline that ends in *node*: the last ones, if it has several."""
    return folded(node, _options, _options_of)


_options: WeakKeyDictionary[Node, Options] = WeakKeyDictionary()


def _options_of(node: Node, below: list[Options]) -> Options:
    options = node.options or _NO_OPTIONS
    for each in below:
        options = options.under(each)
    return options


_NO_OPTIONS = Options()


def rewritten(root: Node, swap: Callable[[Node], Node]) -> Node:
    """Return the graph of *root* with each stage replaced by what *swap* makes of it.

    A stage stays the same object if neither it nor its inputs change. A stage that is read twice
    is replaced by one new stage.
    """
    done: dict[int, Node] = {}

    def of(value: Any) -> Any:
        if isinstance(value, Node):
            return done[id(value)]
        if isinstance(value, tuple) and any(isinstance(part, Node) for part in value):
            return tuple(map(of, value))
        return value

    for node in topological_order(root):
        done[id(node)] = swap(_with_inputs(node, of))
    return done[id(root)]


def _with_inputs(node: Node, of: Callable[[Any], Any]) -> Node:
    changed = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if each.init and "kind" not in each.metadata and (new := of(value)) is not value:
            changed[each.name] = new
    return replace(node, **changed) if changed else node


@runtime_checkable
class HasEpoch(Protocol):
    """A user's object in a node that a training loop sets to an epoch before each pass."""

    @property
    def epoch(self) -> int:
        """The epoch."""


def epochs_of(root: Node) -> tuple[int, ...]:
    """Return the epochs of the sources of the pipeline that ends in *root*, in their order."""
    return tuple(
        value.epoch
        for node in topological_order(root)
        for each in fields(node)
        if each.metadata.get("kind") == "function"
        for value in [getattr(node, each.name)]
        if type(value).__module__.startswith("penstock.") and isinstance(value, HasEpoch)
    )


class DatasetBase(NestedDataset):
    """A graph of stages, seen from its last."""

    __slots__ = ("__weakref__", "_node")

    concrete: ClassVar[type[DatasetBase]]
    """`Dataset` itself, for operators that make datasets and stand below it."""

    def __init__(self, node: Node) -> None:
        check_extent(node)
        self._node = node

    @property
    def node(self) -> Node:
        """The last stage of the graph, as data: for tools that look at pipelines.

        >>> Dataset.range(3).batch(2).node.op
        'batch'
        """
        return self._node
