"""Remedies for values that no element can hold, and for errors that users often meet."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import inspect
import os
import types
import uuid
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

GENERAL = "use arrays, numbers, text, bytes, or tuples, lists and dicts of these"


def of_value(value: Any, otherwise: str = GENERAL) -> str:
    """Return how to make an element of *value*, which is none; *otherwise* if nothing is known."""
    if inspect.isawaitable(value):
        return _AWAITED
    found = next((cure for kinds, cure in _OF_KINDS if isinstance(value, kinds)), "")
    if not found and not isinstance(value, type):
        found = next((cure for name, cure in _OF_ATTRIBUTES if hasattr(value, name)), "")
    package = type(value).__module__.partition(".")[0]
    found = found or _OF_PACKAGES.get(package, "")
    if not found and callable(value):
        found = "call it, and use its result"
    return found or otherwise


def of_error(error: BaseException, element: Any) -> str:
    """Return what to do about *error*, which a function raised for *element*, if that is known."""
    if isinstance(error, TypeError):
        return _of_type_error(error, element)
    if isinstance(error, EOFError) and "reading a line" in str(error):
        return "there is nobody to answer input() in this process"
    if _of_debugger(error):
        return (
            "a debugger needs a terminal, and there is none in this process: run the pipeline "
            "without distribute and executor='process', or call the function yourself"
        )
    return ""


def _of_debugger(error: BaseException) -> bool:
    """Return whether a debugger raised *error* at the end of its input: since 3.14 it exits."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    last = place.tb_frame.f_globals.get("__name__") if place is not None else ""
    return type(error).__name__ == "BdbQuit" or (isinstance(error, SystemExit) and last == "pdb")


def _of_type_error(error: TypeError, element: Any) -> str:
    text = str(error)
    if text.endswith("missing 1 required positional argument: 'rng'"):
        return "rng must be a keyword-only parameter, as in def f(x, *, rng)"
    if "positional argument" not in text or error.__traceback__ is not None:
        return ""  # it came out of the function's body
    if type(element) is tuple:
        return (
            "an element that is a tuple gives one argument for each of its parts, here "
            f"{len(element)}; def f(*parts) takes any number"
        )
    return "an element that is no tuple is one argument"


_AWAITED = (
    "the function is asynchronous, and nobody awaits it: return asyncio.run(...) of it in a plain "
    "function; num_parallel_calls runs several at a time"
)
_YIELDED = (
    "a function that yields returns a generator: return a list or an array; for any number of "
    "elements use flat_map, with Dataset.from_generator in its function"
)
_ITERATED = "use tuple(value) or np.array(list(value))"
_OF_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (types.AsyncGeneratorType, _AWAITED),
    (types.GeneratorType, _YIELDED),
    (os.PathLike, "use str(value)"),
    (enum.Enum, "use value.value, or value.name"),
    ((dt.date, dt.time), "use np.datetime64(value), or value.isoformat()"),
    (dt.timedelta, "use np.timedelta64(value), or value.total_seconds()"),
    (decimal.Decimal, "use float(value), or str(value)"),
    (uuid.UUID, "use str(value), or value.bytes"),
    (Mapping, "use dict(value)"),
    (AbstractSet, "use np.array(sorted(value))"),
    ((Iterator, range), _ITERATED),
    (types.SimpleNamespace, "use vars(value)"),
    (types.ModuleType, "use values that it holds"),
)
_OF_ATTRIBUTES = (
    ("__dataclass_fields__", "use dataclasses.asdict(value), or a named tuple of its fields"),
    ("__attrs_attrs__", "use attrs.asdict(value)"),
    ("model_dump", "use value.model_dump()"),
)
_OF_PACKAGES = {
    "PIL": "use np.asarray(value)",
    "argparse": "use vars(value)",
    "pyarrow": "use value.as_py() of a scalar, value.to_numpy() of an array",
    "collections": "use tuple(value)",
}
