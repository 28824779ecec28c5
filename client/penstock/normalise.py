"""Makes elements of what users' functions return: numbers, lists, tensors, text.

`normalise` makes one element, `normalise_block` a block of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from penstock import cures
from penstock.element import (
    DEEPEST,
    TEXT,
    Element,
    NestedDataset,
    collate,
    is_namedtuple,
    parts_of,
    shown,
    text_array,
    unchanged,
    with_parts,
)
from penstock.errors import ElementError
from penstock.extras import EXTENDED, needed


def normalise(value: Any) -> Element:
    """Return *value* as an element.

    A list of numbers, of texts or of arrays that are alike becomes one array, as in `tf.data`; a
    list that holds tuples or dicts becomes a tuple. Python numbers become ``int64``, ``float64``
    and ``bool_`` scalars, arrays without dimensions scalars; anything with ``__array__`` (a CPU
    tensor) becomes an array.

    Raises:
        ElementError: for None, ragged and mixed lists, object arrays of other things than text,
            and unknown types.
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
    """Return whether all *values* are scalars or text, which cannot be written to."""
    return set(map(type, values)) <= _PLAIN


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Return what a user gave to a source as an array: text becomes an object array of text.

    Raises:
        ElementError: for ragged lists and for objects that are neither numbers nor text.
    """
    if isinstance(value, np.ndarray):
        return _checked(value if type(value) in _OWN_ARRAYS else _base_array(value))
    if isinstance(value, TEXT):
        array = np.empty((), object)
        array[()] = value
        return array
    if hasattr(value, "__array__"):
        return _checked(_base_array(value))
    try:
        array = np.asarray(value)
    except ValueError as exc:
        raise ElementError(
            f"{shown(value)} is ragged: its parts differ in shape; give the parts one by one with "
            "from_sequence or from_generator, and pad them in the pipeline"
        ) from exc
    if array.dtype.kind == "f" and (np.abs(array) >= _NO_INT64).any():
        _refuse_rounded(np.array(value, dtype=object))
    if array.dtype.kind in "USO":
        # NumPy's own text types cut trailing NULs and mix text with numbers: go by the objects.
        array = np.array(value, dtype=object)
    return _checked(array)


def _refuse_rounded(objects: np.ndarray[Any, Any]) -> None:
    """Refuse integers that NumPy makes floats of, as no one type of integers holds all."""
    values = list(objects.flat)
    if all(isinstance(one, (int, np.integer)) for one in values):
        for one in values:
            _from_int(int(one))


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
    if isinstance(value, dict):
        _check_keys(value)
    parts = parts_of(value)
    return as_array(value) if parts is None else with_parts(value, map(_as_arrays, parts))


def too_deep(value: Any) -> ElementError:
    """Return the error that says that *value* is no nest that can be gone through."""
    levels = 0
    while isinstance(value, (list, tuple, dict)) and value and levels < DEEPEST:
        value = next(iter(value.values() if isinstance(value, dict) else value))
        levels += 1
    how = f"{levels}" if levels < DEEPEST else f"{DEEPEST} or more, or holds itself"
    return ElementError(
        f"an element is nested too deep to be gone through (levels still to go: {how}): give its "
        "parts side by side, as a flat tuple, dict or array"
    )


def _check_keys(value: dict[Any, Any]) -> None:
    for key in value:
        if not isinstance(key, str):
            raise ElementError(f"keys of a dict in an element must be str, not {shown(key)}")


def _from_dict(value: dict[Any, Any]) -> dict[str, Element]:
    if set(map(type, value)) != {str}:
        _check_keys(value)
    return {k: (_CONVERT.get(type(v)) or _converter(v))(v) for k, v in value.items()}


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
    for text in TEXT:
        if all(issubclass(kind, text) for kind in kinds):
            return text_array([text(value) for value in array.flat]).reshape(array.shape)
    wrong = [value for value in array.flat if not isinstance(value, TEXT)]
    what = shown(wrong[0]) if wrong else "a mix of str and bytes"
    cure = "convert it to a numeric dtype, or to one kind of text"
    raise ElementError(
        f"an object array must hold only str or only bytes, but this one holds {what}: "
        f"{cures.of_value(wrong[0], cure) if wrong else cure}"
    )


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
    if type(value).__module__.partition(".")[0] == "torch":
        return _array_of_tensor(value)
    return np.asarray(value)


def _array_of_tensor(tensor: Any) -> np.ndarray[Any, Any]:
    """Return a tensor of PyTorch's as an array, also of a number format that NumPy has not."""
    tensor = tensor.detach().cpu()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in EXTENDED:
        return np.asarray(tensor)
    alike = {1: "uint8", 2: "int16"}[tensor.element_size()]
    raw = np.asarray(tensor.view(getattr(sys.modules["torch"], alike)))
    formats = needed("ml_dtypes", f"a tensor of {name}, unlike tensor.float(),")
    return raw.view(getattr(formats, name))


