"""A reader's streams, one a task: when they are opened, and when acks and credit are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.protocol.data import Ack, StreamEnd, Subscribe
from penstock.protocol.ranges import NO_RANGES
from penstock.protocol.types import ReaderId, TaskId
from penstock.reader.core.effects import CloseTaskStream, OpenTaskStream, ReaderEffect, SendAck
from penstock.reader.core.reachability import Reachability
from penstock.reader.core.task_stream import LONG_AGO, TaskStream

MIN_WINDOW = 1 << 20
"""Credit in bytes that each task has at least: about a frame."""

REQUEST_PATIENCE = 1.0
"""Seconds after which a request that a task did not answer is not counted, while the loop has
nothing: so a stuck worker does not keep the others from being read."""


class Limit(Protocol):
    """A bound on what is buffered and on its way."""

    def opening(self, share: TaskStream, shares: Mapping[TaskId, TaskStream], now: float) -> int:
        """Return the credit that a new stream begins with, and set the share's window."""
        ...

    def credit(self, share: TaskStream, shares: Mapping[TaskId, TaskStream], now: float) -> int:
        """Return the credit that may be given now."""
        ...

    def urgent(self, share: TaskStream, credit: int) -> bool:
        """Say whether *credit* shall not wait for more to go with it."""
        ...


