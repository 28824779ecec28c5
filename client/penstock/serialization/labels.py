"""Labels: what is plain in a value, as bytes that are equal in every process."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...)})
"""Types whose values have no parts."""

_DEPTH = 4
"""How deep plain data may nest to be taken as one label: records, and lists of records."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a value is made of.

    The name of a part begins with what it is, as messages say it: ``global 'scale'``.
    """

    label: bytes
    children: tuple[tuple[str, Any], ...] = ()
    ordered: bool = True
    """Whether the order of the parts, and with it their names, is a part of the value."""
    opaque: bool = False
    """Whether this is all that can be known: the value cannot be taken apart."""


def plain(value: Any) -> bytes:
    """Return plain *value* as bytes: equal for equal values of equal types.

    Raises:
        ValueError: when *value* holds anything but exact tuples, lists, dicts and atoms.
    """
    # marshal, in the version before it knew references, distinguishes 1, 1.0 and True, keeps
    # -0.0 and NaN, takes any int and any text, and runs at the speed of C.
    return marshal.dumps(_canonical(value, _DEPTH), 2)


def text(*words: object) -> bytes:
    """Return *words* as a label."""
    return "\x1f".join(map(str, words)).encode("utf-8", "surrogatepass")


def named(kind: str, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return *values* as parts that are *kind* and have names, in order of these."""
    return [(f"{kind} {name!r}", values[name]) for name in sorted(values)]


def _canonical(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in ATOMS:
        return value
    if depth and kind in (list, tuple):
        if ATOMS.issuperset(map(type, value)):
            return value
        return kind([_canonical(item, depth - 1) for item in value])
    if depth and kind is dict and ATOMS.issuperset(map(type, value)):
        items = [(marshal.dumps(k, 2), _canonical(v, depth - 1)) for k, v in value.items()]
        # A mark that marshal knows and that is no atom.
        return StopIteration, sorted(items, key=lambda item: item[0])
    raise ValueError("not plain")
