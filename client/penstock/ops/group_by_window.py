"""`group_by_window`: elements grouped by key; a full group is made into a dataset and read.

State: ``[groups, parts, current]``. The first two describe the buffer, see
`penstock.ops.internal.group_buffer`: a few positions of the input from which it is read again, and
a number for each element, but no elements. *current* is ``[key, the dataset's state]`` of the
group that is being read, or null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from penstock.element import Element, NestedDataset, read_only
from penstock.engine import seeds
from penstock.engine.context import Context, open_node
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, State
from penstock.errors import DatasetError
from penstock.executors.function import UserFunction
from penstock.graph.node import Node, function, function_name
from penstock.ops.internal.group_buffer import NO_INPUT, GroupedElement, Groups, held_then
from penstock.ops.internal.group_input import group_input
from penstock.ops.window import in_memory
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class GroupByWindow(Node):
    """The elements of the datasets that *reduce_func* makes of full groups.

    A group is full at *size* elements, or as many as *size_func* says for its key.
    """

    op: ClassVar[str] = "group_by_window"
    stays_endless: ClassVar[bool] = True
    splits_elements: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    key_func: Callable[..., Any] = function()
    reduce_func: Callable[..., Any] = function()
    size: int | None = None
    size_func: Callable[..., Any] | None = function(default=None)

    def __post_init__(self) -> None:
        for name in ("key_func", "reduce_func"):
            if not callable(getattr(self, name)):
                raise DatasetError(f"{self.op}: {name} must be callable, not {self._shown(name)}")
        if (self.size is None) == (self.size_func is None):
            raise DatasetError(f"{self.op}: give either window_size or window_size_func")
        if self.size is not None:
            object.__setattr__(self, "size", check_count(self.op, "window_size", self.size))
        elif not callable(self.size_func):
            raise DatasetError(
                f"{self.op}: window_size_func must be callable, not {self._shown('size_func')}"
            )

    def _shown(self, name: str) -> str:
        return repr(getattr(self, name))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return GroupingIterator(_Functions(self, context.seed()), self.upstream, context, state)


class Grouping(Protocol):
    """Decides the group of each element, and makes a dataset of each group."""

    @property
    def whole(self) -> bool:
        """Whether each group becomes one element, or none."""
        ...

    def key(self, element: Element, number: int) -> int:
        """Return the key of the group of *element*, which is number *number* of the input."""
        ...

    def size(self, key: int, number: int) -> int:
        """Return how many elements make a group full that begins with element *number*."""
        ...

    def reduce(self, key: int, elements: list[Element], number: int) -> Node:
        """Make a group into a dataset; element *number* is its last."""
        ...


class _Functions:
    """A `Grouping` by the user's functions."""

    whole = False

    def __init__(self, node: GroupByWindow, seed: int) -> None:
        def call(name: str, fn: Callable[..., Any]) -> UserFunction:
            return UserFunction(fn, f"{node.op}({function_name(fn)})", seeds.derive(seed, name))

        self._key = call("key", node.key_func)
        self._reduce = call("reduce", node.reduce_func)
        self._size = node.size
        self._size_of = call("size", node.size_func) if node.size_func is not None else None

    def key(self, element: Element, number: int) -> int:
        """See `Grouping.key`."""
        answer = self._key(element, number)
        key = integer(answer)
        if key is None:
            error = DatasetError(f"key_func must return an integer, not {shown(answer)}")
            self._key.fail(error, number, element)
        return key

    def size(self, key: int, number: int) -> int:
        """See `Grouping.size`."""
        if self._size_of is None:
            return self._size or 1
        answer = self._size_of(np.int64(key), number)
        size = integer(answer)
        if size is None or size < 1:
            error = DatasetError(
                "window_size_func must return an integer of at least 1, but for key "
                f"{key} it returned {shown(answer)}"
            )
            self._size_of.fail(error, number, key)
        return size

    def reduce(self, key: int, elements: list[Element], number: int) -> Node:
        """See `Grouping.reduce`."""
        window = in_memory(elements)
        made = self._reduce((np.int64(key), window), number)
        if not isinstance(made, NestedDataset):
            error = DatasetError(
                f"reduce_func must return a Dataset, not {shown(made)}: for instance "
                "window.batch(n), or Dataset.from_tensors(value) for one value"
            )
            self._reduce.fail(error, number, key)
        node: Node = made.node  # type: ignore[attr-defined]
        return node


def integer(answer: Any) -> int | None:
    """Return *answer* as an int that fits int64 if it is an integer, or an array that holds one."""
    if not isinstance(answer, (int, np.integer)):
        answer = _scalar(answer)
    if isinstance(answer, bool) or not hasattr(answer, "__index__"):
        return None
    number = int(answer.__index__())
    return number if -(2**63) <= number < 2**63 else None


