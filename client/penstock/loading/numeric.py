"""The leaves of elements that frameworks of numbers can take, and what to do about the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.element import TEXT, shown
from penstock.errors import ElementError

KINDS = "biufc"


def numeric(leaf: Any, framework: str) -> NDArray[Any]:
    """Return *leaf* as an array of numbers or booleans, in this machine's byte order.

    It has the leaf's shape, () for a scalar, and its memory where that can be.

    Args:
        leaf: an array, a NumPy scalar or text.
        framework: whose loader wants it, for messages.

    Raises:
        ElementError: when it is text, or of a dtype without an arithmetic; with what to do.
    """
    if isinstance(leaf, TEXT) or (isinstance(leaf, np.ndarray) and leaf.dtype.hasobject):
        raise ElementError(
            f"{framework} has no text, but an element holds {_told(leaf)}: turn it into numbers in "
            "a map before (ids of a vocabulary, or np.frombuffer(text, np.uint8) of bytes), or "
            "leave it out there"
        )
    array = np.asarray(leaf)
    dtype = array.dtype
    if dtype.kind in "mM":
        raise ElementError(
            f"{framework} has no times, but an element holds {dtype}: use "
            "array.astype(np.int64) in a map before"
        )
    if not (dtype.kind in KINDS or extended(dtype)) or dtype.itemsize > _widest(dtype):
        raise ElementError(
            f"{framework} has no arrays of {dtype}: use array.astype(...) in a map before, or give "
            "the fields of a structured array as a dict of arrays"
        )
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def extended(dtype: np.dtype[Any]) -> bool:
    """Return whether *dtype* is a number format of the package ml_dtypes, such as bfloat16."""
    return dtype.type.__module__ == "ml_dtypes"


def _widest(dtype: np.dtype[Any]) -> int:
    return 16 if dtype.kind == "c" else 8


def _told(leaf: Any) -> str:
    if isinstance(leaf, TEXT):
        return shown(leaf)
    return f"an array of it, of shape {list(leaf.shape)}"
