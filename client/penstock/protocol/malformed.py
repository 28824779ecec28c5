"""What reading malformed data can raise, and how to show a piece of it."""

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
"""What code that only reads (no sockets, no users' functions) raises over malformed data."""


def glimpse(value: object) -> str:
    """Return the beginning of *value* as text, however large or deeply nested it is."""
    return _SHORT.repr(value)[:300]


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 120
