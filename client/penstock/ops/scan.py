"""`scan`: a function of each element and of a state that it returned for the element before.

State: ``[elements so far, the function's state, the input's state]``; so its size is that of the
function's state. It is written as plain JSON.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from tokenize import TokenError
from typing import Any, ClassVar

import numpy as np

from penstock.element import Element, arranged, describe, leaves, own_nest, rebuild
from penstock.engine.context import Context
from penstock.engine.iterator import CallingIterator, Mark, OpIterator, State
from penstock.engine.rows import Block
from penstock.errors import DatasetError, TransformError
from penstock.executors.function import UserFunction, transform_error
from penstock.graph.node import Node, arrays, function
from penstock.normalise import as_arrays, normalise, normalise_scalar
from penstock.runtime.interrupts import interruptible


@dataclass(frozen=True, eq=False)
class Scan(Node):
    """The outputs of ``fn(carried, element)``, which returns the next *carried* and an output."""

    op: ClassVar[str] = "scan"
    keeps_count: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    initial: Element = arrays()
    fn: Callable[..., Any] = function()

    def __post_init__(self) -> None:
        if not callable(self.fn):
            raise DatasetError(f"scan: scan_func must be callable, not {self.fn!r}")
        object.__setattr__(self, "initial", normalise(as_arrays(self.initial)))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        call = UserFunction(self.fn, self.label, context.seed())
        number, carried, below = state or (0, None, None)
        before = self.initial if carried is None else from_state(carried, self.initial)
        return _ScanIterator(context.open(self.upstream, below), call, self.label, number, before)


class _ScanIterator(CallingIterator):
    def __init__(
        self, upstream: OpIterator, call: UserFunction, label: str, number: int, carried: Element
    ) -> None:
        super().__init__(upstream, number)
        self._call, self._label = call, label
        self._carried = [carried]
        """The carried value before each element of the last block, and after the last one."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        self._carried = self._carried[-1:]
        if self._due is not None:
            self._raise()
        self._inputs = self._inputs or self._upstream.block(n)
        out = self._outputs(self._inputs[:n])
        if self._due is not None and not out:
            self._raise()
        return out

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, left, carried = self._number, len(self._inputs), self._carried
        below = self._upstream.mark()

        def at(back: int) -> State:
            return [number - back, to_state(carried[-1 - back]), below(left + back)]

        return at

    def _outputs(self, inputs: Block) -> list[Element]:
        """Call the function for each of *inputs*, up to the first error; that is noted."""
        out: list[Element] = []
        try:
            for element in inputs:
                carried, output = self._called(element)
                out.append(output)
                self._carried.append(carried)
                self._number += 1
        except TransformError as exc:
            self._due = exc
        self._inputs = self._inputs[len(out) :]
        return out

    def _called(self, element: Element) -> tuple[Element, Element]:
        before = self._carried[-1]
        answer = self._call((own_nest(before), element), self._number)
        try:
            return interruptible(_pair, answer, before)
        except BaseException as exc:
            raise transform_error(self._label, self._number, exc, element) from exc


def _pair(answer: Any, before: Element) -> tuple[Element, Element]:
    """Return what to carry on and the output, as elements.

    Raises:
        DatasetError: when *answer* is no such pair, or has another structure than *before*.
    """
    if not isinstance(answer, tuple | list) or len(answer) != 2:
        raise DatasetError(
            "scan_func must return a pair, what to carry on and an output, not "
            f"{str(answer)[:60]!r}"
        )
    returned, output = map(normalise, answer)
    carried = arranged(before, returned)
    if carried is None:
        raise DatasetError(
            f"scan_func was given {describe(before)} and carries on {describe(returned)}; "
            "the carried state must keep the structure of initial_state"
        )
    return carried, output


def to_state(element: Element) -> State:
    """Return the leaves of *element* as JSON; its structure is known where it is read."""
    return [_packed(leaf) for leaf in leaves(element)]


def from_state(state: State, like: Element) -> Element:
    """Return the element that *state* was made of; *like* has its structure."""
    return rebuild(like, [_unpacked(part) for part in state])


def _packed(leaf: Any) -> State:
    if isinstance(leaf, str):
        return {"str": leaf}
    if isinstance(leaf, bytes):
        return {"bytes": _text(leaf)}
    array = np.asarray(leaf)
    if array.dtype.hasobject:
        return {"texts": [_packed(text) for text in array.flat], "shape": array.shape}
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return {"array": _text(file.getvalue())}


def _unpacked(state: State) -> Any:
    match state:
        case {"str": text}:
            return text
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"texts": texts, "shape": shape}:
            array = np.empty(len(texts), object)
            array[:] = [_unpacked(text) for text in texts]
            return array.reshape(shape)
        case {"array": text}:
            array = _loaded(base64.b64decode(text))
            return array if array.ndim else normalise_scalar(array[()])
    raise ValueError(f"no element: {str(state)[:80]}")


def _loaded(data: bytes) -> np.ndarray[Any, Any]:
    try:
        loaded: np.ndarray[Any, Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except TokenError as exc:  # NumPy reads a damaged header as Python 2 wrote it
        raise ValueError(f"no array: {exc}") from exc
    return loaded


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
