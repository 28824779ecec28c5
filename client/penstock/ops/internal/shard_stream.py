"""The shards of a Hugging Face dataset that can only be iterated over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.graph.traversal import DatasetBase
from penstock.ops.generator import Generator
from penstock.ops.internal.arrow_rows import plain, typed

_PER_EXAMPLE = frozenset(
    {
        "ArrowExamplesIterable",
        "BufferShuffledExamplesIterable",
        "ExamplesIterable",
        "FilteredExamplesIterable",
        "FormattedExamplesIterable",
        "InterleavedShardsExamplesIterable",
        "MappedExamplesIterable",
        "RebatchedArrowExamplesIterable",
        "SelectColumnsIterable",
        "ShuffledDataSourcesArrowExamplesIterable",
        "ShuffledDataSourcesExamplesIterable",
        "TypedExamplesIterable",
    }
)
"""The steps of the library that treat each example by itself, whichever shard it is in."""


class ShardStream:
    """The function that gives a shard for its number, for `flat_map`."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        shards: Any = getattr(dataset, "num_shards", 1)
        self.shards = max(1, int(shards)) if _divides(dataset) else 1

    @property
    def epoch(self) -> int:
        """The epoch that the dataset was set to, which its `shuffle` goes by."""
        return int(getattr(self._dataset, "epoch", 0))

    def __call__(self, number: Any) -> DatasetBase:
        """Return the elements of shard *number*."""
        return DatasetBase.concrete(Generator(self._elements, (int(number),)))

    def _elements(self, number: int) -> Iterator[Any]:
        shard = self._dataset
        if self.shards > 1:
            shard = shard.shard(num_shards=self.shards, index=number)
            if self.epoch:  # a shard begins at epoch 0 again
                shard.set_epoch(self.epoch)
        features = shard.features
        if features is None or getattr(shard, "_formatting", None) is not None:
            return map(plain, shard)
        return (typed(row, features, plain) for row in shard)


def _divides(dataset: Any) -> bool:
    """Return whether the shards of *dataset* together have the examples of the whole.

    They do not if a step counts examples, mixes sources or leaves a part to another node.
    """
    if getattr(dataset, "_distributed", None) is not None:
        return False
    step = getattr(dataset, "_ex_iterable", None)
    while step is not None:
        if type(step).__name__ not in _PER_EXAMPLE or _counts(step):
            return False
        step = getattr(step, "ex_iterable", None)
    return True


def _counts(step: Any) -> bool:
    """Return whether *step* numbers or groups the examples that it sees."""
    if getattr(step, "with_indices", False) or getattr(step, "drop_last_batch", False):
        return True
    home = getattr(getattr(step, "function", None), "__module__", None) or ""
    return bool(getattr(step, "batched", False)) and home.startswith("datasets.")
