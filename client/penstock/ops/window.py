"""`window`: consecutive elements as datasets.

State: ``[the input's state, errors, ahead]``: as `penstock.ops.internal.input_buffer` for the
position that the next window begins *ahead* elements behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from penstock.element import (
    Element,
    NestedDataset,
    arranged,
    describe,
    leaves,
    own_nest,
    read_only,
    rebuild,
)
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import DefinitionError, ElementError
from penstock.graph.node import Node, function
from penstock.graph.traversal import DatasetBase
from penstock.normalise import is_plain
from penstock.ops.internal.input_buffer import InputBuffer
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class Window(Node):
    """Datasets of *size* elements, each *stride* apart; one begins every *shift* elements."""

    op: ClassVar[str] = "window"
    splits_elements: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    size: int
    shift: int
    stride: int
    drop_remainder: bool

    def __post_init__(self) -> None:
        for name in ("size", "shift", "stride"):
            object.__setattr__(self, name, check_count("window", name, getattr(self, name)))

    @property
    def span(self) -> int:
        """How many elements there are from the first to the last of a window, both included."""
        return (self.size - 1) * self.stride + 1

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        elements = self.upstream.cardinality
        if elements < 0:
            return elements
        starts = elements - self.span + 1 if self.drop_remainder else elements
        return max(0, -(-starts // self.shift))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        below, errors, ahead = state or (None, 0, 0)
        return _WindowIterator(self, InputBuffer(context, self.upstream, [below, errors]), ahead)


@dataclass(frozen=True, eq=False)
class InMemory(Node):
    """A dataset that an operator returns. It lives in memory, inside the run that made it."""

    op: ClassVar[str] = "window elements"
    context_free: ClassVar[bool] = True
    values: list[Element] = function()

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return len(self.values)

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`."""
        return _ColumnIterator(self.values, state or 0)

    def __reduce__(self) -> NoReturn:
        raise DefinitionError(
            "a dataset made by window or group_by_window exists only inside the pipeline that made "
            "it and cannot be sent anywhere: flatten it there, as in "
            "window(size).flat_map(lambda w: w.batch(size))"
        )


class _ColumnIterator(OpIterator):
    """State: how many values were read."""

    def __init__(self, values: list[Element], read: int) -> None:
        self._values, self._read = values, read

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        block = self._values[self._read : self._read + n]
        self._read += len(block)
        if block and isinstance(block[0], (tuple, dict)):
            return list(map(own_nest, block))
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        read = self._read
        return lambda back: read - back

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        skipped = len(self._values[self._read : self._read + n])
        self._read += skipped
        return skipped


def nest(elements: Sequence[Element]) -> Element:
    """Return a nest like the *elements*, with a dataset of the values in each leaf's place.

    Raises:
        ElementError: when the elements differ in structure.
    """
    if is_plain(elements):
        return in_memory(list(elements))
    # A window may be read several times, and windows may share elements: they are read-only.
    first, alike = elements[0], list[Element]()
    for other in elements:
        if (same := arranged(first, other)) is None:
            raise ElementError(
                "window: elements of one window must have one structure, but "
                f"{describe(first)} is followed by {describe(other)}: map them to one first"
            )
        alike.append(same)
    columns = zip(*map(leaves, alike), strict=True)
    windows = [in_memory(list(map(read_only, column))) for column in columns]
    window = rebuild(first, windows)
    return WindowDict(window) if type(window) is dict else window


def in_memory(values: list[Element]) -> NestedDataset:
    """Return *values*, which are not written to any more, as a dataset."""
    return DatasetBase.concrete(InMemory(values))


class _WindowIterator(OpIterator):
    def __init__(self, node: Window, held: InputBuffer, ahead: int) -> None:
        self._shift, self._stride, self._span = node.shift, node.stride, node.span
        self._drop = node.drop_remainder
        self._held = held
        self._ahead = ahead
        """The elements from the start of the held input to the start of the next window."""
        self._places: list[int] = []
        """The input element at which each window of the last block began."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._begin()
        return self._make(n, whole=self._fill(n))

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        at, places, start, ahead = self._held.mark(), self._places, self._held.start, self._ahead
        return lambda back: [*at(places[-back]), 0] if back else [*at(start), ahead]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        self._begin()
        held = self._held
        if self._drop or self._ahead or held.has_failed:
            return super().skip(n)
        elements = held.skip(n * self._shift)
        self._begin()
        return -(-elements // self._shift)

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._held.close()

    def _begin(self) -> None:
        self._held.begin()
        self._places = []

    def _fill(self, n: int) -> bool:
        """Hold the elements of one window, reading as many as *n* need; return False at the end.

        Elements between windows are read like the others: whether an element counts must not
        depend on its reader.
        """
        held, span = self._held, self._span
        self._close_up()
        while len(held.elements) < span:
            wanted = self._ahead + (n - 1) * self._shift + span
            if not held.pull(wanted - len(held.elements)):
                return False
            self._close_up()
        return True

    def _make(self, n: int, *, whole: bool) -> list[Element]:
        """Make up to *n* windows of the held elements: *whole* ones, or short ones at the end."""
        elements, least = self._held.elements, self._span if whole else 1
        if not whole and self._drop:
            self._held.use(len(elements))
        out: list[Element] = []
        while len(out) < n and not self._ahead and len(elements) >= least:
            start = self._held.start
            try:
                out.append(nest(elements[: self._span : self._stride]))
            except ELEMENT_ERRORS:
                if out:
                    break
                self._go()
                self._begin()
                raise
            self._places.append(start)
            self._go()
        return out

    def _go(self) -> None:
        self._ahead += self._shift
        self._close_up()

    def _close_up(self) -> None:
        """Drop the input before the next window."""
        if self._ahead:
            used = min(self._ahead, len(self._held.elements))
            self._held.use(used)
            self._ahead -= used


class WindowDict(dict[str, Any]):
    """A dict of datasets. Methods of `Dataset` see their elements side by side, as dicts."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # protocols that are looked for: it has those of a dict
            raise AttributeError(name)
        concrete: Any = DatasetBase.concrete
        return getattr(concrete.zip(datasets=self), name)
