"""Sequences that make several items at once, for `penstock.ops.sequence`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from penstock.engine.rows import Block


class ItemReader(ABC):
    """Makes items for one run of a pipeline, in one thread at a time."""

    @abstractmethod
    def block(self, numbers: Sequence[int]) -> Block:
        """Return the items that have these *numbers*, at least one, as elements.

        If it raises, items are asked for one by one, and the error is that of one of them.
        """

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Release open resources. Idempotent."""


class Items(ABC):
    """Something with a length and items that is better read in blocks."""

    indexed: ClassVar[bool] = True
    """Whether one item costs as much as another, whatever was read before."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name in messages, such as ``from_torch(MyDataset)``."""

    @property
    def given(self) -> Any:
        """The user's object, which is searched for randomness."""
        return None

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, number: int) -> Any: ...

    @abstractmethod
    def open(self) -> ItemReader:
        """Return a reader for a run that begins."""