class ByteLimit:
    """So many bytes in all, divided among the tasks; a frame for each at least."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def opening(self, share: TaskStream, shares: Mapping[TaskId, TaskStream], now: float) -> int:  # noqa: ARG002
        """See `Limit.opening`."""
        readable = sum(other.readable for other in shares.values())
        share.window = max(self.nbytes // max(1, readable), MIN_WINDOW)
        return max(0, share.window - share.nbytes)

    def credit(self, share: TaskStream, shares: Mapping[TaskId, TaskStream], now: float) -> int:  # noqa: ARG002
        """See `Limit.credit`."""
        return max(0, share.window - share.nbytes - share.balance)

    def urgent(self, share: TaskStream, credit: int) -> bool:
        """See `Limit.urgent`."""
        return 2 * credit >= share.window


class FrameLimit:
    """So many frames in all. A balance of one byte asks a worker for one frame."""

    def __init__(self, frames: int) -> None:
        self.frames = frames

    def opening(self, share: TaskStream, shares: Mapping[TaskId, TaskStream], now: float) -> int:
        """See `Limit.opening`."""
        share.balance = 0
        return int(self._free(shares, now) > 0)

    def credit(self, share: TaskStream, shares: Mapping[TaskId, TaskStream], now: float) -> int:
        """See `Limit.credit`."""
        if share.balance > 0 or self._free(shares, now) <= 0:
            return 0
        waiting = (s for s in shares.values() if s.streaming and s.balance <= 0)
        next_in_turn = min(waiting, key=lambda s: s.given_at)
        return 1 - share.balance if share.given_at <= next_in_turn.given_at else 0

    def urgent(self, share: TaskStream, credit: int) -> bool:  # noqa: ARG002
        """See `Limit.urgent`."""
        return credit > 0

    def _free(self, shares: Mapping[TaskId, TaskStream], now: float) -> int:
        idle = not any(share.pieces for share in shares.values())
        free = self.frames
        for share in shares.values():
            free -= len(share.pieces)
            stuck = idle and now >= share.given_at + REQUEST_PATIENCE
            if share.streaming and share.balance > 0 and not stuck:
                free -= 1
        return free


ACK_EVERY = 0.05
"""Several acknowledgements travel as one; what is not yet said at a crash is doubt."""

ACK_WAITING, QUIET = 0.005, 0.001
"""The same while the loop waits, has nothing, and for so long nothing came: others may wait for
just this."""

HINT_EVERY = 0.5
"""Seconds between two hints that the loop waits while its operators hold what came."""


class FlowControl:
    """The streams of *shares*; what is to be done about them goes into *orders*."""

    def __init__(
        self, shares: dict[TaskId, TaskStream], limit: Limit, orders: list[ReaderEffect]
    ) -> None:
        self.limit, self.reach = limit, Reachability(shares, orders)
        self._shares, self._orders = shares, orders

    def open(self, share: TaskStream, reader: ReaderId, now: float) -> None:
        """Open a new stream: it says all that this reader has of the task.

        A worker that does not answer gets no credit: that is for the others meanwhile.
        """
        if share.worker is None:
            return
        credit = self.limit.opening(share, self._shares, now)
        share.opened(0 if self.reach.misses(share) else credit, now)
        self.reach.tried(share, now)
        opening = Subscribe(
            reader,
            share.task,
            share.attempt,
            share.opening,
            share.taken,
            share.buffered,
            share.balance,
        )
        self._orders.append(OpenTaskStream(share.task, share.worker, opening))

    def answered(self, task: TaskId, opening: int, now: float) -> None:
        """Know that the worker is there, though it may have nothing to send yet."""
        share = self._shares.get(task)
        if share is not None and share.opening == opening and share.streaming:
            self.reach.answered(share, now)

    def ended(self, opening: int, end: StreamEnd, now: float) -> None:
        """Know that nothing more comes of this attempt."""
        share = self._shares.get(end.task)
        if share is not None and share.opening == opening and share.attempt == end.attempt:
            share.end(end.failure, now)

    def broken(self, task: TaskId, opening: int, why: str, now: float) -> None:
        """Know that a stream is gone: it is opened anew after a while."""
        share = self._shares.get(task)
        if share is not None and share.opening == opening and share.streaming:
            share.broken(now)
            self.reach.tried(share, now, why)

    def close(self, share: TaskStream) -> None:
        """Want nothing more of the stream, or of the worker."""
        if share.streaming:
            share.streaming = share.answered = False
            self._orders.append(CloseTaskStream(share.task))
        share.worker = None

    def say(self, now: float, *, starved: bool) -> None:
        """Acknowledge and give credit, where it is time to; hint where the loop is *starved*."""
        hint = starved and self._lent
        for share in self._shares.values():
            if not share.streaming or self.reach.misses(share):
                continue
            credit = self.limit.credit(share, self._shares, now)
            if share.unsaid or credit:
                at = _say_at(share, starved)
                if now >= at or self.limit.urgent(share, credit):
                    self._say(share, credit, now)
            if hint and now >= share.hinted_at + HINT_EVERY:
                share.hinted_at = now
                self._orders.append(SendAck(share.task, Ack(NO_RANGES, 0)))

    def say_last(self, now: float) -> None:
        """Acknowledge everything: nothing is said afterwards."""
        for share in self._shares.values():
            if share.streaming and share.unsaid:
                self._say(share, 0, now)

    def next(self, now: float, *, starved: bool) -> float:
        """Return when there is something to say or to open."""
        at = min(now + 1.0, self.reach.due())
        hint = starved and self._lent
        for share in self._shares.values():
            if not share.streaming:
                if share.readable:
                    at = min(at, share.retry_at)
                continue
            if self.reach.misses(share):
                continue
            if share.unsaid or self.limit.credit(share, self._shares, now):
                at = min(at, _say_at(share, starved))
            if hint:
                at = min(at, share.hinted_at + HINT_EVERY)
        return at

    @property
    def _lent(self) -> bool:
        """Whether operators hold something, if nothing is here."""
        return any(share.buffered for share in self._shares.values())

    def _say(self, share: TaskStream, credit: int, now: float) -> None:
        self._orders.append(SendAck(share.task, Ack(share.give(credit, now), credit)))


def _say_at(share: TaskStream, starved: bool) -> float:
    """Return when what is to be said of *share* should be said."""
    regular = share.said_at + ACK_EVERY
    if not starved:
        return regular
    soon = share.said_at + ACK_WAITING if share.acks else LONG_AGO
    return min(regular, max(soon, share.heard_at + QUIET))
