"""A pipeline as data: frozen nodes, from the last operator back to the sources.

Each operator's node lives with its iterator in `penstock.ops`. Nodes compare by identity: the
same pipeline written twice is two graphs with one fingerprint (see
`penstock.serialization.fingerprint`).

The plain form of a node is its name, its parameters and its inputs. A parameter is plain data
(numbers, text, None, tuples of these), or one of two marks: a *function* (anything that only a
process that runs user code may unpickle), an *array* (large data, kept by content).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from weakref import WeakKeyDictionary

from penstock.protocol.splits import FilePattern
from penstock.protocol.types import Mode, SourceSlice

if TYPE_CHECKING:
    from penstock.engine.context import Context
    from penstock.engine.iterator import ByNumber, OpIterator, State
    from penstock.options import Options

S = TypeVar("S", bound=Any)

INFINITE = -1
"""Cardinality of a dataset that never ends."""

UNKNOWN = -2
"""Cardinality of a dataset whose length is known only after running it."""


def function(**kwargs: Any) -> Any:
    """Declare a node's field that holds a user's function or object: opaque, pickled."""
    return field(metadata={"kind": "function"}, **kwargs)


ADDED = {"added": True}


def added(default: Any) -> Any:
    """Declare a parameter that was added later; at its *default*, it does not change fingerprints.

    A field with ``compare=False`` never counts in fingerprints.
    """
    return field(default=default, metadata=ADDED)


def counts(node: Node, of: Field[Any]) -> bool:
    """Return whether the field *of* counts in the fingerprint of *node*."""
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

    splits_elements: ClassVar[bool] = False
    """Whether one input element may become several elements. It is not known which of these pieces
    are acked, so an input element cannot be revoked after this operator."""

    per_task: ClassVar[bool] = False
    """Whether the result depends on where the stream begins and ends (`take`, not `map`): under
    sharding it applies to each task's stream by itself."""

    context_free: ClassVar[bool] = False
    """Whether it opens the same way in any context: it reads nothing, and is not random."""

    keeps_count: ClassVar[bool] = False
    """Whether it has as many elements as its input, in an order of its own (`shuffle`)."""

    stays_endless: ClassVar[bool] = False
    """Whether it has infinitely many elements if its input has (`unbatch`, not `filter`)."""

    replicated: ClassVar[int | None] = None
    """The number of the input that every task reads whole under sharding, if there is one."""

    def __init_subclass__(cls) -> None:
        """Register the operator's name, and make its cardinality a value computed once."""
        super().__init_subclass__()
        if cls.__module__.startswith("penstock.ops.") and "op" in vars(cls):
            if cls.op in OPERATORS:
                raise AssertionError(f"{OPERATORS[cls.op]} and {cls} are both named {cls.op!r}")
            OPERATORS[cls.op] = cls
        own = vars(cls).get("cardinality")
        if isinstance(own, property):
            cls.cardinality = property(_once(own), doc=own.__doc__)  # type: ignore[method-assign, assignment]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes this one reads, in order."""
        return tuple(nodes_in(getattr(self, name) for name in _plain_fields(type(self))))

    @property
    def label(self) -> str:
        """The operator and the user's function, as error messages name it: ``map(decode)``."""
        for f in fields(self):
            value = getattr(self, f.name)
            if f.metadata.get("kind") == "function" and callable(value):
                return f"{self.op}({function_name(value)})"
        return self.op

    @property
    def cardinality(self) -> int:
        """How many elements there are; or `INFINITE`, or `UNKNOWN`.

        By default, it follows from that of the only input, if there is one.
        """
        below = self.inputs
        size = below[0].cardinality if len(below) == 1 else UNKNOWN
        keeps = self.one_to_one or self.keeps_count or (self.stays_endless and size == INFINITE)
        return size if keeps or size == 0 else UNKNOWN

    @abstractmethod
    def open(self, context: Context, state: State) -> OpIterator:
        """Run this node from *state* on; None is the start."""

    @property
    def unordered(self) -> bool:
        """Whether elements may overtake each other, so that another run has another order."""
        return False

    @property
    def options(self) -> Options | None:
        """Options that this stage gives to the whole pipeline."""
        return None

    @property
    def on_workers(self) -> tuple[Node, Mode] | None:
        """The pipeline that workers run for this stage, and how it is divided; None: none is."""
        return None

    @property
    def details(self) -> Mapping[str, str]:
        """The contents that the stage was built for, by name, for messages: versions of files."""
        return {}

    @property
    def shared(self) -> bool:
        """Whether a pass may be empty because other readers consumed all of it."""
        return False

    @property
    def in_rounds(self) -> bool:
        """Whether consumers read it in rounds, so that all get equally many elements."""
        return False

    @property
    def consumers(self) -> int:
        """How many readers get an element each in a step, if it is read by a group of them."""
        return 1

    def units(self) -> int | FilePattern | None:
        """Return a source's number of units, or its files; None if it cannot be split.

        Meaningful for nodes without inputs only.
        """
        return None

    def part(self, cut: SourceSlice) -> Node | None:  # noqa: ARG002  a source has an index or has none
        """Return a source of the elements that *cut* leaves; None if this has no index of them.

        Meaningful for nodes without inputs only.
        """
        return None

    def source(self) -> Node:
        """Return the source that tasks run in place of this node, if they draw splits of it."""
        return self

    def by_number(self) -> ByNumber | None:
        """Return a function that makes elements by their numbers; None if there is no index.

        It is called only with numbers below the cardinality.
        """
        return None


OPERATORS: dict[str, type[Node]] = {}
"""Penstock's own operators by name; `Dataset` has methods of all, so importing it loads them."""

_fields: WeakKeyDictionary[type[Node], tuple[str, ...]] = WeakKeyDictionary()


def _plain_fields(kind: type[Node]) -> tuple[str, ...]:
    """Return the names of the fields that hold nodes or plain parameters.

    The names are cached, because each dataset that a user's function returns needs them.
    """
    known = _fields.get(kind)
    if known is None:
        plain = (f.name for f in fields(kind) if "kind" not in f.metadata)
        known = _fields[kind] = tuple(plain)
    return known


_cardinalities: WeakKeyDictionary[Node, int] = WeakKeyDictionary()


def _once(cardinality: property) -> Callable[[Node], int]:
    def find(node: Node) -> int:
        known = _cardinalities.get(node)
        if known is None:
            known = _cardinalities[node] = cardinality.__get__(node)
        return known

    return find


def function_name(fn: Callable[..., Any]) -> str:
    """Return a short name for *fn*: its own name, or its type's name."""
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    return str(name).rsplit("<locals>.", maxsplit=1)[-1]


def nodes_in(values: Iterable[Any]) -> Iterator[Node]:
    """Yield the nodes among *values*, including those inside nests."""
    for value in values:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, (tuple, dict)):
            yield from nodes_in(value.values() if isinstance(value, dict) else value)
