"""Sources that are datasets of other libraries."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from typing import Any, Self

from penstock import files as file_names
from penstock.errors import DatasetError
from penstock.graph.traversal import DatasetBase
from penstock.ops.flat_map import FlatMap
from penstock.ops.internal.arrow_rows import ArrowRows, check_map_style
from penstock.ops.internal.lance_rows import lance_rows
from penstock.ops.internal.shard_stream import ShardStream
from penstock.ops.internal.tf_items import TfItems, TfWhole, size_of
from penstock.ops.internal.torch_items import torch_items
from penstock.ops.range import Range
from penstock.ops.sequence import Sequence
from penstock.options import check_count


class FrameworkSources(DatasetBase):
    """Class methods that return a new dataset of another library's dataset."""

    __slots__ = ()

    @classmethod
    def from_torch(cls, map_style_dataset: Any) -> Self:
        """Return a dataset of the samples of a map-style dataset of PyTorch.

        Workers split it by index, and a saved state is an index. Tensors become arrays. If the
        dataset can fetch several samples at once (``__getitems__``), Penstock uses that. The
        dataset travels to workers with the module that defines it. They need the modules that it
        imports, such as PyTorch.

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

        Workers split the rows of a `datasets.Dataset` by index. Columns of numbers, and of lists of
        numbers, are views of Arrow's memory. For a dataset on disk, that is the mapped file, and
        only the names of its files travel to workers. A dataset in memory travels with all its
        rows. Your format (``set_format``, ``set_transform``) applies, row by row.

        Workers split a `datasets.IterableDataset` by its shards. To restore a state within a shard,
        they read the shard again up to its position. A stream that counts or mixes examples
        (`take`, `skip`, `batch`, `with_indices`, `interleave_datasets`, `split_dataset_by_node`) is
        not split: one worker at a time reads it. Each pass reads the epoch of its ``set_epoch``,
        unless `distribute` has a *job_name*. Values have the types that the features declare.

        Args:
            dataset: the result of ``datasets.load_dataset(..., split="train")``, with or without
                ``streaming=True``.

        Raises:
            DatasetError: when it is something else, such as a dict of splits.
            TransformError: in the place of a row that cannot be made, such as one with None in it.

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
    def lance(
        cls,
        uri: str | os.PathLike[str],
        version: int | str | None = None,
        columns: SequenceOf[str] | None = None,
        *,
        nulls: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a dataset of the rows of a Lance dataset, each a dict by column.

        The version is decided now, so rows that are added later are not read. Workers divide the
        rows by number, and `global_shuffle` needs no buffer. A `batch` right after it gathers rows
        without making Python objects of them.

        Args:
            uri: the folder or the URL of the dataset. Lance finds the credentials in the
                environment.
            version: a version number or the name of a tag; by default the newest version.
            columns: the columns to read; by default all.
            nulls: what to put in the place of missing values, by column.

        Raises:
            DatasetError: when an argument is malformed, for a version or a column that does not
                exist, and for a column of blobs.
            MissingExtra: when pylance is not installed: ``pip install "penstock[lance]"``.
            MissingFile: when there is no dataset.
            FileChanged: during reading, when another dataset has replaced this one.
            TransformError: in the place of a row with a missing value.

        >>> import lance, pyarrow as pa
        >>> _ = lance.write_dataset(pa.table({"x": [1, 2, 3], "y": [4, 5, 6]}), "a.lance")
        >>> list(Dataset.lance("a.lance", columns=["x"]).batch(2))
        [{'x': array([1, 2])}, {'x': array([3])}]
        """
        (name,) = file_names.names("lance", "uri", uri)
        rows = lance_rows(name, version, columns, {} if nulls is None else nulls)
        return cls(Sequence(rows, len(rows)))

    @classmethod
    def from_tf(cls, fn: Callable[[], Any], size: int | None = None) -> Self:
        """Return a dataset of the elements of a `tf.data.Dataset`, as NumPy arrays.

        With `distribute`, it is built and runs on workers. If its cardinality is finite and known,
        they split it by index, and continue from a state by ``skip``. Each run must give the same
        elements in the same order, so shuffle in Penstock and not in TensorFlow. Text comes as
        `bytes`.

        Args:
            fn: a function without arguments that builds the pipeline.
            size: the number of elements. None calls *fn* once in this process, now, and asks the
                `tf.data.Dataset`. `UNKNOWN` (-2) asks nothing: one worker at a time makes all
                elements.

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
