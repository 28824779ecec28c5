"""A reader's streams, one a task: when they are opened, and when acks and credit are sent."""

from __future__ import annotations

from operator import attrgetter

from penstock.protocol.control import TaskView
from penstock.protocol.data import Ack, StreamEnd, Subscribe
from penstock.protocol.nearness import UNKNOWN_WORKER
from penstock.protocol.ranges import NO_RANGES
from penstock.protocol.rounds import GroupsWanted
from penstock.protocol.types import ReaderId, TaskId
from penstock.reader.core.effects import (
    CloseTaskStream,
    OpenTaskStream,
    ReaderEffect,
    SendAck,
    SendHeartbeat,
)
from penstock.reader.core.limits import Limit
from penstock.reader.core.reachability import Reachability, Vicinity
from penstock.reader.core.task_stream import LONG_AGO, TaskStream

ACK_EVERY = 0.05
"""Seconds between acks on a stream; a crash leaves unsent acks unknown to others."""

ACK_WAITING, QUIET = 0.005, 0.001
"""The same while the loop waits, has nothing, and for so long nothing came: others may wait for
just this."""

ACK_WAITING_LONG = 0.02
"""The same at most, where a loop waits for each element of a long stream. The time grows to that
with each ack, for an ack costs both sides about as much as a small batch does. The last ones of a
pass do not wait: the worker says that all is sent."""

MUCH = 1 << 20
"""Bytes that are free again for which an ack does not wait longer than `ACK_WAITING`: the worker
may need the memory in which they are."""

HINT_EVERY = 0.5
"""Seconds between two hints that the loop waits while its operators have unacked elements."""


_BUFFERED = attrgetter("buffered.spans")


