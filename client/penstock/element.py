"""Elements: nests of tuples, named tuples and dicts over arrays, NumPy scalars, text and bytes.

`normalise` makes one out of whatever a user's function returned; `collate` stacks several.
A *leaf* is a `numpy.ndarray` of at least one dimension, a `numpy.generic`, a `str` or a `bytes`.
Inside a pipeline a leaf may also be a dataset (see `window`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from penstock.errors import ElementError

Element: TypeAlias = Any

_TEXT = (str, bytes)

_DEEPEST = 10_000

SHOWN = 200
"""Characters of an element in messages."""


class NestedDataset:
    """Marks what may stand inside elements of a pipeline though it is no value: a dataset."""

    __slots__ = ()


def is_namedtuple(value: object) -> bool:
    """Say whether *value* is an instance of a named tuple."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def normalise(value: Any) -> Element:
    """Return *value* as an element.

    Lists become tuples, Python numbers ``int64``, ``float64`` and ``bool_`` scalars, arrays
    without dimensions scalars; anything with ``__array__`` (a CPU tensor) becomes an array.

    Raises:
        ElementError: for None, object arrays of other things than text, and unknown types.
    """
    make = _CONVERT.get(type(value)) or _converter(value)
    try:
        return make(value)
    except RecursionError:
        raise too_deep(value) from None


def normalise_block(values: list[Any]) -> list[Element]:
    """Return *values* as elements; one type check for a whole block of scalars or text."""
    return values if is_plain(values) else [normalise(value) for value in values]


def is_plain(values: Sequence[Any]) -> bool:
    """Say whether all *values* are scalars or text, which no one can write to."""
    return set(map(type, values)) <= _PLAIN


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return what a user gave to a source as an array: text becomes an object array of text.

    Raises:
        ElementError: for ragged lists and for objects that are neither numbers nor text.
    """
    if isinstance(value, np.ndarray):
        return _checked(value if type(value) in _OWN_ARRAYS else _base_array(value))
    if isinstance(value, _TEXT):
        array = np.empty((), object)
        array[()] = value
        return array
    if hasattr(value, "__array__"):
        return _checked(_base_array(value))
    try:
        array = np.asarray(value)
    except ValueError as exc:
        raise ElementError(
            f"{_show(value)} is ragged: its parts differ in shape; give the parts one by one with "
            "from_sequence or from_generator, and pad them in the pipeline"
        ) from exc
    if array.dtype.kind in "USO":
        # NumPy's own text types cut trailing NULs and mix text with numbers: go by the objects.
        array = np.array(value, dtype=object)
    return _checked(array)


def as_arrays(value: Any) -> Element:
    """Return what a user gave to a source as a nest of arrays; a list is an array, not a nest.

    Raises:
        ElementError: as `as_array`.
    """
    try:
        return _as_arrays(value)
    except RecursionError:
        raise too_deep(value) from None


def _as_arrays(value: Any) -> Element:
    if isinstance(value, tuple):
        parts = map(_as_arrays, value)
        return type(value)(*parts) if is_namedtuple(value) else tuple(parts)
    if isinstance(value, dict):
        _check_keys(value)
        return {key: _as_arrays(part) for key, part in value.items()}
    return as_array(value)


def too_deep(value: Any) -> ElementError:
    """Return the error that says that *value* is no nest that can be gone through."""
    levels = 0
    while isinstance(value, (list, tuple, dict)) and value and levels < _DEEPEST:
        value = next(iter(value.values() if isinstance(value, dict) else value))
        levels += 1
    how = f"{levels}" if levels < _DEEPEST else f"{_DEEPEST} or more, or holds itself"
    return ElementError(
        f"an element is nested too deep to be gone through (levels still to go: {how}): give its "
        "parts side by side, as a flat tuple, dict or array"
    )


def leaves(element: Element) -> list[Any]:
    """Return the leaves of *element*, left to right."""
    out: list[Any] = []
    _collect(element, out)
    return out


def is_flat(element: Element) -> bool:
    """Say whether *element* is a plain tuple or dict of leaves."""
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
    except StopIteration as exc:  # to leak it would end somebody's input without a word
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
    return map_leaves(_same, element) if isinstance(element, (tuple, dict)) else element


def nbytes(element: Element) -> int:
    """Return about how many bytes *element* holds."""
    total = 0
    for leaf in leaves(element):
        if isinstance(leaf, (np.ndarray, np.generic)):
            total += leaf.nbytes
            if leaf.dtype.hasobject:
                total += sum(map(len, np.asarray(leaf).flat))
        elif isinstance(leaf, _TEXT):
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
    if isinstance(leaf, _TEXT):
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
    if isinstance(first, _TEXT):
        return _text_array(values)
    if isinstance(first, np.generic):
        return np.array(values, dtype=first.dtype)
    if isinstance(first, np.ndarray):
        for value in values:
            if value.shape != first.shape or value.dtype != first.dtype:
                raise _differ(first, value)
        return np.stack(values)
    raise ElementError(
        "a dataset inside an element cannot be batched: flatten it first, as in "
        "window(size).flat_map(lambda w: w.batch(size))"
    )


def _text_array(values: Sequence[str | bytes]) -> np.ndarray[Any, Any]:
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


def _check_keys(value: dict[Any, Any]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise ElementError(f"keys of a dict in an element must be str, not {_show(key)}")


def _from_dict(value: dict[Any, Any]) -> dict[str, Element]:
    _check_keys(value)
    return {key: normalise(part) for key, part in value.items()}


def _from_array(array: np.ndarray[Any, Any]) -> Any:
    array = _checked(array)
    return array if array.ndim else normalise_scalar(array[()])


def normalise_scalar(value: Any) -> Any:
    """Return what indexing an array gave as a leaf: text as plain `str` or `bytes`."""
    if isinstance(value, str):
        return str(value)
    return bytes(value) if isinstance(value, bytes) else value


def _checked(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = array.dtype.kind
    if kind in "US":
        # Kept as objects: NumPy's fixed-width text cuts what its width does not hold.
        return array.astype(object)
    if kind == "T":  # variable-width text, which may have gaps
        return _checked_text(array.astype(object))
    if kind == "O":
        return _checked_text(array)
    if kind == "V" and array.dtype.hasobject:
        raise ElementError(f"a structured array with object fields ({array.dtype}) cannot travel")
    return array


def _checked_text(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kinds = set(map(type, array.flat))
    if kinds <= {str} or kinds <= {bytes}:
        return array
    for text in _TEXT:
        if all(issubclass(kind, text) for kind in kinds):
            return _text_array([text(value) for value in array.flat]).reshape(array.shape)
    wrong = [_show(value) for value in array.flat if not isinstance(value, _TEXT)]
    what = wrong[0] if wrong else "a mix of str and bytes"
    raise ElementError(
        f"an object array must hold only str or only bytes, but this one holds {what}: "
        "convert it to a numeric dtype, or to one kind of text"
    )


def _show(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return f"{text} ({type(value).__name__})"


def _same(value: Any) -> Any:
    return value


def _from_int(value: int) -> Any:
    try:
        return np.int64(value)
    except OverflowError as exc:
        raise ElementError(f"{value} does not fit int64: use numpy.uint64, float or text") from exc


def _from_any(value: Any) -> Any:
    return _from_array(_base_array(value))


def _base_array(value: Any) -> np.ndarray[Any, Any]:
    """Return *value*, an array of some subclass or something like an array, as a plain one."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ElementError(
            f"an array with masked values ({value.dtype}{list(value.shape)}) cannot be an element: "
            "fill them, as in array.filled(0), and keep the mask as an array beside it"
        )
    return np.asarray(value)


