"""`ReaderCore`: what the loop asks and the network receives, turned into effects."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from penstock.errors import SaveFailed
from penstock.protocol.cache import NOT_SAVED, CacheView
from penstock.protocol.control import ReaderHeartbeat, ReaderView, SaveResult, describe_save
from penstock.protocol.data import AllSent, FrameHeader, Recall
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.rounds import STRIDED_NBYTES
from penstock.protocol.types import IterationId, TaskId
from penstock.reader.core.effects import ReaderEffect, TellLog
from penstock.reader.core.flow_control import FlowControl
from penstock.reader.core.limits import Limit
from penstock.reader.core.membership import Membership
from penstock.reader.core.reachability import Vicinity
from penstock.reader.core.session_core import NoElement, SessionCore
from penstock.reader.core.task_order import order_of
from penstock.reader.core.task_reports import TaskReports
from penstock.reader.core.task_stream import (
    LONG_AGO,
    FrameElements,
    FrameSlice,
    TaskStream,
    is_over,
    only_flush,
)

RETURN_AFTER = 2
"""Leases without an answer of a worker, and without a request of the loop, after which elements go
back that the worker cannot ask for. A worker that died is replaced sooner."""

TELL_EVERY = 60.0
"""Seconds between two log lines about skipped elements."""


class ReaderCore(SessionCore):
    """One training loop's end of an iteration; as one of *trainer*'s, or as a *consumer*."""

    def __init__(
        self,
        iteration: IterationId,
        session_id: str,
        lease: float,
        limit: Limit,
        process: ReaderProcess | None = None,
        trainer: str = "",
        vicinity: Vicinity | None = None,
        consumer: int | None = None,
        *,
        ordered: bool = False,
    ) -> None:
        streams, effects = dict[TaskId, TaskStream](), list[ReaderEffect]()
        charge = 0 if consumer is None else STRIDED_NBYTES
        flow = FlowControl(streams, limit, effects, trainer, vicinity, consumer, charge)
        member = Membership(session_id, lease)
        super().__init__(iteration, process, member, flow, streams, effects)
        self._streams, self._reports = streams, TaskReports(streams)
        self._order = order_of(streams, self.replay, ordered=ordered)
        self._finished = self._more_tasks = False
        self._flush_requests, self._arrivals = set[TaskId](), 0
        self._delivered_at = LONG_AGO
        self._place = TrainerPlace(trainer)

    @property
    def finished(self) -> bool:
        """Whether everything is acked and nothing more will come."""
        return self._finished

    @property
    def skipped(self) -> int:
        """How many elements fell out of the window before this reader's trainer had them."""
        return self._place.skipped

    @property
    def ready(self) -> bool:
        """Whether elements are here."""
        return self._order.next() is not None

    @property
    def owed(self) -> int:
        """See `SessionCore.owed`."""
        return 0 if self._finished else self._reports.owed

    @property
    def lease_until(self) -> float:
        """See `SessionCore.lease_until`; at the end there is nothing to wait for."""
        return inf if self._finished else super().lease_until

    # --- the training loop ---

    def deliver(self, piece: FrameSlice, now: float) -> bool:
        """See `SessionCore.deliver`."""
        stream, tracked = self._streams.get(piece.frame.task), self.acks.tracked
        if stream is None or piece not in stream.slices:
            return False  # others have had it meanwhile, or get it
        if not (tracked or now < self.lease_until):
            return False
        self.acks.deliver(stream, piece)
        self._delivered_at = now
        self.is_waiting = self.is_waiting and tracked
        self.acks.collect_soon(now)
        self._honour_recalls(now)
        self._flow_control.send_due(now, starved=False)  # the loop may be about to get just this
        return True

    def loop_running(self, now: float) -> None:
        """Note that the loop has got something, or has stopped waiting."""
        super().loop_running(now)
        self._honour_recalls(now)

    def save(
        self, label: str, timeout: float, now: float, *, without_missing: bool = False
    ) -> SaveResult | None:
        """See `SessionCore.save`; a cached job is not saved."""
        self._place.check_save(label)
        return super().save(label, timeout, now, without_missing=without_missing)

    def requeue(self, tags: RangeSet, now: float) -> None:
        """Requeue the elements with *tags*: the outermost iterator dropped them."""
        for task in self.acks.requeue(tags):
            self._open(self._streams[task], now)

    # --- the network ---

    def on_frame(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> None:
        """Keep a frame's new elements, if its attempt and subscription are the current ones."""
        stream = self._streams.get(frame.task)
        if stream is None or not stream.expects(frame) or frame.attempt < stream.fence:
            return
        nbytes = self._flow_control.on_frame(stream, nbytes, now)
        self._flush_requests.discard(frame.task)
        if frame.floor > stream.acked.floor:
            self.acks.drop_below(stream, frame.floor)
            stream.acked |= AckedSet(frame.floor)  # all below it is acked
        self._arrivals += 1
        stream.receive(frame, load, nbytes, self._arrivals)
        self._send_acks(now)

    def on_tick(self, now: float) -> None:
        """See `SessionCore.on_tick`."""
        super().on_tick(now)
        self._return_unasked(now)

    def on_recall(self, recall: Recall, now: float) -> None:
        """Requeue what the loop is not asking for, at once or when it has got its element."""
        stream = self._streams.get(recall.task)
        if stream is None or not stream.streaming or stream.attempt != recall.attempt:
            return
        if not recall.flush:
            stream.recalled = True
            self._honour_recalls(now)
        elif self._starved:
            self._flush_requests.add(recall.task)

    def on_all_sent(self, told: AllSent, now: float) -> None:
        """Note that nothing of a task is to be waited for: it has gone here, or to others."""
        stream = self._streams.get(told.task)
        if stream and stream.streaming and stream.subscription == told.subscription:
            stream.all_sent = stream.attempt == told.attempt
            self._send_acks(now)  # the last ones

    # --- what the loop is told when it asks ---

    def _first(self, now: float) -> TaskStream | NoElement:
        """Return the stream whose elements are next, if any are here."""
        if self.acks.deliveries:  # at once if it waits, or the end of a pass waits for that
            self.acks.collect_acks(now, starved=self._starved)
        self._honour_recalls(now)
        self._order.raise_new(now)
        self._open_all(now)
        stream = self._order.next()
        self._send_acks(now)
        if stream is not None:
            return stream
        if is_over(self._streams.values(), now, finished=self._finished):
            return NoElement.END
        return NoElement.WAIT

    def _slice(self, first: TaskStream, limit: int | None) -> FrameSlice:
        return first.next(limit)

    def _honour_recalls(self, now: float) -> None:
        """Requeue recalled elements by subscribing again, unless the loop is about to consume one.

        If there is nothing else, revoke the unacked elements in operators.
        """
        if self.is_waiting and now < self.membership.lease_until:
            return
        for stream in self._streams.values():
            if stream.recalled:
                stream.recalled = False
                if stream.slices:
                    stream.clear()
                elif stream.buffered:
                    self.acks.revoke(stream)
                else:
                    continue
                self._open(stream, now)

    def _return_unasked(self, now: float) -> None:
        """Requeue elements that a worker may want back and cannot ask for, if the loop is busy."""
        before = now - RETURN_AFTER * self.membership.lease
        if self.is_waiting or self._delivered_at > before:
            return
        for stream in self._streams.values():
            if stream.buffered and self.reachability.missed_since(stream) <= before:
                stream.recalled = True
        self._honour_recalls(now)

    def _only_flush(self, now: float) -> bool:
        """Return whether operators must work with the elements that they have."""
        if not self._flush_requests or not self._starved or self._more_tasks:
            return False
        self.acks.collect_acks(now, at_once=True)
        what = (self._streams.values(), self._flush_requests, self.reachability.misses)
        if not self.acks.deliveries or not only_flush(*what):
            return False
        self._flush_requests.clear()
        return True

    # --- what the dispatcher says, and is told ---

    def _report(self, plain: ReaderHeartbeat, now: float) -> ReaderHeartbeat:  # noqa: ARG002
        last = plain.barrier is not None or plain.leaving
        return replace(
            plain,
            reports=self._reports.take(plain.seq, self.reachability.misses, everything=last),
            trainer=self._place.trainer,
            consumer=self._flow_control.consumer,
            unacked=self._reports.unacked,
        )

    def _on_live_view(self, view: ReaderView, now: float) -> None:
        self.held_by, self.on_readers = view.held_by, view.on_readers
        self._effects += map(TellLog, self._place.on_view(view.cache, now))
        self._finished |= view.finished
        self._more_tasks = view.more_tasks
        self._reports.on_view(view)
        known = self._known.take(view)
        for task, stream in list(self._streams.items()):
            if task not in known:
                self._drop_task(stream)
        for task, seen in known.items():
            stream = self._streams.setdefault(task, TaskStream(task))
            self._flow_control.on_task_view(stream, seen)

    def _on_expired(self) -> None:
        self.acks.drop_all()
        self.membership.remove()

    def _drop_task(self, stream: TaskStream) -> None:
        """Drop a finished task: a reader that came back consumed the elements left here."""
        stream.listed = False
        self._flow_control.close(stream)
        if stream.failure is None and stream.buffered:
            stream.clear()
            self.acks.revoke(stream)
        if stream.failure is None and not stream.buffered:
            self._order.drop(stream.task)
            self._reports.drop(stream.task)

    # --- streams ---

    def _open(self, stream: TaskStream, now: float) -> None:
        if self.reader is not None and not self.membership.leaving and stream.worker is not None:
            self.acks.collect_acks(now)
            self._flush_requests.discard(stream.task)
            self._flow_control.open(stream, self.reader, now)

    def _send_acks(self, now: float) -> None:
        self._flow_control.send_due(now, starved=self._starved)

    def _next_due(self, now: float) -> float:
        said = self._flow_control.due_at(now, starved=self._starved)
        return min(said, self.acks.due(now))


class TrainerPlace:
    """How many elements *trainer* skipped, and how many were gone before it came."""

    def __init__(self, trainer: str) -> None:
        self.trainer = trainer
        self.skipped = self.before = 0
        self._told, self._told_at = 0, LONG_AGO

    def check_save(self, label: str) -> None:
        """Refuse to save a cached job.

        Raises:
            SaveFailed: when this is one.
        """
        if self.trainer:
            raise SaveFailed(f"{describe_save(label)} failed: {NOT_SAVED}")

    def on_view(self, view: CacheView | None, now: float) -> list[str]:
        """Take over what the dispatcher says; return the lines to log about that."""
        if view is None:
            return []
        lines = []
        if view.before > self.before == 0:
            lines.append(
                f"{_elements(view.before)} had left the window before trainer {self.trainer!r} "
                "came: it begins with the oldest one that is still there"
            )
        self.skipped, self.before = max(self.skipped, view.skipped), max(self.before, view.before)
        if self.skipped > self._told and now >= self._told_at + TELL_EVERY:
            self._told, self._told_at = self.skipped, now
            lines.append(
                f"{_elements(self.skipped)} fell out of the window before trainer "
                f"{self.trainer!r} read them: it is slower than others, or was not heard of for a "
                "while; when_full='wait' has all wait for who is"
            )
        return lines


def _elements(count: int) -> str:
    return f"{count:,} element{'s' * (count != 1)}"
