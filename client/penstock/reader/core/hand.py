"""A block on its way to the training loop, when no operator is behind `distribute`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from penstock.reader.core.task_stream import FrameSlice, TaskStream


class Handed(Protocol):
    """A block that the training loop has before it."""

    def returned(self) -> int:
        """Return how many of its elements the loop has."""
        ...

    def withdraw(self) -> int:
        """Keep the loop from getting more of it; return how many it has, for good."""
        ...


@dataclass(slots=True, eq=False)
class Hand:
    """The numbers *start* to *stop* of a piece, on their way to the training loop."""

    share: TaskStream
    piece: FrameSlice
    start: int
    stop: int
    handed: Handed | None = None

    @classmethod
    def of(cls, share: TaskStream, limit: int | None) -> Hand:
        """Return the next numbers of *share*, at most *limit*."""
        piece = share.pieces[0]
        stop = piece.stop if limit is None else min(piece.stop, piece.start + limit)
        return cls(share, piece, piece.start, stop)


class NoElement(Enum):
    """Why there is nothing for the loop."""

    WAIT = "nothing is here now"
    REST = "nothing more comes before operators use up what they have"
    OVER = "the pass is over"
