"""How `map_batches` calls a user's function: with many elements at once, stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from penstock.element import Element, collate, describe, leaves, structure
from penstock.engine.rows import BatchTable, Block, Rows, elements_of, joined, rows, stacks_alike
from penstock.errors import TransformError
from penstock.executors.function import (
    FunctionCaller,
    UserFunction,
    raise_interrupt,
    transform_error,
)
from penstock.normalise import normalise
from penstock.runtime.interrupts import interruptible


@dataclass(frozen=True, slots=True)
class Stacked:
    """A function of stacked elements, as it travels to where it is called."""

    fn: Callable[..., Any]


def caller(fn: Callable[..., Any] | Stacked, label: str, seed: int) -> FunctionCaller:
    """Return what calls *fn* in this process."""
    if isinstance(fn, Stacked):
        return StackedFunction(fn.fn, label)
    return UserFunction(fn, label, seed)


class StackedFunction(FunctionCaller):
    """A user's function of stacked elements, called by the thread that asks.

    A plain tuple of arrays is unpacked into arguments, as by `UserFunction`.
    """

    run_seconds: float = 0.002
    most: int = 1024

    def __init__(self, fn: Callable[..., Any], label: str) -> None:
        self._fn, self._label = fn, label

    def copy(self) -> StackedFunction:
        """See `FunctionCaller.copy`."""
        return StackedFunction(self._fn, self._label)

    def call_block(
        self, block: Sequence[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        """See `FunctionCaller.call_block`."""
        made, failed = self.call_rows(block if isinstance(block, list) else list(block), number)
        try:
            return elements_of(made), failed
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

    def call_rows(self, block: Block, number: int) -> tuple[Block, TransformError | None]:
        """Do as `call_block`, with rows instead of elements where there are such."""
        out: Block = []
        for run in _runs(block):
            made, failed = self._call_run(run, number + len(out))
            out = joined(out, made)
            if failed is not None:
                break
        else:
            failed = None
        try:
            return out, failed
        finally:
            del failed  # as above

    def _call_run(self, run: Block, number: int) -> tuple[Block, TransformError | None]:
        """Call the function on elements that are alike.

        When it raises it is called for each of them, so that what can be made is.
        """
        try:
            given = run.stacked() if isinstance(run, Rows) else collate(run)
            returned = interruptible(self._fn, *given if type(given) is tuple else (given,))
            answer = interruptible(normalise, returned)
        except BaseException as exc:  # noqa: BLE001  it is the user's, whatever it is
            raise_interrupt(exc)
            if len(run) == 1:
                return [], transform_error(self._label, number, exc, run[0])
        else:
            if wrong := _miscounted(answer, len(run)):
                return [], TransformError(self._label, number, wrong)
            return _block_of(answer, len(run)), None
        return self._call_singly(run, number)

    def _call_singly(self, run: Block, number: int) -> tuple[Block, TransformError | None]:
        """Do as `call_rows`, with a call for each element."""
        out: Block = []
        for i in range(len(run)):
            made, failed = self._call_run(run[i : i + 1], number + i)
            if failed is not None:
                try:
                    return out, failed
                finally:
                    del failed  # as above
            out = joined(out, made)
        return out, None


def _runs(block: Block) -> list[Block]:
    """Return *block* in parts of elements that can be stacked."""
    if isinstance(block, Rows):
        return [block] if block else []
    return [list(run) for _, run in groupby(block, _kind)]


def _kind(element: Element) -> Any:
    if isinstance(element, (tuple, dict)):
        return structure(element), *map(_kind, leaves(element))
    if isinstance(element, np.ndarray):
        return element.dtype, element.shape
    return type(element), getattr(element, "dtype", None)


def _miscounted(answer: Element, count: int) -> str:
    """Say what is wrong with an *answer* without a row for each of *count* elements."""
    parts = leaves(answer)
    found = {len(part) if isinstance(part, np.ndarray) else None for part in parts}
    if found == {count}:
        return ""
    if not parts or None in found:
        told = f"it returned {describe(answer)}"
    else:
        told = f"it returned {' and '.join(map(str, sorted(map(_number, found))))} rows"
    return (
        f"{told} for a block of {count}: every array that it returns must have one row for each "
        "element; use map for a function of one, filter to leave elements out"
    )


def _number(count: int | None) -> int:
    return count or 0


def _block_of(answer: Element, count: int) -> Block:
    if stacks_alike(answer):
        return Rows(BatchTable(answer), range(count))
    return rows(answer, 0, count)
