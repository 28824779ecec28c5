"""Values of a Hugging Face row in the types that the dataset's features declare.

The library returns Python's numbers and lists, which do not have the declared types; an empty list
has none at all. Features are recognised by their attributes, so this does not import the library.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.element import text_array

_NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")
_TEMPORAL = re.compile(r"(timestamp|duration|time32|time64)\[(s|ms|us|ns)\b")
_TEXTS = {"string", "large_string", "string_view", "binary", "large_binary", "binary_view"}


def typed(value: Any, feature: Any, otherwise: Callable[[Any], Any]) -> Any:
    """Return *value* with the type that *feature* declares.

    Values that have no such type (None, images, decimals) are given to *otherwise*.
    """
    if isinstance(feature, dict) and isinstance(value, dict):
        return {name: typed(each, feature.get(name), otherwise) for name, each in value.items()}
    if isinstance(value, list):
        return _list(value, feature, otherwise)
    dtype = _dtype(feature)
    if value is None or dtype is None:
        return otherwise(value)
    return np.asarray(_moment(value), dtype)[()]


def _list(values: list[Any], feature: Any, otherwise: Callable[[Any], Any]) -> Any:
    inner = getattr(feature, "feature", None)
    if inner is None:  # an array of several axes has a dtype of its own
        return _shaped(values, feature, otherwise)
    axes, leaf = 1, inner
    while getattr(leaf, "feature", None) is not None:
        axes, leaf = axes + 1, leaf.feature
    dtype = _dtype(leaf)
    if dtype is not None and _is_full(values):
        try:
            return np.asarray(_moments(values), dtype) if values else np.zeros((0,) * axes, dtype)
        except ValueError:  # parts of differing lengths
            return tuple(typed(each, inner, otherwise) for each in values)
    if axes == 1 and getattr(leaf, "dtype", None) in _TEXTS and _is_full(values):
        return text_array(values)
    if values and not isinstance(inner, dict):
        return otherwise(values)
    return tuple(typed(each, inner, otherwise) for each in values)


def _shaped(values: list[Any], feature: Any, otherwise: Callable[[Any], Any]) -> Any:
    if getattr(feature, "shape", None) is None:
        return otherwise(values)
    return np.asarray(values, feature.dtype)


def _dtype(feature: Any) -> np.dtype[Any] | None:
    """Return the dtype of the scalars that *feature* declares, if NumPy has one."""
    name = getattr(feature, "dtype", None)
    if not isinstance(name, str) or getattr(feature, "shape", None) is not None:
        return None
    if _NUMBERS.fullmatch(name):
        return np.dtype(name)
    if name in ("date32", "date64"):
        return np.dtype("datetime64[D]" if name == "date32" else "datetime64[ms]")
    found = _TEMPORAL.match(name)
    if found is None:
        return None
    kind = "datetime64" if found[1] == "timestamp" else "timedelta64"
    return np.dtype(f"{kind}[{found[2]}]")


def _is_full(values: list[Any]) -> bool:
    """Return whether nothing is missing in *values* and the lists in it."""
    return not any(each is None or (type(each) is list and not _is_full(each)) for each in values)


def _moments(values: list[Any]) -> list[Any]:
    return [_moments(each) if type(each) is list else _moment(each) for each in values]


def _moment(value: Any) -> Any:
    """Return *value* as NumPy takes it: moments in UTC, times of day since midnight."""
    if isinstance(value, dt.time):
        return dt.timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    if type(value).__module__.startswith("pandas") and hasattr(value, "to_numpy"):
        return value.tz_convert(None).to_numpy() if getattr(value, "tz", None) else value.to_numpy()
    return value
