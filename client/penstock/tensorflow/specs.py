"""Element specs, and elements, as TensorFlow has them: text as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from penstock.analysis.array_spec import ArraySpec, Spec
from penstock.element import Element, map_leaves
from penstock.errors import ElementError


def signature(spec: Spec) -> Any:
    """Return *spec* with a `tf.TensorSpec` in the place of each `ArraySpec`.

    Raises:
        ElementError: when TensorFlow has not what a leaf is.
    """
    return map_leaves(_tensor_spec, spec)


def values(element: Element) -> Any:
    """Return *element* as TensorFlow takes it: `str` as UTF-8, NumPy's arrays as they are."""
    return map_leaves(_value, element)


def _tensor_spec(leaf: Any) -> tf.TensorSpec:
    if isinstance(leaf, tf.TypeSpec):  # given by the caller
        return leaf
    if not isinstance(leaf, ArraySpec):
        raise ElementError(
            "as_dataset: a dataset inside an element has no place in a tf.data.Dataset: flatten it "
            "first, as in window(size).flat_map(lambda w: w.batch(size))"
        )
    if isinstance(leaf.dtype, type):
        return tf.TensorSpec(leaf.shape, tf.string)
    try:
        dtype = tf.as_dtype(
            leaf.dtype.newbyteorder("=") if leaf.dtype.byteorder == ">" else leaf.dtype
        )
    except TypeError as exc:
        raise ElementError(
            f"TensorFlow has no arrays of {leaf.dtype}: use array.astype(...) in a map before, "
            "times as np.int64, the fields of a structured array as a dict of arrays"
        ) from exc
    return tf.TensorSpec(leaf.shape, dtype)


def _value(leaf: Any) -> Any:
    if isinstance(leaf, str):
        return leaf.encode("utf-8", "surrogatepass")
    if isinstance(leaf, np.ndarray) and leaf.dtype.hasobject and leaf.size:
        texts = [_value(text) for text in leaf.flat]
        array = np.empty(len(texts), object)
        array[:] = texts
        return array.reshape(leaf.shape)
    if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
        return leaf.astype(leaf.dtype.newbyteorder("="))
    return leaf