def _from_tuple(value: list[Any] | tuple[Any, ...]) -> Any:
    parts = tuple(map(normalise, value))
    make: Any = type(value)
    return make(*parts) if is_namedtuple(value) else parts


def _converter(value: Any) -> Callable[[Any], Any]:
    for kinds, make in _BASES:
        if isinstance(value, kinds):
            return make
    if hasattr(value, "__array__"):
        return _from_any
    if value is None:
        raise ElementError(
            "an element cannot hold None (NoneType): give a value that stands for what is missing "
            "(0, -1, float('nan'), '', an array of length 0), leave the element out in a filter "
            "before, or leave the key out of all elements; a function without a return statement "
            "returns None"
        )
    raise ElementError(
        f"an element cannot hold {_show(value)}: use arrays, numbers, text, bytes, "
        "or tuples, lists and dicts of these"
    )


_OWN_ARRAYS = (np.ndarray, np.memmap)
_SCALARS = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip
_PLAIN = {*_SCALARS, str, bytes}
_CONVERT: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys([*_SCALARS, str, bytes], _same),
    int: _from_int,
    float: np.float64,
    bool: np.bool_,
    complex: np.complex128,
    np.ndarray: _from_array,
    tuple: _from_tuple,
    dict: _from_dict,
}
_BASES: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = [
    ((np.generic, np.ndarray), _from_any),
    (NestedDataset, _same),
    ((list, tuple), _from_tuple),
    (dict, _from_dict),
    (int, _from_int),
    (float, np.float64),
    (str, str),
    ((bytes, bytearray, memoryview), bytes),
]
"""What is none of the types above, but of a subclass or kind; the first match counts."""
