"""Elements inside states: nests of arrays, numbers and text as plain JSON."""

from __future__ import annotations

import base64
import io
from tokenize import TokenError
from typing import Any

import numpy as np

from penstock.element import Element, leaves, rebuild
from penstock.engine.iterator import State
from penstock.normalise import normalise_scalar


def to_state(element: Element) -> State:
    """Return the leaves of *element* as JSON; its structure is known where it is read."""
    return [_packed(leaf) for leaf in leaves(element)]


def from_state(state: State, like: Element) -> Element:
    """Return the element that *state* was made of; *like* has its structure."""
    return rebuild(like, [_unpacked(part) for part in state])


def _packed(leaf: Any) -> State:
    if isinstance(leaf, str):
        return {"str": leaf}
    if isinstance(leaf, bytes):
        return {"bytes": _text(leaf)}
    array = np.asarray(leaf)
    if array.dtype.hasobject:
        return {"texts": [_packed(text) for text in array.flat], "shape": array.shape}
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return {"array": _text(file.getvalue())}


def _unpacked(state: State) -> Any:
    match state:
        case {"str": text}:
            return text
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"texts": texts, "shape": shape}:
            array = np.empty(len(texts), object)
            array[:] = [_unpacked(text) for text in texts]
            return array.reshape(shape)
        case {"array": text}:
            array = _loaded(base64.b64decode(text))
            return array if array.ndim else normalise_scalar(array[()])
    raise ValueError(f"no element: {str(state)[:80]}")


def _loaded(data: bytes) -> np.ndarray[Any, Any]:
    try:
        loaded: np.ndarray[Any, Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except TokenError as exc:  # NumPy reads a damaged header as Python 2 wrote it
        raise ValueError(f"no array: {exc}") from exc
    return loaded


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
