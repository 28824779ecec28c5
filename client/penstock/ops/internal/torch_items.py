"""The samples of a map-style dataset of PyTorch. Nothing here imports torch: datasets bring it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.normalise import normalise_block
from penstock.ops.sequence import ItemReader, Items


class TorchItems(Items):
    """The samples of *dataset*."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    @property
    def label(self) -> str:
        """See `Items.label`."""
        return f"from_torch({type(self._dataset).__name__})"

    @property
    def given(self) -> Any:
        """See `Items.given`."""
        return self._dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, number: int) -> Any:
        return self._dataset[number]

    def open(self) -> ItemReader:
        """See `Items.open`."""
        return _TorchReader(self._dataset)


class _TorchReader(ItemReader):
    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self._several = getattr(dataset, "__getitems__", None)

    def block(self, numbers: Sequence[int]) -> Block:
        """See `ItemReader.block`. A dataset that fetches several samples at once does."""
        if self._several is None:
            samples = [self._dataset[number] for number in numbers]
        else:
            samples = list(self._several(list(numbers)))
        return normalise_block(samples)


def torch_items(dataset: Any) -> TorchItems:
    """Return the samples of a map-style dataset.

    Raises:
        DatasetError: when it is another thing, with what to use.
    """
    kind = type(dataset)
    if any(base.__name__ == "DataLoader" for base in kind.__mro__):
        raise DatasetError(
            "from_torch: give the dataset, not the DataLoader around it: batch, shuffle and "
            "parallel calls are operators of a pipeline"
        )
    if not hasattr(kind, "__len__") or not hasattr(kind, "__getitem__"):
        raise DatasetError(
            f"from_torch: {kind.__name__} must be map-style, with __len__ and __getitem__; use "
            "from_generator for an IterableDataset, with a function that makes it"
        )
    return TorchItems(dataset)
