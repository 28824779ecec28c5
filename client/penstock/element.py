"""Elements: nests of tuples, named tuples and dicts over arrays, NumPy scalars, text and bytes.

`penstock.normalise` makes one of what a user's function returned; `collate` stacks several.
A *leaf* is a `numpy.ndarray` of at least one dimension, a `numpy.generic`, a `str` or a `bytes`.
Inside a pipeline a leaf may also be a dataset (see `window`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from penstock.errors import ElementError

Element: TypeAlias = Any

TEXT = (str, bytes)

DEEPEST = 10_000

SHOWN = 200
"""Characters of an element in messages."""


class NestedDataset:
    """Marks what may stand inside elements of a pipeline though it is no value: a dataset."""

    __slots__ = ()


def is_namedtuple(value: object) -> bool:
    """Return whether *value* is an instance of a named tuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def leaves(element: Element) -> list[Any]:
    """Return the leaves of *element*, left to right."""
    out: list[Any] = []
    _collect(element, out)
    return out


def is_flat(element: Element) -> bool:
    """Return whether *element* is a plain tuple or dict of leaves."""
    if type(element) is dict:
        element = tuple(element.values())
    return type(element) is tuple and not any(isinstance(x, (tuple, dict)) for x in element)


def structure(element: Element) -> Any:
    """Return what tells one nest from another: equal for elements of the same structure."""
    if isinstance(element, tuple):
        return (type(element), *map(structure, element))
    if isinstance(element, dict):
        return (dict, *((key, structure(value)) for key, value in element.items()))
    return None


def rebuild(like: Element, values: Sequence[Any]) -> Element:
    """Return an element with the structure of *like* and *values* as leaves."""
    try:
        return _rebuild(like, iter(values).__next__)
    except StopIteration as exc:  # to leak it would silently end a caller's input
        raise ValueError(f"{len(values)} leaves are too few for {structure(like)}") from exc


def map_leaves(fn: Callable[[Any], Any], element: Element) -> Element:
    """Return *element* with *fn* applied to each leaf."""
    if isinstance(element, tuple):
        parts = [map_leaves(fn, part) for part in element]
        return type(element)(*parts) if is_namedtuple(element) else tuple(parts)
    if isinstance(element, dict):
        return {key: map_leaves(fn, value) for key, value in element.items()}
    return fn(element)


def read_only(element: Element) -> Element:
    """Return *element* with views of its arrays that cannot be written to."""
    if isinstance(element, (tuple, dict)):
        return map_leaves(read_only, element)
    if isinstance(element, np.ndarray) and element.flags.writeable:
        element = element.view()
        element.flags.writeable = False
    return element


def own_nest(element: Element) -> Element:
    """Return *element* in containers of its own: a function may add to a dict that it gets."""
    return map_leaves(unchanged, element) if isinstance(element, (tuple, dict)) else element


def nbytes(element: Element) -> int:
    """Return about how many bytes *element* holds."""
    total = 0
    for leaf in leaves(element):
        if isinstance(leaf, (np.ndarray, np.generic)):
            total += leaf.nbytes
            if leaf.dtype.hasobject:
                total += sum(map(len, np.asarray(leaf).flat))
        elif isinstance(leaf, TEXT):
            total += len(leaf)
    return total


def preview(element: Element) -> str:
    """Show the start of *element*, for messages."""
    try:
        text = repr(map_leaves(_beginning, element))
    except Exception as exc:  # noqa: BLE001  parts of a nest may be the user's, and need not work
        return f"(it cannot be shown: {type(exc).__name__})"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _beginning(leaf: Any) -> Any:
    """Return as much of *leaf* as can be shown."""
    if isinstance(leaf, TEXT):
        return leaf[:SHOWN]
    if isinstance(leaf, np.ndarray) and leaf.dtype.hasobject:
        return leaf.ravel()[:SHOWN]
    return leaf


def describe(element: Element) -> str:
    """Show the structure, dtypes and shapes of *element*, for messages."""
    if isinstance(element, tuple):
        return f"({', '.join(map(describe, element))}{',' if len(element) == 1 else ''})"
    if isinstance(element, dict):
        return "{" + ", ".join(f"{k!r}: {describe(v)}" for k, v in element.items()) + "}"
    if isinstance(element, np.ndarray):
        return f"{element.dtype}{list(element.shape)}"
    if isinstance(element, np.generic):
        return str(element.dtype)
    return type(element).__name__


def collate(elements: Sequence[Element]) -> Element:
    """Stack *elements*, leaf by leaf, along a new first axis. Text gives an object array.

    Raises:
        ElementError: when structures, dtypes or shapes differ; the message shows both.
    """
    first = elements[0]
    if isinstance(first, (tuple, dict)):
        shape = structure(first)
        for other in elements:
            if structure(other) != shape:
                raise _differ(first, other)
    if isinstance(first, tuple):
        columns = [collate(column) for column in zip(*elements, strict=True)]
        return type(first)(*columns) if is_namedtuple(first) else tuple(columns)
    if isinstance(first, dict):
        return {key: collate([element[key] for element in elements]) for key in first}
    return _stack(elements)


def _stack(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    first = values[0]
    kinds = set(map(type, values))
    if len(kinds) > 1:
        raise _differ(first, next(value for value in values if type(value) is not type(first)))
    if isinstance(first, TEXT):
        return text_array(values)
    if isinstance(first, np.generic):
        return np.array(values, dtype=first.dtype)
    if isinstance(first, np.ndarray):
        shape, dtype = first.shape, first.dtype
        for value in values:
            if value.shape != shape or (value.dtype is not dtype and value.dtype != dtype):
                raise _differ(first, value)
        # As `numpy.stack` does, without a view of each.
        return np.concatenate(values).reshape(len(values), *first.shape)
    raise ElementError(
        "a dataset inside an element cannot be batched: flatten it first, as in "
        "window(size).flat_map(lambda w: w.batch(size))"
    )


def text_array(values: Sequence[str | bytes]) -> np.ndarray[Any, Any]:
    """Return *values* as an object array, as texts of any length are kept."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _differ(first: Element, other: Element) -> ElementError:
    return ElementError(
        f"elements of one batch must be alike, but {describe(first)} is followed by "
        f"{describe(other)}; use padded_batch for differing lengths, or map to one structure first"
    )


def _collect(element: Element, out: list[Any]) -> None:
    if isinstance(element, tuple):
        for part in element:
            _collect(part, out)
    elif isinstance(element, dict):
        for part in element.values():
            _collect(part, out)
    else:
        out.append(element)


def _rebuild(like: Element, take: Callable[[], Any]) -> Element:
    if isinstance(like, tuple):
        parts = [_rebuild(part, take) for part in like]
        return type(like)(*parts) if is_namedtuple(like) else tuple(parts)
    if isinstance(like, dict):
        return {key: _rebuild(value, take) for key, value in like.items()}
    return take()


def shown(value: Any) -> str:
    """Return *value* and its type as error messages show them, in 60 characters or little more."""
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({type(value).__name__})"


def unchanged(value: Any) -> Any:
    """Return *value* itself."""
    return value
