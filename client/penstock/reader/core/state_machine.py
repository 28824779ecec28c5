"""`ReaderCore`: what the loop asks and the network receives, turned into effects."""

from __future__ import annotations

from math import inf

from penstock.protocol.control import ReaderHeartbeat, ReaderView, SaveResult
from penstock.protocol.data import AllSent, FrameHeader, Recall, StreamEnd
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import IterationId, ReaderStatus, TaskId
from penstock.reader.core.ack_collector import AckCollector
from penstock.reader.core.effects import ReaderEffect, SendHeartbeat, TellLog
from penstock.reader.core.flow_control import FlowControl, Limit
from penstock.reader.core.known_tasks import KnownTasks
from penstock.reader.core.membership import Membership
from penstock.reader.core.replay import Replay
from penstock.reader.core.save_barrier import SaveState
from penstock.reader.core.session_core import NoElement, WithoutRounds
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
from penstock.reader.core.trainer_place import TrainerPlace
from penstock.reader.core.vicinity import Vicinity


class ReaderCore(WithoutRounds):
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
        self.iteration, self.limit, self.process = iteration, limit, process
        self.membership, self.save_state = Membership(session_id, lease), SaveState()
        self.tasks: dict[TaskId, TaskStream] = {}
        self._known, self._reports, self.replay = KnownTasks(), TaskReports(self.tasks), Replay()
        self._order = order_of(self.tasks, self.replay, ordered=ordered)
        self.acks, self.finished, self.is_waiting = AckCollector(self.tasks), False, False
        self.waiting_for, self.on_readers, self.held_by, self._more_tasks = "", False, "", False
        self._flush_requests, self._arrivals = set[TaskId](), 0
        self._effects: list[ReaderEffect] = []
        self._place, whose = TrainerPlace(trainer), (trainer, vicinity, consumer)
        self._flow_control = FlowControl(self.tasks, limit, self._effects, *whose)
        self.reachability = self._flow_control.reachability
        self.vicinity = self._flow_control.vicinity

    @property
    def skipped(self) -> int:
        """How many elements fell out of the window before this reader's trainer had them."""
        return self._place.skipped

    @property
    def owed(self) -> int:
        """See `SessionCore.owed`."""
        return 0 if self.finished else self._reports.owed

    @property
    def lease_until(self) -> float:
        """Until when anything may be handed out: within the lease, not at a barrier."""
        if self.finished:
            return inf
        return LONG_AGO if self.save_state.barrier is not None else self.membership.lease_until

    # --- the training loop ---

    def next_slice(self, now: float, limit: int | None = None) -> FrameSlice | NoElement:
        """Return the next elements of one task, at most *limit*, or why not; see `deliver`.

        Operators may pull when the loop is not asking, and at a barrier. Where acks are not
        tracked the caller is the loop itself, and asks.

        Raises:
            PenstockError: what happened behind the last element of a task; once, and again when
                nothing else is left.
        """
        tracked = self.acks.tracked
        if not tracked:
            self.loop_waiting()
        self._collect_acks(now)
        first = self._first(now, free=tracked or self.save_state.barrier is None)
        if not isinstance(first, NoElement):
            return first.next(limit)
        if first is NoElement.WAIT and self._only_flush(now):
            self._flush_requests.clear()
            return NoElement.FLUSH
        return first

    def look(self, now: float) -> bool | NoElement:
        """Return whether `next_slice` has elements, or why not."""
        self._collect_acks(now)
        first = self._first(now, free=True)
        return first if isinstance(first, NoElement) else True

    def permit(self, now: float) -> bool | NoElement:
        """Return True if elements may be handed out, else that the loop has to wait."""
        return now < self.lease_until or NoElement.WAIT

    def deliver(self, piece: FrameSlice, now: float) -> bool:
        """Mark *piece*, from `next_slice`, delivered: it gets the next delivery tags.

        False says that its elements are not this reader's any more, or, where acks are not
        tracked, that its lease ended: they must not be used.
        """
        stream, tracked = self.tasks.get(piece.frame.task), self.acks.tracked
        if stream is None or piece not in stream.slices:
            return False  # others have had it meanwhile, or get it
        if not (tracked or now < self.lease_until):
            return False
        self.acks.deliver(stream, piece)
        self.is_waiting = self.is_waiting and tracked
        self.acks.collect_soon(now)
        self._honour_recalls(now)
        self._flow_control.send_due(now, starved=False)  # the loop may be about to get just this
        return True

    def loop_waiting(self) -> None:
        """Note that the loop asks for more: it consumed all earlier elements."""
        self.is_waiting = True
        if self.save_state.barrier is None:
            self.save_state.forget()  # a result that no thread waited for is of no use now

    def loop_running(self, now: float) -> None:
        """Note that the loop has got something, or has stopped waiting."""
        self.is_waiting = False
        self.save_state.forget()
        self.acks.collect_soon(now)
        self._honour_recalls(now)

    def save(
        self, label: str, timeout: float, now: float, *, without_missing: bool = False
    ) -> SaveResult | None:
        """Return the result of a save; stop at its barrier if that was not done before.

        Raises:
            PenstockError: when the job cannot be saved.
        """
        self._place.check_save(label)
        result = self.save_state.result(label)
        if result is not None:
            return result
        if self.save_state.begin(label, timeout, without_missing=without_missing):
            self.acks.halt(now)  # behind the barrier: a loop that goes on meanwhile finds it
            self._effects.append(SendHeartbeat())
        return None

    def requeue(self, tags: RangeSet, now: float) -> None:
        """Requeue the elements with *tags*: the outermost iterator dropped them."""
        for task in self.acks.requeue(tags):
            self._open(self.tasks[task], now)

    def leave(self, now: float) -> None:
        """Deliver no more, and send the last acks."""
        self.stop(now)
        self.is_waiting, known = False, self.membership.leave()
        self._flow_control.send_last(now)
        if known:
            self._effects.append(SendHeartbeat())

    def stop(self, now: float) -> None:
        """Deliver no more."""
        self.membership.revoke()
        self.acks.halt(now)

    # --- the network ---

    def heartbeat(self, now: float) -> ReaderHeartbeat:
        """Return the heartbeat that is being sent now."""
        self.acks.collect_acks(now, at_once=True)
        member = self.membership
        seq, barrier = member.next_seq(now), self.save_state.barrier
        last = barrier is not None or member.leaving
        return ReaderHeartbeat(
            self.iteration,
            member.session,
            member.reader,
            seq,
            self._reports.take(seq, self.reachability.misses, everything=last),
            barrier=barrier,
            leaving=member.leaving,
            consumed=self.acks.consumed,
            process=self.process,
            unreachable=self.reachability.level(now),
            trainer=self._place.trainer,
            consumer=self._flow_control.consumer,
            tasks_as_of=self._known.as_of,
            unacked=self._reports.unacked,
        )

    def on_view(self, view: ReaderView, now: float) -> None:
        """Take over what the dispatcher says; an older view than the last is ignored."""
        if not self.membership.concerns(view):
            return
        self.membership.revision = view.revision
        if view.status is not ReaderStatus.LIVE:
            self._on_removed(view)
            return
        self.membership.renew(view)
        self.save_state.on_view(view)
        self.waiting_for, self.held_by = view.waiting_for, view.held_by
        self.on_readers = view.on_readers
        self._effects += map(TellLog, self._place.on_view(view.cache, now))
        self.finished |= view.finished
        self._more_tasks = view.more_tasks
        self._reports.on_view(view)
        known = self._known.take(view)
        for task, stream in list(self.tasks.items()):
            if task not in known:
                self._drop_task(stream)
        for task, seen in known.items():
            self._flow_control.on_task_view(self.tasks.setdefault(task, TaskStream(task)), seen)
        self._open_all(now)

    def on_answered(self, task: TaskId, subscription: int, now: float) -> None:
        """Note that a worker answered on a stream; it may have nothing to send yet."""
        self._flow_control.on_answered(task, subscription, now)
        self._send_acks(now)

    def on_frame(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> None:
        """Keep a frame's new elements, if its attempt and subscription are the current ones."""
        stream = self.tasks.get(frame.task)
        if stream is None or not stream.streaming or frame.subscription != stream.subscription:
            return
        if frame.attempt != stream.attempt or frame.attempt < stream.fence:
            return
        nbytes = self._flow_control.on_frame(stream, nbytes, now)
        self._flush_requests.discard(frame.task)
        if frame.floor > stream.acked.floor:
            self.acks.drop_below(stream, frame.floor)
            stream.acked |= AckedSet(frame.floor)  # all below it is acked
        self._arrivals += 1
        stream.receive(frame, load, nbytes, self._arrivals)
        self._send_acks(now)

    def on_recall(self, recall: Recall, now: float) -> None:
        """Requeue what the loop is not asking for, at once or when it has got its element."""
        stream = self.tasks.get(recall.task)
        if stream is None or not stream.streaming or stream.attempt != recall.attempt:
            return
        if not recall.flush:
            stream.recalled = True
            self._honour_recalls(now)
        elif self._starved:
            self._flush_requests.add(recall.task)

    def on_all_sent(self, told: AllSent, now: float) -> None:
        """Note that nothing of a task is to be waited for: it has gone here, or to others."""
        stream = self.tasks.get(told.task)
        if stream and stream.streaming and stream.subscription == told.subscription:
            stream.all_sent = stream.attempt == told.attempt
            self._send_acks(now)  # the last ones

    def on_stream_ended(self, subscription: int, end: StreamEnd, now: float) -> None:
        """Note that nothing more comes of this attempt."""
        self._flow_control.on_ended(subscription, end, now)

    def on_stream_broken(self, task: TaskId, subscription: int, why: str, now: float) -> None:
        """Note that a stream broke: it is opened again after a while."""
        self._flow_control.on_broken(task, subscription, why, now)

    def on_tick(self, now: float) -> None:
        """Do what time has made due."""
        self.acks.collect_acks(now)
        self._open_all(now)
        self.reachability.look(now, starved=self._starved)
        self._send_acks(now)

    def due(self, now: float) -> float:
        """Return when `on_tick` should be called next, if nothing else happens."""
        if self.reader is None or self.membership.leaving:
            return now + 1.0
        said = self._flow_control.due_at(now, starved=self._starved)
        return max(now, min(said, self.acks.due(now)))

    # --- what the loop is told when it asks ---

    def _honour_recalls(self, now: float) -> None:
        """Requeue recalled elements by subscribing again, unless the loop is about to consume one.

        If there is nothing else, revoke the unacked elements in operators.
        """
        if self.is_waiting and now < self.membership.lease_until:
            return
        for stream in self.tasks.values():
            if stream.recalled:
                stream.recalled = False
                if stream.slices:
                    stream.clear()
                elif stream.buffered:
                    self.acks.revoke(stream)
                else:
                    continue
                self._open(stream, now)

    def _first(self, now: float, *, free: bool) -> TaskStream | NoElement:
        """Return the stream whose elements are next, if any are here and may be delivered."""
        self._honour_recalls(now)
        self._order.raise_new(now)
        self._open_all(now)
        stream = self._order.next()
        self._send_acks(now)
        if stream is not None:
            return stream if free and now < self.membership.lease_until else NoElement.WAIT
        if is_over(self.tasks.values(), now, finished=self.finished):
            return NoElement.END
        return NoElement.WAIT

    def _collect_acks(self, now: float) -> None:
        """Ack what the loop consumed; at once if it waits, or the end of a pass waits for that."""
        if self.acks.deliveries:
            self.acks.collect_acks(now, starved=self._starved)

    @property
    def ready(self) -> bool:
        """Whether elements are here."""
        return self._order.next() is not None

    @property
    def _starved(self) -> bool:
        return self.is_waiting and not self.ready

    def _only_flush(self, now: float) -> bool:
        """Return whether operators must work with the elements that they have."""
        if not self._flush_requests or not self._starved or self._more_tasks:
            return False
        self.acks.collect_acks(now, at_once=True)
        what = (self.tasks.values(), self._flush_requests, self.reachability.misses)
        return bool(self.acks.deliveries) and only_flush(*what)

    # --- what the dispatcher says ---

    def _on_removed(self, view: ReaderView) -> None:
        """Note that this reader left or expired; what an expired one buffered is requeued."""
        if self.membership.leaving and view.status is ReaderStatus.LEFT:
            self.membership.left = True
        if view.reader != self.reader:
            return
        if self.membership.leaving:
            self.membership.left = True
            return
        self.acks.drop_all()
        self.membership.remove()
        self.save_state.on_removed()
        for stream in self.tasks.values():
            self._flow_control.close(stream)
        self._effects.append(SendHeartbeat())

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

    def _open_all(self, now: float) -> None:
        for stream in self.tasks.values():
            if stream.readable and not stream.streaming and now >= stream.retry_at:
                self._open(stream, now)

    def _open(self, stream: TaskStream, now: float) -> None:
        if self.reader is not None and not self.membership.leaving and stream.worker is not None:
            self.acks.collect_acks(now)
            self._flush_requests.discard(stream.task)
            self._flow_control.open(stream, self.reader, now)

    def _send_acks(self, now: float) -> None:
        self._flow_control.send_due(now, starved=self._starved)
