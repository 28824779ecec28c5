"""Tracks the delivered elements that are unacked, and how many the loop consumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import TaskId
from penstock.reader.core.deliveries import Deliveries, Delivery, Numbers
from penstock.reader.core.flow_control import ACK_EVERY
from penstock.reader.core.task_stream import LONG_AGO, FrameSlice, TaskStream

FEW = 16
"""Ranges whose acks are cheap to collect whenever that may help; a shuffle makes many more."""

COLLECT_AT_MOST = 0.5
"""Seconds between two collections over many ranges while nothing is acked."""

COLLECT_COST = 1e-4
"""Seconds for each unacked range before acks are collected again: a shuffle has thousands."""

STARVED_COST = 2e-5
"""The same while the loop waits: the end of a pass may wait for its acks."""


class AckLedger(Protocol):
    """Keeps account of the delivered numbers of a task, or of rounds."""

    def ack(self, numbers: RangeSet, /) -> None:
        """Record that the loop had *numbers*."""

    def requeue(self, numbers: RangeSet, /) -> None:
        """Record that *numbers* were dropped: the loop never has them."""

    def clear(self) -> None:
        """Drop the elements that were not delivered."""


class AckCollector:
    """Which elements are unacked, and how many the loop consumed; *ledgers* keep account."""

    def __init__(self, ledgers: Mapping[TaskId, AckLedger]) -> None:
        self.deliveries = Deliveries()
        self.consumed = 0
        self._ledgers = ledgers
        self._collect_at, self._collect_every = LONG_AGO, ACK_EVERY
        self._starved_at = LONG_AGO
        """When acks are collected if the loop waits by then."""

    @property
    def tracked(self) -> bool:
        """Whether marks track unacked elements; if not, delivery acks an element."""
        return self.deliveries.tracker is not None

    def collect_acks(self, now: float, *, at_once: bool = False, starved: bool = False) -> None:
        """Ack what the loop consumed: *at_once*, or when due: sooner if it is *starved*."""
        runs = len(self.deliveries)
        if starved:
            self._collect_at = min(self._collect_at, self._starved_at)
        if runs and (at_once or now >= self._collect_at or (starved and runs <= FEW)):
            acked = self.deliveries.collect_acks()
            self._ack(acked)
            slower = min(2 * self._collect_every, COLLECT_AT_MOST)
            runs = len(self.deliveries)
            self._collect_every = ACK_EVERY if acked or runs <= FEW else slower
            self._collect_at = now + max(self._collect_every, COLLECT_COST * runs)
            self._starved_at = now + max(self._collect_every, STARVED_COST * runs)

    def halt(self, now: float) -> None:
        """Stop the loop between two elements, and ack the elements that it consumed."""
        self._ack(self.deliveries.halt())
        self._collect_at = now + ACK_EVERY

    def drop_all(self) -> None:
        """Drop everything: it was requeued for other readers."""
        acked, revoked = self.deliveries.revoke(lambda delivery: delivery)
        self._ack(acked)
        self._requeue(revoked)
        for ledger in self._ledgers.values():
            ledger.clear()

    def collect_soon(self, now: float) -> None:
        """Collect acks soon, because elements were delivered; later if collecting costs more."""
        self._collect_every = ACK_EVERY
        soon = now + max(ACK_EVERY, COLLECT_COST * len(self.deliveries))
        self._collect_at = min(self._collect_at, soon)

    def due(self, now: float) -> float:
        """Return when `collect_acks` may find something."""
        return min(now + 1.0, self._collect_at) if self.deliveries else now + 1.0

    def deliver(self, stream: TaskStream, piece: FrameSlice) -> None:
        """Record that *piece* of *stream* was delivered."""
        stream.deliver(piece)
        self.delivered(stream.task, piece.start, piece.stop)

    def delivered(self, ledger: TaskId, start: int, stop: int) -> None:
        """Give the next delivery tags to the numbers *start* to *stop* of a ledger."""
        if self.tracked:
            self.deliveries.add(ledger, start, stop)
        else:
            self._ack({ledger: RangeSet(((start, stop),))})

    def revoke(self, stream: TaskStream, below: int | None = None) -> None:
        """Revoke the unacked elements of *stream*, or only those *below* a number."""

        def wanted(delivery: Delivery) -> Delivery | None:
            if delivery.task != stream.task:
                return None
            return delivery if below is None else delivery.below(below)

        acked, revoked = self.deliveries.revoke(wanted)
        self._ack(acked)
        self._requeue(revoked)

    def requeue(self, tags: RangeSet) -> list[TaskId]:
        """Requeue the elements with *tags*; return their tasks."""
        requeued = self.deliveries.requeue(tags)
        self._requeue(requeued)
        return list(requeued)

    def drop_below(self, stream: TaskStream, floor: int) -> None:
        """Drop all elements of *stream* below *floor*, delivered or not."""
        stream.drop_below(floor)
        if stream.lowest < floor:
            self.revoke(stream, floor)

    def _ack(self, numbers: Numbers) -> None:
        for task, runs in numbers.items():
            self.consumed += len(runs)
            self._ledgers[task].ack(runs)

    def _requeue(self, numbers: Numbers) -> None:
        for task, runs in numbers.items():
            self._ledgers[task].requeue(runs)
