"""The shards of a Hugging Face dataset that can only be iterated over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.graph.dataset_base import DatasetBase
from penstock.ops.generator import Generator
from penstock.ops.internal.arrow_rows import plain


class ShardStream:
    """The function that gives a shard for its number, for `flat_map`."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        shards: Any = getattr(dataset, "num_shards", 1)
        self.shards = max(1, int(shards))

    def __call__(self, number: Any) -> DatasetBase:
        """Return the elements of shard *number*."""
        return DatasetBase.concrete(Generator(self._elements, (int(number),)))

    def _elements(self, number: int) -> Iterator[Any]:
        shard = self._dataset
        if self.shards > 1:
            shard = shard.shard(num_shards=self.shards, index=number)
        return map(plain, shard)
