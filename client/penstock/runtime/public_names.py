"""Methods named by the class that users know, where a base class of ours defines them.

Python's own errors name a function by where it was defined: `batch() missing 1 argument` is of
`Dataset`, and not of a class that users cannot find.
"""

from __future__ import annotations

from types import FunctionType


def named_by(public: type) -> None:
    """Have the methods that *public* inherits from classes of Penstock bear its name."""
    for base in public.__mro__[1:]:
        if not base.__module__.startswith("penstock."):
            continue
        for name, value in vars(base).items():
            method = getattr(value, "__func__", value)
            if isinstance(method, FunctionType) and method.__name__ == name:
                method.__qualname__ = f"{public.__qualname__}.{name}"
                method.__module__ = public.__module__
