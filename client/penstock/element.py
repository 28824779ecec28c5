"""Elements: nests of tuples, named tuples and dicts over arrays, NumPy scalars, text and bytes.

`penstock.normalise` makes one of what a user's function returned; `collate` stacks several.
A *leaf* is a `numpy.ndarray` of at least one dimension, a `numpy.generic`, a `str` or a `bytes`.
Inside a pipeline a leaf may also be a dataset (see `window`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from penstock.errors import ElementError

Element: TypeAlias = Any

TEXT = (str, bytes)

DEEPEST = 10_000

SHOWN = 200
"""Characters of an element in messages."""

DESCRIBED = 140
"""Characters of a structure in messages: some show two."""


class NestedDataset:
    """Marks what may stand inside elements of a pipeline though it is no value: a dataset."""

    __slots__ = ()


def is_namedtuple(value: object) -> bool:
    """Return whether *value* is an instance of a named tuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def parts_of(element: Element) -> Sequence[Any] | None:
    """Return the parts of a tuple or dict; None if *element* is a leaf."""
    if isinstance(element, dict):
        return list(element.values())
    return element if isinstance(element, tuple) else None


def with_parts(like: Element, parts: Iterable[Any]) -> Element:
    """Return a tuple or dict like *like* of other *parts*."""
    if type(like) is tuple:
        return tuple(parts)
    if isinstance(like, dict):
        return dict(zip(like, parts, strict=True))
    return type(like)(*parts) if is_namedtuple(like) else tuple(parts)


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
    """Return what tells one nest from another: equal for elements of the same structure.

    The order of a dict's keys is not part of it.
    """
    if isinstance(element, tuple):
        return (type(element), *map(structure, element))
    if isinstance(element, dict):
        return (dict, *((key, structure(element[key])) for key in sorted(element)))
    return None


def unlike(elements: Sequence[Element]) -> Element | None:
    """Return which of *elements* is the first of another structure than the first one, if any."""
    if _same_nests(elements):
        return None
    shape = structure(elements[0])
    return next(element for element in elements if structure(element) != shape)


def _same_nests(elements: Sequence[Element]) -> bool:
    """Return whether all have one structure: column by column, most of it is done in C."""
    first = elements[0]
    if isinstance(first, tuple):
        same = len(set(map(type, elements))) == 1 and len(set(map(len, elements))) == 1
        return same and all(map(_same_nests, zip(*elements, strict=True)))
    if isinstance(first, dict):
        keys = first.keys()
        same = all(isinstance(each, dict) and each.keys() == keys for each in elements)
        return same and all(_same_nests([each[key] for each in elements]) for key in keys)
    return not any(issubclass(kind, (tuple, dict)) for kind in set(map(type, elements)))


def arranged(like: Element, element: Element) -> Element | None:
    """Return *element* with the keys of its dicts in the order of *like*.

    None if it has another structure: then the leaves of the two do not belong together.
    """
    if structure(element) != structure(like):
        return None
    return _arranged(like, element)


def _arranged(like: Element, element: Element) -> Element:
    if isinstance(like, dict):
        return {key: _arranged(value, element[key]) for key, value in like.items()}
    return with_parts(like, map(_arranged, like, element)) if isinstance(like, tuple) else element


def rebuild(like: Element, values: Sequence[Any]) -> Element:
    """Return an element with the structure of *like* and *values* as leaves."""
    try:
        return _rebuild(like, iter(values).__next__)
    except StopIteration as exc:  # to leak it would silently end a caller's input
        raise ValueError(f"{len(values)} leaves are too few for {describe(like)}") from exc


def sorted_keys(element: Element) -> Element:
    """Return *element* with the keys of its dicts in alphabetical order."""
    if isinstance(element, dict):
        return {key: sorted_keys(element[key]) for key in sorted(element)}
    return with_parts(element, map(sorted_keys, element)) if isinstance(element, tuple) else element


def map_leaves(fn: Callable[[Any], Any], element: Element) -> Element:
    """Return *element* with *fn* applied to each leaf."""
    if isinstance(element, tuple):
        return with_parts(element, [map_leaves(fn, part) for part in element])
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
    """Show the structure, dtypes and shapes of *element*, or the start of them, for messages."""
    text = _described(element)
    if len(text) <= DESCRIBED:
        return text
    return f"{text[: DESCRIBED - 40]}... ({len(leaves(element))} parts in all)"


def _described(element: Element) -> str:
    if isinstance(element, tuple):
        return f"({', '.join(map(_described, element))}{',' if len(element) == 1 else ''})"
    if isinstance(element, dict):
        return "{" + ", ".join(f"{k!r}: {_described(v)}" for k, v in element.items()) + "}"
    if isinstance(element, np.ndarray):
        kinds = text_kinds([element])
        return f"{kinds.pop().__name__ if kinds else element.dtype}{list(element.shape)}"
    if isinstance(element, np.generic):
        return str(element.dtype)
    return type(element).__name__


