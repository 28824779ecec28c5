"""Large data by content: its SHA-256 is its name, so that it is kept, sent and hashed once."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

_WORTH_KEEPING = 1 << 12


class ContentKeys:
    """The content keys of arrays, each computed once for as long as this lives."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def key(self, array: np.ndarray[Any, Any]) -> str:
        """Return the key of the elements of *array*, in C order."""
        known = self._known.get(id(array))
        if known is not None:
            return known[1]
        key = content_key(raw_bytes(array))
        if array.nbytes >= _WORTH_KEEPING:
            self._known[id(array)] = (array, key)
        return key


def content_key(data: memoryview | bytes) -> str:
    """Return the key of *data*."""
    return hashlib.sha256(data).hexdigest()


def raw_bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the elements of *array*, in C order, as bytes; a view where it lies so already."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
