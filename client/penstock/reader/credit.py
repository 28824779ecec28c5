"""How much a reader lets workers send: so many bytes, or so many frames."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.numbers import TaskId
from penstock.reader.share import Share

MIN_WINDOW = 1 << 20
"""Credit in bytes that each task has at least: about a frame."""

REQUEST_PATIENCE = 1.0
"""Seconds after which a request that a task did not answer is not counted, while the loop has
nothing: so a stuck worker does not keep the others from being read."""


class Limit(Protocol):
    """A bound on what is buffered and on its way."""

    def opening(self, share: Share, shares: Mapping[TaskId, Share], now: float) -> int:
        """Return the credit that a new stream begins with, and set the share's window."""
        ...

    def credit(self, share: Share, shares: Mapping[TaskId, Share], now: float) -> int:
        """Return the credit that may be given now."""
        ...

    def urgent(self, share: Share, credit: int) -> bool:
        """Say whether *credit* shall not wait for more to go with it."""
        ...


class ByteLimit:
    """So many bytes in all, divided among the tasks; a frame for each at least."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def opening(self, share: Share, shares: Mapping[TaskId, Share], now: float) -> int:  # noqa: ARG002
        """See `Limit.opening`."""
        readable = sum(other.readable for other in shares.values())
        share.window = max(self.nbytes // max(1, readable), MIN_WINDOW)
        return max(0, share.window - share.nbytes)

    def credit(self, share: Share, shares: Mapping[TaskId, Share], now: float) -> int:  # noqa: ARG002
        """See `Limit.credit`."""
        return max(0, share.window - share.nbytes - share.balance)

    def urgent(self, share: Share, credit: int) -> bool:
        """See `Limit.urgent`."""
        return 2 * credit >= share.window


class FrameLimit:
    """So many frames in all. A balance of one byte asks a worker for one frame."""

    def __init__(self, frames: int) -> None:
        self.frames = frames

    def opening(self, share: Share, shares: Mapping[TaskId, Share], now: float) -> int:
        """See `Limit.opening`."""
        share.balance = 0
        return int(self._free(shares, now) > 0)

    def credit(self, share: Share, shares: Mapping[TaskId, Share], now: float) -> int:
        """See `Limit.credit`."""
        if share.balance > 0 or self._free(shares, now) <= 0:
            return 0
        waiting = (s for s in shares.values() if s.streaming and s.balance <= 0)
        next_in_turn = min(waiting, key=lambda s: s.given_at)
        return 1 - share.balance if share.given_at <= next_in_turn.given_at else 0

    def urgent(self, share: Share, credit: int) -> bool:  # noqa: ARG002
        """See `Limit.urgent`."""
        return credit > 0

    def _free(self, shares: Mapping[TaskId, Share], now: float) -> int:
        idle = not any(share.pieces for share in shares.values())
        free = self.frames
        for share in shares.values():
            free -= len(share.pieces)
            stuck = idle and now >= share.given_at + REQUEST_PATIENCE
            if share.streaming and share.balance > 0 and not stuck:
                free -= 1
        return free