def stacks_by_leaf(element: Element) -> bool:
    """Return whether elements like this one are stacked leaf by leaf.

    A type of Penstock's own may stack its elements in another way: then it has `_stack`. No field
    of a user's named tuple has such a name.
    """
    if is_own(element):
        return False
    return all(map(stacks_by_leaf, parts_of(element) or ()))


def is_own(element: Element) -> bool:
    """Return whether *element* is of a type of Penstock's own that stacks in its own way."""
    return isinstance(element, tuple) and hasattr(type(element), "_stack")


def columns(batch: Element) -> list[Any]:
    """Return what has the rows of *batch*, left to right: arrays, and values that are `is_own`."""
    parts = None if is_own(batch) else parts_of(batch)
    return [batch] if parts is None else [each for part in parts for each in columns(part)]


def with_columns(like: Element, values: Iterator[Any]) -> Element:
    """Return a batch with the structure of *like* and the next *values* as `columns`."""
    parts = None if is_own(like) else parts_of(like)
    return (
        next(values)
        if parts is None
        else with_parts(like, [with_columns(p, values) for p in parts])
    )


def collate(elements: Sequence[Element]) -> Element:
    """Stack *elements*, leaf by leaf, along a new first axis. Text gives an object array.

    Raises:
        ElementError: when structures, dtypes or shapes differ; the message shows both.
    """
    if (other := unlike(elements)) is not None:
        raise _differ(elements[0], other)
    return _collated(elements)


def _collated(elements: Sequence[Element]) -> Element:
    first = elements[0]
    if isinstance(first, tuple):
        if (stack := getattr(type(first), "_stack", None)) is not None:
            return stack(elements)
        return with_parts(first, [_collated(column) for column in zip(*elements, strict=True)])
    if isinstance(first, dict):
        return {key: _collated([element[key] for element in elements]) for key in first}
    return _stack(elements)


def _stack(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    first = values[0]
    kinds = set(map(type, values))
    if len(kinds) > 1:
        raise _differ(first, next(value for value in values if type(value) is not type(first)))
    if isinstance(first, TEXT):
        return text_array(values)
    if isinstance(first, np.generic):
        return _scalars(first, values)
    if isinstance(first, np.ndarray):
        shape = first.shape
        for value in values:
            if value.shape != shape or not _same_dtype(value, first):
                raise _differ(first, value)
        if first.dtype.hasobject and len(text_kinds(values)) > 1:
            raise _differ(first, next(v for v in values if text_kinds([first, v]) == {*TEXT}))
        # As `numpy.stack` does, without a view of each.
        return joined(values).reshape(len(values), *shape)
    raise ElementError(
        "a dataset inside an element cannot be batched: flatten it first, as in "
        "window(size).flat_map(lambda w: w.batch(size))"
    )


def joined(arrays: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return *arrays* of one dtype as one, along their first axis; it keeps their byte order."""
    dtype = arrays[0].dtype
    if dtype.isnative:
        return np.concatenate(arrays)
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    return np.concatenate(arrays, out=np.empty(shape, dtype))


def _scalars(first: np.generic, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return NumPy scalars of one type as an array of the one dtype that all of them have.

    The type does not tell units of time, sizes and fields: to convert these would cut values.
    """
    kind = first.dtype.kind
    if kind not in "mMV":
        return np.array(values, dtype=first.dtype)
    dtype = first.dtype
    if kind in "mM":  # "not a time" may be of no unit: it is the same in each
        dtype = next((value.dtype for value in values if not _is_unitless_nat(value)), dtype)
    out = np.empty(len(values), dtype)
    for at, value in enumerate(values):  # one by one: a tuple of records would be taken for one
        if value.dtype != dtype and not _is_unitless_nat(value):
            raise _differ(first, value)
        out[at] = value
    return out


def _is_unitless_nat(value: np.generic) -> bool:
    dtype: Any = value.dtype
    return dtype.kind in "mM" and np.datetime_data(dtype)[0] == "generic" and bool(np.isnat(value))


def text_kinds(arrays: Sequence[np.ndarray[Any, Any]]) -> set[type]:
    """Return which kinds of text are in *arrays* of objects: one of them has one kind."""
    return {type(array.flat[0]) for array in arrays if array.dtype.hasobject and array.size}


def _same_dtype(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.dtype is other.dtype or one.dtype == other.dtype


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
    if isinstance(like, dict):
        return {key: _rebuild(value, take) for key, value in like.items()}
    if isinstance(like, tuple):
        return with_parts(like, [_rebuild(part, take) for part in like])
    return take()


def shown(value: Any) -> str:
    """Return *value* and its type as error messages show them, in 60 characters or little more."""
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({type(value).__name__})"


def unchanged(value: Any) -> Any:
    """Return *value* itself."""
    return value
