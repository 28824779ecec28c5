"""The last operator of a loader: it makes a framework's arrays from NumPy's, ahead of the loop.

State: the input's own. So elements that are placed and not handed out yet are unacked, and a saved
state counts only elements that the loop got.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock.element import TEXT, Element, parts_of, shown
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OneInputIterator, OpIterator, State
from penstock.errors import ElementError
from penstock.graph.node import Node, function
from penstock.ops.prefetch import run_ahead
from penstock.options import check_count
from penstock.reference import Reference


@dataclass(frozen=True, eq=False)
class Placed(Node):
    """*place* of each element, up to *ahead* of them made before they are asked for."""

    op: ClassVar[str] = "loader"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    place: Callable[[Element], Any] = function()
    ahead: int = 2

    def __post_init__(self) -> None:
        check_count("Loader", "prefetch", self.ahead, least=0)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        placed = _PlacedIterator(context.open(self.upstream, state), self.place)
        return run_ahead(placed, self.ahead) if self.ahead else placed


class _PlacedIterator(OneInputIterator):
    """Hands out the results of *place* as they are: they are not elements any more."""

    def __init__(self, upstream: OpIterator, place: Callable[[Element], Any]) -> None:
        self._upstream, self._place = upstream, place
        self._left: list[Element] = []
        """Elements that were pulled after one that could not be placed."""

    def block(self, n: int) -> list[Any]:
        """See `OpIterator.block`."""
        if self._due is not None:
            self._raise_due()
        pulled = self._left or self._upstream.block(n)
        out: list[Any] = []
        for number, element in enumerate(pulled[:n], 1):
            try:
                refuse_references(element)
                out.append(self._place(element))
            except Exception as exc:
                self._left = pulled[number:]
                if not out:
                    raise
                # The next call raises it, after the elements before it.
                self._due, self._left = exc, pulled[number - 1 :]
                return out
        self._left = pulled[n:]
        return out

    def _raise_due(self) -> None:
        self._left = self._left[1:]
        super()._raise_due()

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        left, below = len(self._left), self._upstream.mark()
        return lambda back: below(left + back)


def refuse_references(element: Element) -> None:
    """Check that *element*, or the spec of elements, holds no `Reference`.

    A framework would make tensors of its numbers, and leave the bytes unread.

    Raises:
        ElementError: when it holds one, with what to do.
    """
    if isinstance(element, Reference):
        of = f" to {element.url}" if isinstance(element.url, str) else ""
        raise ElementError(
            f"a loader makes no tensors of a Reference{of}: read its bytes before the loader, as "
            "in dataset.resolve(decode={...}), or leave it out in a map"
        )
    for part in parts_of(element) or ():
        refuse_references(part)


KINDS = "biufc"


def numeric(leaf: Any, framework: str) -> NDArray[Any]:
    """Return *leaf* as an array of numbers or booleans, in this machine's byte order.

    It has the leaf's shape, () for a scalar, and its memory where that can be.

    Args:
        leaf: an array, a NumPy scalar or text.
        framework: whose loader wants it, for messages.

    Raises:
        ElementError: when it is text, or of a dtype without an arithmetic; with what to do.
    """
    if isinstance(leaf, TEXT) or (isinstance(leaf, np.ndarray) and leaf.dtype.hasobject):
        raise ElementError(
            f"{framework} has no text, but an element holds {_told(leaf)}: turn it into numbers in "
            "a map before (ids of a vocabulary, or np.frombuffer(text, np.uint8) of bytes), or "
            "leave it out there"
        )
    array = np.asarray(leaf)
    dtype = array.dtype
    if dtype.kind in "mM":
        raise ElementError(
            f"{framework} has no times, but an element holds {dtype}: use "
            "array.astype(np.int64) in a map before"
        )
    if not (dtype.kind in KINDS or extended(dtype)) or dtype.itemsize > _widest(dtype):
        raise ElementError(
            f"{framework} has no arrays of {dtype}: use array.astype(...) in a map before, or give "
            "the fields of a structured array as a dict of arrays"
        )
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def extended(dtype: np.dtype[Any]) -> bool:
    """Return whether *dtype* is a number format of the package ml_dtypes, such as bfloat16."""
    return dtype.type.__module__ == "ml_dtypes"


def _widest(dtype: np.dtype[Any]) -> int:
    return 16 if dtype.kind == "c" else 8


def _told(leaf: Any) -> str:
    if isinstance(leaf, TEXT):
        return shown(leaf)
    return f"an array of it, of shape {list(leaf.shape)}"
