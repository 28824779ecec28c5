"""`map`: a function of each element.

State: ``[elements so far, the input's state]``; the first is the number for ``rng`` and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.element import Element, normalise_block
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import DatasetError, ElementError
from penstock.graph import Node, check_count, function
from penstock.ops.call import UserFunction, transform_error


@dataclass(frozen=True, eq=False)
class Map(Node):
    """*fn* of each element; with *parallel* calls in as many threads at once."""

    op: ClassVar[str] = "map"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    fn: Callable[..., Any] = function()
    parallel: int | None = None
    deterministic: bool = True

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise DatasetError(f"map: map_func must be callable, not {self.fn!r}")
        if self.parallel is not None:
            check_count("map", "num_parallel_calls", self.parallel)

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return self.upstream.cardinality

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, below = state or (0, None)
        call = UserFunction(self.fn, self.label, context.seed())
        return _MapIterator(context.open(self.upstream, below), call, self.label, number)


class _MapIterator(OpIterator):
    def __init__(self, upstream: OpIterator, call: UserFunction, label: str, number: int) -> None:
        self._upstream, self._call, self._label = upstream, call, label
        self._number = number

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        call, number = self._call, self._number
        block = self._upstream.block(n)
        try:
            out = normalise_block([call(x, k) for k, x in enumerate(block, number)])
        except ElementError as exc:
            raise transform_error(self._label, number, exc) from exc
        self._number += len(block)
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, below = self._number, self._upstream.mark()
        return lambda back: [number - back, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Calls nothing: element k of the output is that of the input."""
        skipped = self._upstream.skip(n)
        self._number += skipped
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._upstream.close()
