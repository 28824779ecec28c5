"""Which part of a value cannot be pickled, as its owner names it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from penstock.errors import DefinitionError
from penstock.serialization.value_parts import parts

SHOWN = 6
"""How many parts on the way to a part messages name."""


def message(owner: str, value: Any, fails: Callable[[Any], bool], exc: Exception) -> str:
    """Return which part of *value*, *owner*'s object, cannot be sent; *exc* is pickling's error."""
    # What nests too deeply fails at every level: the first few say where.
    too_deep = isinstance(exc, RecursionError) or isinstance(exc.__cause__, RecursionError)
    way, culprit = find(value, fails, SHOWN if too_deep else sys.maxsize)
    where = way_shown(way) if way else "its function or object"
    if isinstance(exc, DefinitionError):  # it knows why, and the remedy
        return f"{owner}: {where}: {exc}"
    reason = "" if "cannot pickle" in str(exc) else f" ({type(exc).__name__}: {exc})"
    return (
        f"{owner}: {where} holds {_describe(culprit)}, which cannot be sent to a worker{reason}; "
        "create it inside the function, or give what holds it a __getstate__ that leaves it out"
    )


def way_shown(way: list[str]) -> str:
    """Return the names of the parts on the *way* to a part as messages show them."""
    shown = way if len(way) <= SHOWN else [*way[:2], "…", *way[-2:]]
    return " of ".join(reversed(shown))


def find(value: Any, fails: Callable[[Any], bool], most: int) -> tuple[list[str], Any]:
    """Return the innermost part of *value* that *fails*, and the names of the parts on the way.

    It is looked for *most* parts deep.
    """
    way: list[str] = []
    seen = {id(value)}
    alive = [value]
    while len(way) < most:
        unseen = ((name, part) for name, part in parts(value).children if id(part) not in seen)
        found = next(((name, part) for name, part in unseen if fails(part)), None)
        if found is None:
            break
        name, value = found
        way.append(name)
        # The parts of a part may be made for the occasion: an id is good while its value lives.
        alive.append(value)
        seen.add(id(value))
    return way, value


def _describe(value: Any) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    name = f"{module}{kind.__qualname__}"
    return f"{'an' if name.lstrip('_')[:1].lower() in 'aeiou' else 'a'} {name}"
