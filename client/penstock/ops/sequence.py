"""`from_sequence`: anything with a length and items.

State: see `penstock.ops.internal.unit_cursor`.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, OpIterator, State
from penstock.engine.rows import Block
from penstock.errors import DatasetError, FileChanged, TransformError
from penstock.executors.function import UserFunction, raise_interrupt
from penstock.graph.node import Node, function
from penstock.ops.internal.unit_cursor import UnitsIterator
from penstock.options import check_count
from penstock.protocol.types import SourceSlice
from penstock.runtime.interrupts import interruptible


@dataclass(frozen=True, eq=False)
class Sequence(Node):
    """The items of *sequence*, of which there are *size*."""

    op: ClassVar[str] = "from_sequence"
    sequence: Any = function()
    size: int = 0

    def __post_init__(self) -> None:
        check_count("from_sequence", "the length", self.size, least=0)

    @property
    def label(self) -> str:
        """See `Node.label`."""
        if isinstance(self.sequence, Items):
            return self.sequence.label
        return f"from_sequence({type(self.sequence).__name__})"

    @property
    def details(self) -> Mapping[str, str]:
        """See `Node.details`."""
        return self.sequence.details if isinstance(self.sequence, Items) else {}

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return self.size

    def units(self) -> int:
        """See `Node.units`."""
        return self.size

    def part(self, cut: SourceSlice) -> Sequence:
        """See `Node.part`."""
        left = cut.of(self.numbers)
        return _SequencePart(self.sequence, len(left), left)

    @property
    def numbers(self) -> range:
        """The numbers of its items."""
        return range(self.size)

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        if isinstance(self.sequence, Items) and not self.sequence.indexed:
            return None
        fetch, own = _Fetch(self), self.numbers

        def by_number(numbers: NDArray[np.int64]) -> tuple[Block, TransformError | None]:
            return fetch((numbers * own.step + own.start).tolist())

        return by_number

    def call(self) -> UserFunction:
        """Return what gets an item."""
        return UserFunction(partial(operator.getitem, self.sequence), self.label, 0)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _SequenceIterator(self, context, state)


@dataclass(frozen=True, eq=False)
class _SequencePart(Sequence):
    """Some of the items of *sequence*."""

    left: range = range(0)

    @property
    def numbers(self) -> range:
        """See `Sequence.numbers`."""
        return self.left


class _SequenceIterator(UnitsIterator):
    def __init__(self, node: Sequence, context: Context, state: State) -> None:
        super().__init__(context, node.size, state)
        self._numbers, self._fetch = node.numbers, _Fetch(node)
        self._fetch.open()

    def fetch(self, start: int, stop: int) -> tuple[Block, TransformError | None]:
        """See `UnitsIterator.fetch`."""
        return self._fetch(self._numbers[start:stop])

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._fetch.close()


class _Fetch:
    """Makes items by their numbers, in blocks if they come from an `ItemReader`."""

    def __init__(self, node: Sequence) -> None:
        self._items, self._call = node.sequence, node.call()
        self._reader: ItemReader | None = None

    def open(self) -> None:
        if self._reader is None and isinstance(self._items, Items):
            self._reader = self._items.open()

    def __call__(self, wanted: SequenceOf[int]) -> tuple[Block, TransformError | None]:
        self.open()
        if self._reader is None:
            return _items(self._call, wanted)
        try:
            block = interruptible(self._reader.block, wanted)
            if len(block) == len(wanted):
                return block, None
            made, failed = _items(self._call, wanted[len(block) :])
            try:
                return [*block, *made], failed
            finally:
                del failed  # as in _items
        except FileChanged:
            raise
        except BaseException as exc:  # noqa: BLE001  one by one, to know of which item it is
            raise_interrupt(exc)
            self._reader.close()
            return _items(self._call, wanted)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()


def _items(
    call: UserFunction, wanted: SequenceOf[int]
) -> tuple[list[Element], TransformError | None]:
    made, failed = call.call_block(wanted, 0)
    try:
        if failed is not None and failed.number != (number := wanted[len(made)]):
            failed = failed.but(number=number)
        return made, failed
    finally:
        del failed  # or an error would keep this frame, and with it the iterator, forever


def sequence_of(value: Any) -> Sequence:
    """Return the node for the items of *value*.

    Raises:
        DatasetError: when it has no length or no items.
    """
    kind = type(value)
    if not hasattr(kind, "__len__") or not hasattr(kind, "__getitem__"):
        raise DatasetError(
            f"from_sequence: {kind.__name__} must have __len__ and __getitem__; "
            "use from_generator for what can only be iterated over"
        )
    if isinstance(value, dict):
        raise DatasetError(
            "from_sequence: a dict has keys, not numbers; give list(d.items()), or use "
            "from_tensor_slices for a dict of arrays"
        )
    if kind.__module__.partition(".")[0] == "pandas":
        value = _positions(value)
    return Sequence(value, len(value))


def _positions(value: Any) -> Any:
    """Return the values of a pandas object by their places: it is indexed by labels.

    Raises:
        DatasetError: when it is a frame: its items are columns.
    """
    if value.ndim != 1:
        raise DatasetError(
            "from_sequence: a DataFrame has columns, not items: from_tensor_slices(dict(frame)) "
            "reads its rows as dicts; or give one column"
        )
    return value.to_numpy()


class ItemReader(ABC):
    """Makes items for one run of a pipeline, in one thread at a time."""

    @abstractmethod
    def block(self, numbers: SequenceOf[int]) -> Block:
        """Return the items that have these *numbers*, at least one, as elements.

        It may return only those before an item that fails. If it raises, items are asked for one by
        one, and the error is that of one of them.
        """

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Release open resources. Idempotent."""


class Items(ABC):
    """Something with a length and items that is better read in blocks."""

    indexed: ClassVar[bool] = True
    """Whether one item costs as much as another, whatever was read before."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name in messages, such as ``from_torch(MyDataset)``."""

    @property
    def details(self) -> Mapping[str, str]:
        """See `penstock.graph.node.Node.details`."""
        return {}

    @property
    def given(self) -> Any:
        """The user's object, which is searched for randomness."""
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, number: int) -> Any: ...

    @abstractmethod
    def open(self) -> ItemReader:
        """Return a reader for a run that begins."""
