"""Which operator takes most of a definition, and which part of its function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.serialization.digest import ContentKeys
from penstock.serialization.pickling import dump
from penstock.serialization.pickling_blame import SHOWN, find, way_shown


class OwnedSizes:
    """The sizes of what operators hold, in bytes."""

    def __init__(self, keys: ContentKeys) -> None:
        self._keys = keys
        self._found: list[tuple[int, str, Any]] = []

    def add(self, operator: str, arrays: int, owned: Sequence[Any]) -> None:
        """Add *operator*, which holds *arrays* of so many bytes, and *owned* objects."""
        self._found.append((arrays, operator, None))
        self._found += [(self.of(value), operator, value) for value in owned]

    def largest(self) -> str:
        """Return which operator holds the largest part, and where in it that lies."""
        size, operator, value = max(self._found, key=lambda each: each[0])
        way, _ = find(value, lambda part: 2 * self.of(part) > size, SHOWN)
        if way and way[-1] == "its content":  # of an array, which has no other parts
            way.pop()
        return f"{way_shown(way) if way else 'data'} of {operator} takes {size} bytes"

    def of(self, value: Any) -> int:
        """Return how many bytes *value* takes in a definition; 0 if it cannot be sent by itself."""
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return int(value.nbytes)
        if isinstance(value, (str, bytes, bytearray)):
            return len(value)
        try:
            pickled, contents = dump([("", value)], self._keys)
        except Exception:  # noqa: BLE001  users' objects, which may need what lies around them
            return 0
        return len(pickled.stream) + sum(data.nbytes for data in contents.values())
