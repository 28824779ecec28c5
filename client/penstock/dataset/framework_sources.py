"""Sources that are datasets of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from penstock.errors import DatasetError
from penstock.graph.dataset_base import DatasetBase
from penstock.ops.flat_map import FlatMap
from penstock.ops.internal.arrow_rows import ArrowRows, check_map_style
from penstock.ops.internal.shard_stream import ShardStream
from penstock.ops.internal.tf_items import TfItems, TfWhole, size_of
from penstock.ops.internal.torch_items import torch_items
from penstock.ops.range import Range
from penstock.ops.sequence import Sequence
from penstock.options import check_count


class FrameworkSources(DatasetBase):
    """Class methods that return a new dataset of what another library has as one."""

    __slots__ = ()

    @classmethod
    def from_torch(cls, map_style_dataset: Any) -> Self:
        """Return a dataset of the samples of a map-style dataset of PyTorch.

        Workers split it by index, and a saved state is an index. Tensors become arrays; a dataset
        that fetches several samples at once (``__getitems__``) is asked for several. It travels to
        workers with the module that defines it; they need what it imports, as PyTorch itself.

        Args:
            map_style_dataset: a `torch.utils.data.Dataset`, or anything with ``len`` and items.

        Raises:
            DatasetError: when it has no length or no items, or is a ``DataLoader``.
            TransformError: in the place of a sample that cannot be made.

        >>> class Squares:
        ...     def __len__(self):
        ...         return 4
        ...     def __getitem__(self, i):
        ...         return {"x": i * i}
        >>> list(Dataset.from_torch(Squares()).batch(4))
        [{'x': array([0, 1, 4, 9])}]
        """
        items = torch_items(map_style_dataset)
        return cls(Sequence(items, len(items)))

    @classmethod
    def from_huggingface(cls, dataset: Any) -> Self:
        """Return a dataset of the rows of one of Hugging Face's: dicts of its columns.

        Of a `datasets.Dataset` workers split the rows by index. Columns of numbers, and of lists of
        numbers, are views of Arrow's memory, which is the mapped file where the dataset is on disk;
        such a dataset travels as the names of its files, and one in memory with all its rows. A
        format of yours (``set_format``, ``set_transform``) holds, row by row. A
        `datasets.IterableDataset` is split by its shards, and a state within one is found by
        reading that shard again up to there. A stream that counts or mixes examples (`take`,
        `skip`, `batch`, `with_indices`, `interleave_datasets`, `split_dataset_by_node`) is not
        split: one worker at a time reads it. Each pass reads the epoch of its ``set_epoch``, unless
        `distribute` has a *job_name*. Values have the types that the features declare.

        Args:
            dataset: what ``datasets.load_dataset(..., split="train")`` returns, with or without
                ``streaming=True``.

        Raises:
            DatasetError: when it is something else, as a dict of splits.
            TransformError: in the place of a row that cannot be made, as one with None in it.

        It needs ``pip install "penstock[huggingface]"``, also on workers.

        >>> import datasets
        >>> rows = datasets.Dataset.from_dict({"x": [1, 2, 3], "pair": [[1, 2], [3, 4], [5, 6]]})
        >>> next(iter(Dataset.from_huggingface(rows).batch(2)))
        {'x': array([1, 2]), 'pair': array([[1, 2],
               [3, 4]])}
        """
        check_map_style(dataset)
        if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
            rows = ArrowRows(dataset)
            return cls(Sequence(rows, len(rows)))
        stream = ShardStream(dataset)
        return cls(FlatMap(Range(0, stream.shards, 1), stream))

    @classmethod
    def from_tf(cls, fn: Callable[[], Any], size: int | None = None) -> Self:
        """Return a dataset of the elements of a `tf.data.Dataset`, as NumPy's arrays.

        It is built and runs where elements are made: on workers, behind `distribute`. Where its
        cardinality is finite and known they split it by index, and go on from a state by
        ``skip``; each run must give the same elements in the same order, so shuffle here and not
        there. Text comes as `bytes`.

        Args:
            fn: builds the pipeline; called without arguments.
            size: how many elements there are. None: *fn* is called once here, and now, and the
                `tf.data.Dataset` is asked. `UNKNOWN` (-2) asks nothing: one worker at a time
                makes all elements.

        Raises:
            DatasetError: when *fn* is not callable, or returns something else.
            MissingExtra: when *size* is None and TensorFlow is not installed here.

        It needs ``pip install "penstock[tensorflow]"``, also on workers.

        >>> def build():
        ...     import tensorflow as tf
        ...     return tf.data.Dataset.range(4).map(lambda x: x * x)
        >>> list(Dataset.from_tf(build).batch(4))
        [array([0, 1, 4, 9])]
        """
        if not callable(fn):
            raise DatasetError(
                f"from_tf: give a function that builds a tf.data.Dataset, not {fn!r:.80}: a "
                "pipeline of TensorFlow cannot travel, what builds it can"
            )
        found = size_of(fn) if size is None else check_count("from_tf", "size", size, least=-2)
        if found < 0:
            return cls(FlatMap(Range(0, 1, 1), TfWhole(fn)))  # one split
        return cls(Sequence(TfItems(fn, found), found))