class FlowControl:
    """Acks, credit and subscriptions of *streams*; adds actions to *effects*.

    In a cached job the reader belongs to *trainer*. If several consumers share one order, it is
    the consumer with the number *consumer*.
    """

    def __init__(
        self,
        streams: dict[TaskId, TaskStream],
        limit: Limit,
        effects: list[ReaderEffect],
        trainer: str = "",
        vicinity: Vicinity | None = None,
        consumer: int | None = None,
        charge: int = 0,
    ) -> None:
        self.vicinity, self.consumer = vicinity or Vicinity(), consumer
        self._charge = charge
        """The credit that each frame takes in addition to its payload's bytes."""
        self.limit, self.reachability = limit, Reachability(streams, effects)
        self.streams, self._effects, self._trainer = streams, effects, trainer

    def open(
        self, stream: TaskStream, reader: ReaderId, now: float, wants: GroupsWanted | None = None
    ) -> None:
        """Subscribe again: the subscription tells all that this reader has of the task, or *wants*.

        A worker that does not answer gets no credit: other workers use it meanwhile.
        """
        if stream.worker is None:
            return
        credit = self.limit.initial_credit(stream, self.streams, now)
        stream.on_opened(0 if self.reachability.misses(stream) else credit, now)
        self.reachability.tried(stream, now)
        subscription = Subscribe(
            reader,
            stream.task,
            stream.attempt,
            stream.subscription,
            stream.acked,
            stream.buffered,
            stream.balance,
            wants,
            self._trainer,
            self.consumer,
        )
        whom = (stream.worker, subscription, stream.incarnation, stream.profile)
        self._effects.append(OpenTaskStream(stream.task, *whom))

    def on_answered(self, task: TaskId, subscription: int, now: float) -> None:
        """Note that the worker answered; it may have nothing to send yet."""
        stream = self.streams.get(task)
        if stream is not None and stream.subscription == subscription and stream.streaming:
            self.reachability.answered(stream, now)

    def on_ended(self, subscription: int, end: StreamEnd, now: float) -> None:
        """Note that nothing more comes of this attempt."""
        stream = self.streams.get(end.task)
        if (
            stream is not None
            and stream.subscription == subscription
            and stream.attempt == end.attempt
        ):
            stream.end(end.failure, now)

    def on_broken(self, task: TaskId, subscription: int, why: str, now: float) -> None:
        """Note that a stream broke: it is opened again after a while."""
        stream = self.streams.get(task)
        if stream is not None and stream.subscription == subscription and stream.streaming:
            stream.on_broken(now)
            self.reachability.tried(stream, now, why)

    def on_frame(self, stream: TaskStream, nbytes: int, now: float) -> int:
        """Note that a frame came; return how much of the credit it takes."""
        if not stream.answered:
            self.reachability.answered(stream, now)
        nbytes += self._charge
        stream.balance -= nbytes
        stream.heard_at, stream.hinted_at, stream.breaks = now, LONG_AGO, 0
        return nbytes

    def on_task_view(self, stream: TaskStream, seen: TaskView) -> None:
        """Take over where a task can be read; fence an attempt that is over, and say so."""
        stream.listed = True
        stream.failure = stream.failure or seen.failure
        profile = seen.profile or UNKNOWN_WORKER
        if seen.worker is None:
            stream.barred = False
            if seen.failure is not None and stream.streaming:
                return  # its last elements are still on the way
            self.close(stream)
            if stream.fence <= seen.attempt:
                stream.fence = seen.attempt + 1
                self._effects.append(SendHeartbeat())
        elif not self.vicinity.reads(seen.worker, seen.incarnation, profile):
            self.close(stream)
            stream.on_barred(seen.attempt)
        elif seen.attempt > stream.attempt or stream.worker is None:
            self.close(stream)
            stream.on_assigned(seen.attempt, seen.worker, seen.incarnation, profile)
            stream.rank = self.vicinity.rank(seen.worker, seen.incarnation, profile)

    def close(self, stream: TaskStream) -> None:
        """Close the stream, and forget its worker."""
        if stream.streaming:
            stream.streaming = stream.answered = False
            self._effects.append(CloseTaskStream(stream.task))
        stream.worker = None

    def send_due(self, now: float, *, starved: bool) -> None:
        """Send acks and credit that are due, and hints if the loop is *starved*."""
        hint = starved and self._deliveries_out
        for stream in self.streams.values():
            if not stream.streaming or self.reachability.misses(stream):
                continue
            credit = self.limit.credit(stream, self.streams, now)
            if stream.unsent_acks or credit:
                at = _send_at(stream, credit, starved=starved)
                if now >= at or self.limit.urgent(stream, credit):
                    self._send(stream, credit, now)
            if hint and now >= stream.hinted_at + HINT_EVERY:
                stream.hinted_at = now
                self._effects.append(SendAck(stream.task, Ack(NO_RANGES, 0)))

    def send_last(self, now: float) -> None:
        """Send all acks, the last ones."""
        for stream in self.streams.values():
            if stream.streaming and stream.unsent_acks:
                self._send(stream, 0, now)

    def due_at(self, now: float, *, starved: bool) -> float:
        """Return when there is something to send or to open."""
        at = min(now + 1.0, self.reachability.due())
        hint = starved and self._deliveries_out
        for stream in self.streams.values():
            if not stream.streaming:
                if stream.readable:
                    at = min(at, stream.retry_at)
                continue
            if self.reachability.misses(stream):
                continue
            credit = self.limit.credit(stream, self.streams, now)
            if stream.unsent_acks or credit:
                at = min(at, _send_at(stream, credit, starved=starved))
            if hint:
                at = min(at, stream.hinted_at + HINT_EVERY)
        return at

    @property
    def _deliveries_out(self) -> bool:
        """Whether operators have unacked elements, given that no slice is here."""
        return any(map(_BUFFERED, self.streams.values()))

    def _send(self, stream: TaskStream, credit: int, now: float) -> None:
        self._effects.append(SendAck(stream.task, Ack(stream.give(credit, now), credit)))


def _send_at(stream: TaskStream, credit: int, *, starved: bool) -> float:
    """Return when acks and *credit* of *stream* should be sent."""
    regular = stream.acked_at + ACK_EVERY
    if not starved:
        return regular
    if stream.all_sent:
        return LONG_AGO  # nothing comes that they could go with, and the pass may wait for them
    longest = ACK_WAITING if credit >= MUCH else ACK_WAITING_LONG
    soon = stream.acked_at + min(ACK_WAITING * stream.acks, longest) if stream.acks else LONG_AGO
    return min(regular, max(soon, stream.heard_at + QUIET))
