"""How a dtype is told, and understood again."""

from __future__ import annotations

import ast
import functools
from typing import Any

import numpy as np

from penstock.errors import ElementError


@functools.lru_cache(maxsize=256)
def dtype_text(dtype: np.dtype[Any]) -> str:
    """Return *dtype* as text: its character code, or a literal for one with fields."""
    if dtype.hasobject:
        raise ElementError(f"an array of {dtype} cannot travel: it holds Python objects")
    return dtype.str if dtype.fields is None else ascii(np.lib.format.dtype_to_descr(dtype))


@functools.lru_cache(maxsize=256)
def dtype_from(text: str) -> np.dtype[Any]:
    """Return the dtype that `dtype_text` told.

    Raises:
        ValueError: when it told none that an array can have.
    """
    try:
        if text.startswith("["):
            dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
        else:
            dtype = np.dtype(text)
    except (TypeError, SyntaxError) as exc:
        raise ValueError(f"{text!r} is no dtype") from exc
    if dtype.hasobject:
        raise ValueError(f"{text!r} holds Python objects")
    return dtype
