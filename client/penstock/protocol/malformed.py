"""Exceptions from reading malformed data, and a short text of a value for messages."""

from __future__ import annotations

import reprlib
from typing import Final

import msgspec

MALFORMED: Final[tuple[type[Exception], ...]] = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    EOFError,
    msgspec.MsgspecError,
)
"""The exceptions of pure parsing code (no sockets, no users' functions) on malformed data."""


def glimpse(value: object) -> str:
    """Return the beginning of *value* as text, however large or deeply nested it is."""
    return _SHORT.repr(value)[:300]


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 120
