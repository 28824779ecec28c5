"""How operators call users' functions: arguments, random generators, errors."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Self

from penstock import cures
from penstock.element import Element, preview
from penstock.engine.draws import ElementRng
from penstock.engine.rows import Block
from penstock.errors import TransformError, describe
from penstock.executors.batch_memory import Room
from penstock.normalise import normalise, normalise_block
from penstock.runtime.interrupts import interruptible, is_interrupt
from penstock.runtime.tracebacks import told, without_ours


class FunctionCaller(ABC):
    """How an operator has a function called. Not for several threads: see `copy`."""

    run_seconds: float = 0.00025
    """About how long the calls that are made at a stretch in another thread may take together."""
    most: int = 16
    """How many of them there may be."""
    ahead: int = 1
    """How many such stretches to have ready for each thread, so that it need not wait."""
    places: bool = False
    """Whether it pays now to say where results go: other processes write them there."""

    elsewhere: bool = False
    """Whether other processes make the calls now: this one's processor time says nothing then."""

    @abstractmethod
    def copy(self) -> Self:
        """Return the same function for another thread."""

    @abstractmethod
    def call_block(
        self, block: Sequence[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        """Call the function on each of *block*, of which the first is element *number*.

        Return what it gave, as elements, up to the first error; and that error, if there is one.
        Without an error some may be left over, but not all.
        """

    def call_into(
        self,
        block: Sequence[Element],
        number: int,
        rooms: list[Room],  # noqa: ARG002  most make elements here
    ) -> tuple[list[Block], TransformError | None]:
        """Do as `call_block`; return as rows what was written to *rooms*, the places of *block*."""
        out, failed = self.call_block(block, number)
        try:
            return [out], failed
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

    def prepare(self) -> None:  # noqa: B027  most have nothing to prepare
        """Do what takes time before the first call."""

    def done(self) -> None:  # noqa: B027  most hold nothing
        """Note that this thread makes no more calls for now."""

    def end(self) -> None:  # noqa: B027  a call in this process cannot be ended
        """End the calls that copies of this are in the middle of, if one can. Any thread."""


class UserFunction(FunctionCaller):
    """A user's function, called by the thread that asks.

    Only a plain tuple is unpacked into arguments; a named tuple and a dict are one argument. A
    keyword-only parameter named ``rng`` gets a generator for the element's number.
    """

    __slots__ = ("_fn", "_label", "_rng", "_seed")

    def __init__(self, fn: Callable[..., Any], label: str, seed: int) -> None:
        self._fn, self._label, self._seed = fn, label, seed
        self._rng = ElementRng(seed) if wants_rng(fn) else None

    def copy(self) -> UserFunction:
        """See `FunctionCaller.copy`."""
        return UserFunction(self._fn, self._label, self._seed)

    def __call__(self, element: Element, number: int) -> Any:
        """Call the function on element *number* of the operator's input.

        Raises:
            TransformError: naming the operator and the number, when the function raises.
        """
        try:
            return interruptible(self._call, element, number)
        except BaseException as exc:  # noqa: BLE001  it is the user's, whatever it is
            self.fail(exc, number, element)

    def call_block(
        self, block: Iterable[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        """See `FunctionCaller.call_block`; *block* may be any iterable."""
        raw, failed = self.answers(block, number)
        try:
            return interruptible(normalise_block, raw), failed
        except BaseException as exc:  # noqa: BLE001  __array__ is the user's as well
            raise_interrupt(exc)
            return interruptible(self._up_to_error, raw, block, number)
        finally:
            del failed  # or the error would keep this frame, and with it the iterator, forever

    def answers(
        self, block: Iterable[Element], number: int
    ) -> tuple[list[Any], TransformError | None]:
        """Do as `call_block`, and return what the function returned as it is."""
        return interruptible(self._answers, block, number)

    def _answers(
        self, block: Iterable[Element], number: int
    ) -> tuple[list[Any], TransformError | None]:
        raw: list[Any] = []
        element: Any = _NOTHING
        try:
            if self._rng is None:
                fn = self._fn
                for element in block:
                    raw.append(fn(*element) if type(element) is tuple else fn(element))  # noqa: PERF401  raw holds what was made before an error
            else:
                for element in block:
                    raw.append(self._call(element, number + len(raw)))
        except BaseException as exc:  # noqa: BLE001  it is the user's, whatever it is
            return raw, transform_error(self._label, number + len(raw), exc, element)
        return raw, None

    def fail(self, exc: BaseException, number: int, element: Any) -> NoReturn:
        """Raise *exc* as the error of element *number*."""
        raise transform_error(self._label, number, exc, element)

    def _call(self, element: Element, number: int) -> Any:
        if self._rng is not None:
            rng = self._rng.at(number)
            if type(element) is tuple:
                return self._fn(*element, rng=rng)
            return self._fn(element, rng=rng)
        if type(element) is tuple:
            return self._fn(*element)
        return self._fn(element)

    def _up_to_error(
        self, raw: list[Any], block: Iterable[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        out: list[Element] = []
        for value, element in zip(raw, block, strict=False):
            try:
                out.append(normalise(value))
            except BaseException as exc:  # noqa: BLE001  __array__ is the user's as well
                return out, transform_error(self._label, number + len(out), exc, element)
        return out, None


_NOTHING = object()


def transform_error(
    label: str, number: int, exc: BaseException, element: Any = _NOTHING
) -> TransformError:
    """Return the error that says that operator *label* failed at its input element *number*.

    It is chained from *exc*, and shows that *element* if there is one. An error that already says
    which operator failed stays as it is.

    Raises:
        BaseException: *exc* itself if it is an interrupt, such as Ctrl-C: no element's error.
    """
    raise_interrupt(exc)
    if isinstance(exc, TransformError):
        return exc
    given = "" if element is _NOTHING else preview(element)
    without_ours(exc)
    detail = describe(exc)
    if cure := cures.of_error(exc, element):
        detail = f"{detail}; {cure}"
    error = TransformError(label, number, detail, None, told(exc), given)
    error.__cause__ = exc
    return error


def raise_interrupt(exc: BaseException) -> None:
    """Raise *exc*, which came out of a user's function, if it is not the function's own error."""
    if is_interrupt(exc):
        raise exc


def wants_rng(fn: Callable[..., Any]) -> bool:
    """Return whether *fn* has a keyword-only parameter ``rng``."""
    try:
        parameter = inspect.signature(fn).parameters.get("rng")
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return parameter is not None and parameter.kind is inspect.Parameter.KEYWORD_ONLY
