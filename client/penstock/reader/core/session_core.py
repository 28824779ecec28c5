"""The core that decides for a session: what `ReaderCore` and `RoundsCore` do alike.

A core has the reader's membership at the dispatcher, its streams of tasks, and the elements that it
delivered and that are unacked. `ReaderCore` and `RoundsCore` say which element is next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from penstock.errors import DatasetError
from penstock.protocol.control import ReaderHeartbeat, ReaderView, SaveResult
from penstock.protocol.data import AllSent, FrameHeader, Recall, StreamEnd
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock.reader.core.ack_collector import AckCollector, AckLedger
from penstock.reader.core.deliveries import Replay
from penstock.reader.core.effects import ReaderEffect, SendHeartbeat
from penstock.reader.core.flow_control import FlowControl
from penstock.reader.core.membership import KnownTasks, Membership
from penstock.reader.core.save_barrier import SaveState
from penstock.reader.core.task_stream import LONG_AGO, FrameElements, TaskStream, clear


class NoElement(Enum):
    """Why there is nothing for the loop."""

    WAIT = "nothing is here now"
    FLUSH = "nothing more comes before operators use up their input"
    END = "the pass is over"


class Slice(Protocol):
    """Elements that are here, numbered from *start* to *stop*."""

    @property
    def load(self) -> FrameElements:
        """The object that makes the elements."""

    @property
    def start(self) -> int:
        """The number of the first element."""

    @property
    def stop(self) -> int:
        """The number after that of the last element."""


class SessionCore(ABC):
    """One training loop's end of an iteration."""

    on_readers = False
    """Whether the loop waits for other readers."""
    on_consumers = False
    """Whether the loop waits for other consumers."""
    held_by = ""
    """In words, which readers have the elements that the loop waits for."""

    def __init__(
        self,
        iteration: IterationId,
        process: ReaderProcess | None,
        membership: Membership,
        flow_control: FlowControl,
        ledgers: Mapping[TaskId, AckLedger],
        effects: list[ReaderEffect],
    ) -> None:
        self.iteration, self.process, self.membership = iteration, process, membership
        self.save_state, self.replay, self.acks = SaveState(), Replay(), AckCollector(ledgers)
        self.is_waiting, self.waiting_for = False, ""
        self._flow_control, self._effects, self._known = flow_control, effects, KnownTasks()
        self.tasks, self.limit = flow_control.streams, flow_control.limit
        self.reachability, self.vicinity = flow_control.reachability, flow_control.vicinity

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether everything is acked and nothing more will come."""

    @property
    @abstractmethod
    def skipped(self) -> int:
        """How many elements of its own this reader left out."""

    @property
    @abstractmethod
    def ready(self) -> bool:
        """Whether elements are here that may be handed out."""

    @property
    def waits_for_work(self) -> bool:
        """Whether views say that the loop waits for work that may take any time."""
        return False

    @property
    def round(self) -> int:
        """The first round that the loop has not had; 0 if there are no rounds."""
        return 0

    @property
    def filler(self) -> bool:
        """Whether the newest element delivered fills a group that was too short."""
        return False

    @property
    def owed(self) -> int:
        """How many acked elements may be known to this reader only; any thread may ask."""
        return 0

    @property
    def reader(self) -> ReaderId | None:
        """The id that the dispatcher gave."""
        return self.membership.reader

    @property
    def lease_until(self) -> float:
        """The time until which elements may be handed out: the lease's end; never at a barrier."""
        return LONG_AGO if self.save_state.barrier is not None else self.membership.lease_until

    @property
    def pressing(self) -> bool:
        """Whether there are effects to perform."""
        return bool(self._effects)

    def take_effects(self) -> list[ReaderEffect]:
        """Return the effects to perform, in this order, and forget them."""
        orders, self._effects[:] = self._effects.copy(), []
        return orders

    # --- the training loop ---

    def next_slice(self, now: float, limit: int | None = None) -> Slice | NoElement:
        """Return the next elements, at most *limit*, or why there are none; see `deliver`.

        Operators may pull when the loop is not asking, and at a barrier. Where acks are not
        tracked the caller is the loop itself, and asks.

        Raises:
            PenstockError: what happened after the last element of a task, or in the round at which
                the pass ended.
        """
        if not self.acks.tracked:
            self.loop_waiting()
        first = self._first_within_lease(now)
        if first is NoElement.WAIT:
            return NoElement.FLUSH if self._only_flush(now) else first
        if isinstance(first, NoElement):
            return first
        if self.save_state.barrier is not None and not self.acks.tracked:
            return NoElement.WAIT
        return self._slice(first, limit)

    def look(self, now: float) -> bool | NoElement:
        """Return whether `next_slice` has elements, or why not."""
        first = self._first_within_lease(now)
        return first if isinstance(first, NoElement) else True

    def locate(self, now: float) -> int | NoElement:  # noqa: ARG002
        """Return `round`, or that it is not known yet."""
        return self.round

    def permit(self, now: float) -> bool | NoElement:
        """Return True if elements may be handed out, else that the loop has to wait."""
        return now < self.lease_until or NoElement.WAIT

    @abstractmethod
    def deliver(self, piece: Any, now: float, /) -> bool:
        """Mark *piece*, from `next_slice`, delivered: it gets the next delivery tags.

        False says that its elements are not this reader's any more, or, where acks are not
        tracked, that its lease ended: they must not be used.
        """

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

    def save(
        self, label: str, timeout: float, now: float, *, without_missing: bool = False
    ) -> SaveResult | None:
        """Return the result of a save; stop at its barrier if that was not done before.

        Raises:
            PenstockError: when the job cannot be saved.
        """
        result = self.save_state.result(label)
        if result is not None:
            return result
        if self.save_state.begin(label, timeout, without_missing=without_missing):
            self.acks.halt(now)  # after the barrier: a loop that goes on meanwhile finds it
            self._check_order()
            self._effects.append(SendHeartbeat())
        return None

    @abstractmethod
    def requeue(self, tags: RangeSet, now: float) -> None:
        """Requeue the elements with *tags*: the outermost iterator dropped them."""

    def skip_to(self, number: int, now: float) -> None:  # noqa: ARG002
        """Hand out no round below *number*; skip those that operators have, if requeued.

        Raises:
            DatasetError: when the loop has had it, or there are no rounds.
        """
        raise DatasetError(f"skip_to({number}) is of coordinated reads, which have rounds")

    def leave(self, now: float) -> None:
        """Deliver no more, send the last acks, and tell the dispatcher."""
        self.stop(now)
        self.is_waiting, known = False, self.membership.leave()
        self._flow_control.send_last(now)
        if known:
            self._effects.append(SendHeartbeat())

    def let_go(self) -> None:
        """Drop all elements when the session is over: frames may lie in a worker's memory."""
        clear(self.tasks.values())

    def stop(self, now: float) -> None:
        """Deliver no more."""
        self.membership.revoke()
        self.acks.halt(now)

    # --- the network ---

    def heartbeat(self, now: float) -> ReaderHeartbeat:
        """Return the heartbeat that is being sent now."""
        self.acks.collect_acks(now, at_once=True)
        member = self.membership
        plain = ReaderHeartbeat(
            self.iteration,
            member.session,
            member.reader,
            member.next_seq(now),
            barrier=self.save_state.barrier,
            leaving=member.leaving,
            consumed=self.acks.consumed,
            process=self.process,
            unreachable=self.reachability.level(now),
            tasks_as_of=self._known.as_of,
        )
        return self._report(plain, now)

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
        self.waiting_for = view.waiting_for
        self._on_live_view(view, now)
        self._open_all(now)

    def on_answered(self, task: TaskId, subscription: int, now: float) -> None:
        """Note that a worker answered on a stream; it may have nothing to send yet."""
        self._flow_control.on_answered(task, subscription, now)
        self._send_acks(now)

    @abstractmethod
    def on_frame(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> None:
        """Keep a frame's new elements, if its attempt and subscription are the current ones."""

    def on_recall(self, recall: Recall, now: float) -> None:  # noqa: B027
        """Ignore the recall, unless other readers can use this reader's elements."""

    def on_all_sent(self, told: AllSent, now: float) -> None:  # noqa: B027
        """Ignore the message, unless it determines the next element."""

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
        return max(now, self._next_due(now))

    # --- what a core says for itself ---

    @abstractmethod
    def _first(self, now: float) -> Any:
        """Return what is next, if it is here, or why it is not: a `NoElement`."""

    @abstractmethod
    def _slice(self, first: Any, limit: int | None) -> Slice:
        """Return the elements from *first* on, which `_first` returned, at most *limit*."""

    def _only_flush(self, now: float) -> bool:  # noqa: ARG002
        """Return whether operators must work with the elements that they have."""
        return False

    def _check_order(self) -> None:  # noqa: B027
        """Check at a barrier that the loop has everything before its last element."""

    @abstractmethod
    def _report(self, plain: ReaderHeartbeat, now: float) -> ReaderHeartbeat:
        """Return heartbeat *plain* with the reports of this core."""

    @abstractmethod
    def _on_live_view(self, view: ReaderView, now: float) -> None:
        """Take over what *view* says of this reader, which is live."""

    @abstractmethod
    def _on_expired(self) -> None:
        """Forget the id, which expired: the next heartbeat asks for another."""

    @abstractmethod
    def _open(self, stream: TaskStream, now: float) -> None:
        """Subscribe to *stream*, if this reader has an id."""

    def _send_acks(self, now: float) -> None:
        """Send acks and credit that are due."""
        self._flow_control.send_due(now, starved=False)

    def _next_due(self, now: float) -> float:
        return min(self._flow_control.due_at(now, starved=False), self.acks.due(now))

    # --- inside ---

    @property
    def _starved(self) -> bool:
        return self.is_waiting and not self.ready

    def _first_within_lease(self, now: float) -> Any:
        first = self._first(now)
        if isinstance(first, NoElement) or now < self.membership.lease_until:
            return first
        return NoElement.WAIT

    def _open_all(self, now: float) -> None:
        for stream in self.tasks.values():
            if stream.readable and not stream.streaming and now >= stream.retry_at:
                self._open(stream, now)

    def _on_removed(self, view: ReaderView) -> None:
        """Note that this reader left or expired; what an expired one buffered is requeued."""
        if self.membership.leaving and view.status is ReaderStatus.LEFT:
            self.membership.left = True
        if view.reader != self.reader:
            return
        if self.membership.leaving:
            self.membership.left = True
            return
        self._on_expired()
        self.save_state.on_removed()
        for stream in self.tasks.values():
            self._flow_control.close(stream)
        self._effects.append(SendHeartbeat())
