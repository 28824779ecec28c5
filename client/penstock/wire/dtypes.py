"""How a dtype is told, and understood again."""

from __future__ import annotations

import ast
import functools
import re
from typing import Any

import numpy as np

from penstock.errors import ElementError
from penstock.malformed import MALFORMED, glimpse


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
        if text.startswith("[") and len(text) <= _LONGEST:
            dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
        elif _PLAIN.fullmatch(text):
            dtype = np.dtype(text)
        else:
            raise TypeError("it is no name of one")
    except _NO_DTYPE as exc:
        raise ValueError(f"{glimpse(text)} is no dtype") from exc
    if dtype.hasobject or dtype.subdtype is not None:
        raise ValueError(f"{glimpse(text)} holds Python objects, or arrays")
    return dtype


_PLAIN = re.compile(r"[<>|=][?biufcmMSUV]\d{1,10}(\[[^\]]{1,16}\])?", re.ASCII)
_NO_DTYPE: tuple[type[Exception], ...] = (*MALFORMED, SyntaxError)
_LONGEST = 1 << 16
"""Characters of a dtype with fields."""
