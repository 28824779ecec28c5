"""Renames methods that a base class defines after the class that users know.

Python's errors name a function by the class that defines it. With this, `batch() missing 1
argument` names `Dataset`, and not a class that users cannot find.
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
