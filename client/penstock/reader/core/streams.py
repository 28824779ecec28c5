"""A reader's streams, one a share: when they are opened, and what is said on them."""

from __future__ import annotations

from penstock.messages import Ack, Open, StreamEnd
from penstock.numbers import NO_RUNS, ReaderId, TaskId
from penstock.reader.core.reach import Reach
from penstock.reader.credit import Limit
from penstock.reader.orders import CloseStream, OpenStream, Order, SendAck
from penstock.reader.share import LONG_AGO, Share

ACK_EVERY = 0.05
"""Several acknowledgements travel as one; what is not yet said at a crash is doubt."""

ACK_WAITING, QUIET = 0.005, 0.001
"""The same while the loop waits, has nothing, and for so long nothing came: others may wait for
just this."""

HINT_EVERY = 0.5
"""Seconds between two hints that the loop waits while its operators hold what came."""


class Streams:
    """The streams of *shares*; what is to be done about them goes into *orders*."""

    def __init__(self, shares: dict[TaskId, Share], limit: Limit, orders: list[Order]) -> None:
        self.limit, self.reach = limit, Reach(shares, orders)
        self._shares, self._orders = shares, orders

    def open(self, share: Share, reader: ReaderId, now: float) -> None:
        """Open a new stream: it says all that this reader has of the task.

        A worker that does not answer gets no credit: that is for the others meanwhile.
        """
        if share.worker is None:
            return
        credit = self.limit.opening(share, self._shares, now)
        share.opened(0 if self.reach.misses(share) else credit, now)
        self.reach.tried(share, now)
        opening = Open(
            reader,
            share.task,
            share.attempt,
            share.opening,
            share.taken,
            share.buffered,
            share.balance,
        )
        self._orders.append(OpenStream(share.task, share.worker, opening))

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

    def close(self, share: Share) -> None:
        """Want nothing more of the stream, or of the worker."""
        if share.streaming:
            share.streaming = share.answered = False
            self._orders.append(CloseStream(share.task))
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
                self._orders.append(SendAck(share.task, Ack(NO_RUNS, 0)))

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

    def _say(self, share: Share, credit: int, now: float) -> None:
        self._orders.append(SendAck(share.task, Ack(share.give(credit, now), credit)))


def _say_at(share: Share, starved: bool) -> float:
    """Return when what is to be said of *share* should be said."""
    regular = share.said_at + ACK_EVERY
    if not starved:
        return regular
    soon = share.said_at + ACK_WAITING if share.acks else LONG_AGO
    return min(regular, max(soon, share.heard_at + QUIET))