def _from_tuple(value: tuple[Any, ...]) -> Any:
    parts = tuple(map(normalise, value))
    make: Any = type(value)
    return make(*parts) if is_namedtuple(value) else parts


def _from_list(value: list[Any]) -> Any:
    kinds = set(map(type, value))
    if kinds <= _NUMBERS:
        array = np.asarray(value)
        return array if array.dtype.kind in "ibc" else _unless_rounded(array, value, kinds)
    parts = tuple(map(normalise, value))
    if any(isinstance(part, (tuple, dict, NestedDataset)) for part in parts):
        return parts
    texts = {type(part) for part in parts if isinstance(part, TEXT)}
    if texts:
        if len(texts) > 1 or not all(isinstance(part, TEXT) for part in parts):
            raise _unlike("mixes text and other things", value)
        return text_array(parts)
    if len({np.shape(part) for part in parts}) > 1:
        raise _unlike("is ragged", value)
    return _joined(parts, value)


def _unless_rounded(
    array: np.ndarray[Any, Any], value: list[Any], kinds: set[type]
) -> np.ndarray[Any, Any]:
    """Return *array*, made of the numbers *value*, or ``int64``: integers become no floats."""
    kind = array.dtype.kind
    if kind == "O" or (kinds <= _INTEGERS and (kind == "f" or int in kinds)):
        return np.array([_from_int(int(one)) for one in value if type(one) in _INTEGERS])
    return array


def _joined(parts: tuple[Any, ...], value: list[Any]) -> np.ndarray[Any, Any]:
    """Return arrays, or scalars, of one shape as one array; numbers of several types as one."""
    dtypes = {part.dtype for part in parts}
    if len(dtypes) > 1 and not all(dtype.kind in "biufc" for dtype in dtypes):
        raise _unlike(f"mixes {' and '.join(sorted(map(str, dtypes)))}", value)
    if len(dtypes) > 1:
        made = np.stack(parts)
        if made.dtype.kind == "f" and all(dtype.kind in "biu" for dtype in dtypes):
            raise _unlike(f"mixes {' and '.join(sorted(map(str, dtypes)))}", value)
        return made
    found: np.ndarray[Any, Any] = collate(parts)
    return _checked(found)


def _unlike(what: str, value: list[Any]) -> ElementError:
    return ElementError(
        f"a list in an element is one array, but {shown(value)} {what}: use a tuple for parts that "
        "are separate; parts that differ in length are padded, or are one penstock.Ragged.of(list)"
    )


def _converter(value: Any) -> Callable[[Any], Any]:
    for kinds, make in _BASES:
        if isinstance(value, kinds):
            return make
    if hasattr(value, "__array__"):
        return _from_any
    if value is None:
        raise ElementError(
            "an element cannot hold None (NoneType): give a value that means missing "
            "(0, -1, float('nan'), '', an array of length 0), leave the element out in a filter "
            "before, or leave the key out of all elements; a function without a return statement "
            "returns None"
        )
    raise ElementError(f"an element cannot hold {shown(value)}: {cures.of_value(value)}")


_OWN_ARRAYS = (np.ndarray, np.memmap)
_SCALARS = [
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64, np.complex64, np.complex128,
]  # fmt: skip
_PLAIN = {*_SCALARS, str, bytes}
_INTEGERS = {int, bool, *(each for each in _SCALARS if issubclass(each, (np.integer, np.bool_)))}
_NO_INT64 = 2.0**63
_NUMBERS = {int, float, bool, complex, *_SCALARS}
_CONVERT: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys([*_SCALARS, str, bytes], unchanged),
    int: _from_int,
    float: np.float64,
    bool: np.bool_,
    complex: np.complex128,
    np.ndarray: _from_array,
    list: _from_list,
    tuple: _from_tuple,
    dict: _from_dict,
}
_BASES: list[tuple[type | tuple[type, ...], Callable[[Any], Any]]] = [
    ((np.generic, np.ndarray), _from_any),
    (NestedDataset, unchanged),
    (list, _from_list),
    (tuple, _from_tuple),
    (dict, _from_dict),
    (int, _from_int),
    (float, np.float64),
    (str, str),
    ((bytes, bytearray, memoryview), bytes),
]
"""Converters for subclasses and kinds of the types above; the first match counts."""
