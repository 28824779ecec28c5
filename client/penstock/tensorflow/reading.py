"""`as_dataset`: a dataset as a `tf.data.Dataset` whose place ``tf.train.Checkpoint`` saves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops.iterator_ops import OwnedIterator

from penstock.analysis.array_spec import ArraySpec, Spec
from penstock.element import Element, parts_of, with_parts
from penstock.errors import ElementError
from penstock.loading.loader import FrameworkLoader, LoaderPass
from penstock.loading.placed import refuse_references
from penstock.ragged import Ragged


def as_dataset(dataset: Any, element_spec: Any = None) -> tf.data.Dataset:
    """Return a dataset as a `tf.data.Dataset`, for a loop, ``Model.fit`` or ``tf.distribute``.

    Elements have the dataset's structure. ``element_spec`` has its dtypes and shapes, None for an
    axis that may differ, as the rows of a last batch; text is ``tf.string``, in UTF-8; a `Ragged`
    is a `tf.RaggedTensor`.
    TensorFlow takes no element before it is asked for one, and does not shard the dataset.

    ``tf.train.Checkpoint`` can save the dataset and each iterator over it. It saves the position
    after the last element that TensorFlow took from the newest iterator. After a restore, the next
    pass, or the restored iterator, continues there. Elements that a later ``prefetch`` took count
    as read.

    Args:
        dataset: what to read. Its batches are the elements.
        element_spec: a nest of `tf.TensorSpec`, where no element can be made in this process to
            find it out, as `Dataset.element_spec` does.

    Raises:
        DatasetError: when *dataset* is no `Dataset`, or is empty and *element_spec* not given.
        ElementError: when elements hold what TensorFlow has not.

    >>> from penstock.tensorflow import as_dataset
    >>> batches = as_dataset(Dataset.range(3).map(lambda x: {"x": x, "y": "a"}).batch(2))
    >>> print(batches.element_spec["y"])
    TensorSpec(shape=(None,), dtype=tf.string, name=None)
    >>> [batch["x"].numpy().tolist() for batch in batches]
    [[0, 1], [2]]
    """
    loader = _Values(dataset, prefetch=0)
    spec = signature(dataset.element_spec if element_spec is None else element_spec)
    return PlacedDataset(loader, spec)


class _Values(FrameworkLoader):
    framework: ClassVar[str] = "penstock.tensorflow.as_dataset"

    def _place(self, element: Element) -> Any:
        return values(element)

    def _leave(self, before: LoaderPass) -> None:
        """Leave the pass open: several iterators over one `tf.data.Dataset` may be in use."""


class _Saved:
    """Saves the loader's state with a checkpoint, as JSON in one string."""

    _loader: FrameworkLoader

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {"place": tf.constant(json.dumps(self._loader.state_dict()))}

    def _restore_from_tensors(self, restored: dict[str, tf.Tensor]) -> None:
        self._loader.load_state_dict(json.loads(restored["place"].numpy()))


class PlacedDataset(_Saved, tf.data.Dataset):  # type: ignore[misc]
    """The result of `as_dataset`: the dataset of a generator, with a position."""

    def __init__(self, loader: FrameworkLoader, spec: Any) -> None:
        self._loader = loader
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        options.experimental_optimization.inject_prefetch = False
        made = tf.data.Dataset.from_generator(self._elements, output_signature=spec)
        self._made = made.with_options(options)
        super().__init__(self._made._variant_tensor)  # noqa: SLF001

    def _elements(self) -> Iterator[Any]:
        return iter(self._loader)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._made]

    @property
    def element_spec(self) -> Any:
        """The dtype and shape of each part of an element."""
        return self._made.element_spec

    def cardinality(self) -> tf.Tensor:
        """Return how many elements a whole pass has: an int64 scalar, or TensorFlow's -1 and -2."""
        return tf.constant(self._loader.cardinality, tf.int64)

    def __iter__(self) -> Any:
        if not tf.executing_eagerly():
            return super().__iter__()
        return PlacedIterator(self, self._loader)


class PlacedIterator(_Saved, OwnedIterator):  # type: ignore[misc]
    """An iterator over a `PlacedDataset`, with its place."""

    def __init__(self, dataset: PlacedDataset, loader: FrameworkLoader) -> None:
        self._placed, self._loader = dataset, loader
        super().__init__(dataset)

    def _restore_from_tensors(self, restored: dict[str, tf.Tensor]) -> None:
        super()._restore_from_tensors(restored)
        self._create_iterator(self._placed)


def signature(spec: Spec) -> Any:
    """Return *spec* with a `tf.TensorSpec` in the place of each `ArraySpec`.

    Raises:
        ElementError: when TensorFlow has not what a leaf is.
    """
    refuse_references(spec)
    return _placed(_tensor_spec, _ragged_spec, spec)


def values(element: Element) -> Any:
    """Return *element* as TensorFlow takes it: `str` as UTF-8, NumPy's arrays as they are.

    A `Ragged` becomes a `tf.RaggedTensor`.
    """
    return _placed(_value, _ragged_tensor, element)


def _placed(leaf: Callable[[Any], Any], ragged: Callable[[Any, Any], Any], element: Any) -> Any:
    """Return *element* with what *leaf* and *ragged* make in the place of each leaf and `Ragged`.

    *ragged* gets values and offsets as *leaf* made them, or values that are ragged themselves.
    """
    parts = parts_of(element)
    if parts is None:
        return leaf(element)
    made = [_placed(leaf, ragged, part) for part in parts]
    return ragged(*made) if isinstance(element, Ragged) else with_parts(element, made)


def _ragged_spec(values: Any, offsets: tf.TensorSpec) -> tf.RaggedTensorSpec:
    ends = offsets.shape[0]
    rank = values.ragged_rank if isinstance(values, tf.RaggedTensorSpec) else 0
    shape = (None if ends is None else ends - 1, None, *values.shape[1:])
    return tf.RaggedTensorSpec(shape, values.dtype, rank + 1, offsets.dtype)


def _ragged_tensor(values: Any, offsets: Any) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_splits(values, offsets, validate=False)


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
