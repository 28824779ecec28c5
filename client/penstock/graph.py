"""A pipeline as data: frozen nodes, from the last operator back to the sources.

Each operator's node lives with its iterator in `penstock.ops`. Nodes compare by identity: the
same pipeline written twice is two graphs with one fingerprint (see `penstock.fingerprint`).

The plain form of a node is its name, its parameters and its inputs. A parameter is plain data
(numbers, text, None, tuples of these), or one of two marks: a *function* (anything that only a
process that runs user code may unpickle), an *array* (large data, kept by content).
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from penstock.errors import DatasetError
from penstock.numbers import Cut

if TYPE_CHECKING:
    from penstock.engine.context import Context
    from penstock.engine.iterator import OpIterator, State
    from penstock.options import Options

S = TypeVar("S", bound=Any)
V = TypeVar("V")

INFINITE = -1
"""Cardinality of a dataset that never ends."""

UNKNOWN = -2
"""Cardinality of a dataset whose length only running it can tell."""


def function(**kwargs: Any) -> Any:
    """Declare a node's field that holds a user's function or object: opaque, pickled."""
    return field(metadata={"kind": "function"}, **kwargs)


def added(default: Any) -> Any:
    """Declare a parameter that came later: at its *default* fingerprints are as without it.

    A field with ``compare=False`` never counts there.
    """
    return field(default=default, metadata={"added": True})


def counts(node: Node, of: Field[Any]) -> bool:
    """Say whether a field of *node* tells it from other nodes."""
    at_default = "added" in of.metadata and getattr(node, of.name) == of.default
    return of.init and of.compare and not at_default


def arrays(**kwargs: Any) -> Any:
    """Declare a node's field that holds an element of arrays: kept by content."""
    return field(metadata={"kind": "arrays"}, **kwargs)


@dataclass(frozen=True, eq=False)
class Node:
    """One stage of a pipeline.

    A subclass is a frozen dataclass (``eq=False``). Fields whose names are in `inputs` hold the
    nodes it reads; the others are parameters. It checks its parameters in ``__post_init__``.
    """

    op: ClassVar[str]
    """The name of the operator, as in the method of `Dataset`; unique."""

    one_to_one: ClassVar[bool] = False
    """Whether element k comes from the input's element k alone (`map`, not `filter`); of a source
    of files: whether element k is file k."""

    own_stream: ClassVar[bool] = False
    """Whether the result depends on where the stream begins and ends (`take`, not `map`): under
    sharding it applies to each task's stream by itself."""

    replicated: ClassVar[int | None] = None
    """The number of the input that every task reads whole under sharding, if there is one."""

    def __init_subclass__(cls) -> None:
        """Have the cardinality of a node found out once: of two places where it is read, too."""
        super().__init_subclass__()
        own = vars(cls).get("cardinality")
        if isinstance(own, property):
            cls.cardinality = property(_once(own), doc=own.__doc__)  # type: ignore[method-assign, assignment]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes this one reads, in order."""
        plain = (f.name for f in fields(self) if "kind" not in f.metadata)
        return tuple(nodes_in(getattr(self, name) for name in plain))

    @property
    def label(self) -> str:
        """The operator and the user's function, as error messages name it: ``map(decode)``."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata.get("kind") == "function" and callable(value):
                return f"{self.op}({function_name(value)})"
        return self.op

    @property
    @abstractmethod
    def cardinality(self) -> int:
        """How many elements there are; or `INFINITE`, or `UNKNOWN`."""

    @abstractmethod
    def open(self, context: Context, state: State) -> OpIterator:
        """Run this node from *state* on; None is the start."""

    @property
    def overtaking(self) -> bool:
        """Whether elements may overtake each other, so that another run has another order."""
        return False

    @property
    def options(self) -> Options | None:
        """Options that this stage gives to the whole pipeline."""
        return None

    @property
    def shared(self) -> bool:
        """Whether a pass may give nothing because others took all of it."""
        return False

    def units(self) -> int | FilePattern | None:
        """Return what a source can be split into: so many units, or files; None if it cannot be.

        Meaningful for nodes without inputs only.
        """
        return None

    def part(self, cut: Cut) -> Node | None:  # noqa: ARG002  a source has an index or has none
        """Return a source of the elements that *cut* leaves; None if this has no index of them.

        Meaningful for nodes without inputs only.
        """
        return None


_cardinalities: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def _once(cardinality: property) -> Callable[[Node], int]:
    def find(node: Node) -> int:
        known = _cardinalities.get(node)
        if known is None:
            known = _cardinalities[node] = cardinality.__get__(node)
        return known

    return find


@dataclass(frozen=True)
class FilePattern:
    """Split units that are files: those that match *patterns*, in an order made by the seed."""

    patterns: tuple[str, ...]
    shuffle: bool
    seed: int | None
    literal: bool = False
    """Whether the patterns are names as they are, to be read in this order."""
    cuts: tuple[Cut, ...] = ()
    """What is left of the files once they are in their order: one cut after the other."""

    def cut(self, ordered: S) -> S:
        """Return what is left of files in their order, or of their numbers."""
        for cut in self.cuts:
            ordered = cut.of(ordered)
        return ordered


DEEPEST = 1000
"""How many operators may stand one behind the other."""

MOST_PLACES = 1 << 16
"""How many operators may run in one pipeline; one that is read in two places runs twice."""

_SHALLOW = 32
"""How deep a graph may be for Python's own limit, which is 1000."""

_ROOM = 1000
"""How many calls within calls are left to those who read."""

_FRAMES = 16
"""The most calls that an operator makes of the one before it, one within the other."""


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
    """Return what *make* makes of *root* and of what it made of its inputs; *known* keeps all."""
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [each for each in node.inputs if each not in known]
        if node in known:
            stack.pop()
        elif missing:
            stack += missing
        else:
            known[node] = make(node, [known[each] for each in node.inputs])
    return known[root]


def check_extent(root: Node) -> None:
    """Check that the graph of *root* is one that can be run, and see that Python lets it.

    Operators call those before them, so a deep graph needs a higher limit of calls within calls:
    it is set for the process (`sys.setrecursionlimit`).

    Raises:
        DatasetError: naming how many operators there are, and the way out.
    """
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


def stages(root: Node) -> list[Node]:
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


def function_name(fn: Callable[..., Any]) -> str:
    """Return a short name for *fn*: its own, or its type's."""
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    return str(name).rsplit("<locals>.", maxsplit=1)[-1]


def check_count(
    op: str, name: str, value: Any, *, least: int = 1, most: int | None = 2**63 - 1
) -> int:
    """Return *value* as an int of at least *least* and at most *most*.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    try:
        number = value.__index__()
    except AttributeError:
        number = None
    if number is None or isinstance(value, bool) or number < least:
        raise DatasetError(f"{op}: {name} must be an integer of at least {least}, not {value!r}")
    if most is not None and number > most:
        shown = number if number.bit_length() < 200 else f"a number of {number.bit_length()} bits"
        raise DatasetError(f"{op}: {name} must fit int64, which {shown} does not")
    return int(number)


def nodes_in(values: Iterable[Any]) -> Iterator[Node]:
    """Yield the nodes among *values* and in the nests that stand there."""
    for value in values:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (tuple, dict)):
            yield from nodes_in(value.values() if isinstance(value, dict) else value)