def _scalar(answer: Any) -> Any:
    """Return the only number of an array of no dimensions; None if *answer* is another array."""
    if not hasattr(answer, "__array__"):
        return answer
    array = np.asarray(answer)
    return array.item() if array.ndim == 0 else None


def shown(answer: Any) -> str:
    """Return *answer* with its type, for messages."""
    return f"{str(answer)[:60]!r} ({type(answer).__name__})"


class GroupingIterator(OpIterator):
    """Groups of the elements of *upstream*, read one after the other as they become full.

    At the end of the input, the groups that are left come in the order of their keys.
    """

    def __init__(self, grouping: Grouping, upstream: Node, context: Context, state: State) -> None:
        groups, _, current = state or ([], None, None)
        self._grouping, self._context, self._state = grouping, context, state
        self._supply = group_input(GroupByWindow.op, upstream, context, state and state[:2])
        self._held = Groups()
        self._inputs: list[Element] = []
        """The elements of the input's last block, of which the first `_at` are in groups."""
        self._places = NO_INPUT
        """Their positions."""
        self._at = 0
        self._most = max((size for _, size in groups), default=1)
        """The size of the largest group so far."""
        self._key: int | None = None
        """The key of the group that is being read."""
        self._inner: OpIterator | None = None
        self._resume: tuple[int, State] | None = current and tuple(current)
        """The group that was being read when the state was taken."""
        self._before: Mark | None = None
        """The position before the last group, if it was one element and was removed."""
        self._closed = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._before = None
        while (inner := self._inner or self._next(n)) is not None:
            if self._grouping.whole:
                block = self._read_whole(inner)
            elif not (block := inner.block(n)):
                self._leave()
            if block:
                return block
        return []

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        if not self._supply.restored or self._resume is not None:
            state = self._state
            return lambda _: state
        behind, before = self._place(), self._before
        return behind if before is None else lambda back: before(1) if back else behind(0)

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Makes the datasets, and skips in them."""
        self._before = None
        left = n
        while left:
            try:
                inner = self._inner or self._next(left)
                if inner is None:
                    break
                left -= inner.skip(left)
                if left:
                    self._leave()
            except ELEMENT_ERRORS:
                continue
        return n - left

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        self._supply.close()
        inner = self._inner
        if inner is not None:
            inner.close()

    def _place(self) -> Mark:
        held, state = self._held.mark(), self._supply.mark()
        places, at = self._places, self._at
        if self._inner is None:
            return lambda _: state(held_then(held), places.rest(at), None)
        key, inner = self._key, self._inner.mark()
        return lambda back: state(held_then(held), places.rest(at), [key, inner(back)])

    def _read_whole(self, inner: OpIterator) -> list[Element]:
        """Read a group that is one element or none, and remove it."""
        try:
            block = inner.block(1)
            if block:
                self._before = self._place()
            return block
        finally:
            self._leave()

    def _next(self, n: int) -> OpIterator | None:
        """Open the next group that is full, or left at the end; None when none is."""
        if not self._supply.restored:
            self._supply.restore(self._held)
        if self._resume is not None:
            (key, begin), self._resume = self._resume, None
            return self._open(key, begin) if key in self._held.elements else self._next(n)
        while self._at < len(self._inputs) or self._read(n):
            full = self._sort()
            if full is not None:
                return self._open(full, None)
        return self._open(min(self._held.elements), None) if self._held else None

    def _read(self, n: int) -> bool:
        """Read a block of the input; return False at the end."""
        self._inputs, self._places = self._supply.pull(n * self._most)
        self._at = 0
        return bool(self._inputs)

    def _sort(self) -> int | None:
        """Put inputs into groups until one is full; return its key."""
        grouping, held = self._grouping, self._held
        while self._at < len(self._inputs):
            element, place = self._inputs[self._at], self._places.place(self._at)
            self._at += 1
            key = grouping.key(element, place.number)
            size = held.size(key)
            if size is None:
                size = grouping.size(key, place.number)
                self._most = max(self._most, size)
            if held.add(GroupedElement(key, size, place), element):
                return key
        return None

    def _open(self, key: int, begin: State) -> OpIterator:
        number = self._held.number(key)
        self._key = key
        try:
            elements = list(map(read_only, self._held.elements[key]))
            node = self._grouping.reduce(key, elements, number)
            self._inner = inner = open_node(node, self._context.inner(number), begin)
        except ELEMENT_ERRORS:
            self._held.remove(key)
            raise
        if self._closed:  # by another thread, which did not see this dataset
            inner.close()
        return inner

    def _leave(self) -> None:
        """Remove the group that was read to its end."""
        inner, self._inner = self._inner, None
        if inner is not None and self._key is not None:
            inner.close()
            self._held.remove(self._key)
