"""NumPy's leaves as tensors, without a copy where their memory may be written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from penstock.element import TEXT, Element, map_leaves
from penstock.errors import ElementError
from penstock.loading.placed import extended, numeric

_EXTENDED = {
    "bfloat16": (np.int16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e4m3fnuz": (np.uint8, torch.float8_e4m3fnuz),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
    "float8_e5m2fnuz": (np.uint8, torch.float8_e5m2fnuz),
}
"""Number formats that NumPy does not have: a NumPy dtype of the same size, and torch's dtype."""


def tensors_of(element: Element) -> Any:
    """Return *element* with a CPU tensor in the place of each number or array, of its dtype, shape.

    Text stays text, as in PyTorch's own loops: an array of text becomes a list.

    A tensor has its array's memory, where that may be written to; else it has a copy, as PyTorch's
    own loops change batches in place.

    Raises:
        ElementError: when a leaf is of a dtype that torch has not.
    """
    return map_leaves(_converted, element)


def each_tensor(change: Callable[[Any], Any], tensors: Any) -> Any:
    """Return *tensors*, a nest that `tensors_of` made, with *change* of each; text stays."""
    return map_leaves(lambda leaf: leaf if isinstance(leaf, _TEXT) else change(leaf), tensors)


_TEXT = (str, bytes, list)


def _converted(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray) and leaf.dtype.hasobject:
        return leaf.tolist()
    return leaf if isinstance(leaf, TEXT) else tensor_of(leaf)


def tensor_of(leaf: Any) -> torch.Tensor:
    """Return one *leaf*, a number or an array of numbers, as a tensor; see `tensors_of`."""
    array = numeric(leaf, "torch")
    if not (array.flags.writeable and _strides_fit(array)):
        array = array.copy()
    if not extended(array.dtype):
        return torch.from_numpy(array)
    known = _EXTENDED.get(array.dtype.name)
    if known is None:
        raise ElementError(
            f"torch has no {array.dtype.name}: use array.astype(np.float32) in a map before"
        )
    alike, dtype = known
    return torch.from_numpy(array.view(alike)).view(dtype)


def _strides_fit(array: np.ndarray[Any, Any]) -> bool:
    """Return whether torch can take the array as it lies: it has no negative strides."""
    return all(step >= 0 for step in array.strides)
