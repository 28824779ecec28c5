"""How operators call users' functions: arguments, random generators, errors."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from penstock.element import Element
from penstock.engine.seeds import ElementRng
from penstock.errors import PenstockError, TransformError


class UserFunction:
    """A user's function as one operator calls it. Not for several threads: see `copy`.

    Only a plain tuple is unpacked into arguments; a named tuple and a dict are one argument. A
    keyword-only parameter named ``rng`` gets a generator for the element's number.
    """

    __slots__ = ("_fn", "_label", "_rng", "_seed")

    def __init__(self, fn: Callable[..., Any], label: str, seed: int) -> None:
        self._fn, self._label, self._seed = fn, label, seed
        self._rng = ElementRng(seed) if wants_rng(fn) else None

    def copy(self) -> UserFunction:
        """Return the same function for another thread."""
        return UserFunction(self._fn, self._label, self._seed)

    def __call__(self, element: Element, number: int) -> Any:
        """Call the function on element *number* of the operator's input.

        Raises:
            TransformError: naming the operator and the number, when the function raises.
        """
        try:
            if self._rng is not None:
                rng = self._rng.at(number)
                if type(element) is tuple:
                    return self._fn(*element, rng=rng)
                return self._fn(element, rng=rng)
            if type(element) is tuple:
                return self._fn(*element)
            return self._fn(element)
        except Exception as exc:  # noqa: BLE001  it is the user's, whatever it is
            self.fail(exc, number)

    def fail(self, exc: Exception, number: int) -> NoReturn:
        """Raise *exc* as the error of element *number*."""
        raise transform_error(self._label, number, exc) from exc


def transform_error(label: str, number: int, exc: Exception) -> PenstockError:
    """Return the error that says that operator *label* failed at its input element *number*.

    An error that already says which operator failed stays as it is.
    """
    if isinstance(exc, TransformError):
        return exc
    text = "".join(traceback.format_exception(exc))
    return TransformError(label, number, f"{type(exc).__name__}: {exc}", None, text)


def wants_rng(fn: Callable[..., Any]) -> bool:
    """Say whether *fn* has a keyword-only parameter ``rng``."""
    try:
        parameter = inspect.signature(fn).parameters.get("rng")
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return parameter is not None and parameter.kind is inspect.Parameter.KEYWORD_ONLY
