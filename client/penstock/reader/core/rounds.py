"""`RoundsCore`: a consumer of coordinated reads, from what the network brings to rounds in order.

The core fetches this consumer's elements of each task group by group, ahead of any decision. There
is always room for one element of every task. The core reports the groups that it has. When all
consumers have a group, the dispatcher releases it as a round. The core hands out the rounds in
order (see `penstock.protocol.rounds`).
"""

from __future__ import annotations

from penstock.errors import DatasetError
from penstock.protocol.control import ReaderHeartbeat, ReaderView, SaveResult
from penstock.protocol.data import FrameHeader, StreamEnd
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import RoundsReport
from penstock.protocol.types import IterationId, ReaderStatus, TaskId
from penstock.reader.core.ack_collector import AckCollector
from penstock.reader.core.consumer import Consumer
from penstock.reader.core.effects import ReaderEffect, SendHeartbeat
from penstock.reader.core.flow_control import Limit
from penstock.reader.core.group_streams import GroupStreams
from penstock.reader.core.known_tasks import KnownTasks
from penstock.reader.core.membership import Membership
from penstock.reader.core.round_answers import RoundAnswers, lost_error
from penstock.reader.core.round_log import ROUNDS, RoundLog
from penstock.reader.core.round_reports import RoundReports
from penstock.reader.core.round_slice import BLOCK, RoundSlice
from penstock.reader.core.save_barrier import SaveState
from penstock.reader.core.session_core import NoElement, Unshared
from penstock.reader.core.task_stream import LONG_AGO, FrameElements, FrameSlice


class RoundsCore(Unshared):
    """A consumer's end of an iteration that is read in rounds. *stamp* is when it began, in ns."""

    def __init__(  # as `ReaderCore`, and who it is
        self,
        iteration: IterationId,
        session_id: str,
        limit: Limit,
        process: ReaderProcess | None,
        consumer: Consumer,
        stamp: int,
    ) -> None:
        super().__init__()
        self.iteration, self.limit, self.process = iteration, limit, process
        # An element is this consumer's for ever: it needs no lease to hand it out.
        self.membership = Membership(session_id, float("inf"))
        self.save_state = SaveState()
        self.log, self._known = RoundLog(), KnownTasks()
        self.acks = AckCollector({ROUNDS: self.log})
        self.is_waiting = self._over = False
        self.waiting_for, self.on_readers, self.held_by = "", False, ""
        self.on_consumers = False
        self._consumer, self._stamp, self._start = consumer, stamp, consumer.start_round
        self._answers = RoundAnswers()
        self._effects: list[ReaderEffect] = []
        self._reports = RoundReports(consumer.count, self._report, self._effects)
        self._groups = GroupStreams(consumer.index, self.log, self.membership, limit, self._effects)
        self._flow_control = self._groups.flow_control
        self.tasks, self.reachability = self._groups.tasks, self._flow_control.reachability
        self.vicinity = self._flow_control.vicinity

    owed = 0

    @property
    def lease_until(self) -> float:
        """The time until which elements may be handed out: the lease's end; never at a barrier."""
        return LONG_AGO if self.save_state.barrier is not None else self.membership.lease_until

    @property
    def finished(self) -> bool:
        """Whether the loop has all rounds of the pass, and the dispatcher knows that."""
        return self._over or (self.log.finished and self._answers.end_is_known)

    @property
    def waits_for_work(self) -> bool:
        """Whether a wait is for elements that are being made, and not for an absent consumer."""
        return not self.on_consumers and any(stream.flows for stream in self.tasks.values())

    @property
    def round(self) -> int:
        """The first round that the loop has not had."""
        return self.log.taken

    @property
    def filler(self) -> bool:
        """Whether the element of the last round that the loop had fills a short group."""
        return self.log.ends_with_filler

    @property
    def skipped(self) -> int:
        """How many rounds were left out."""
        return self.log.skipped

    # --- the training loop ---

    def next_slice(self, now: float, limit: int | None = None) -> RoundSlice | NoElement:
        """Return the elements of the next rounds, at most *limit*, or why not; see `deliver`.

        Raises:
            ConsumerLost: when the round waits for a consumer that is gone.
            PenstockError: what happened in the round at which the pass ended; each time.
        """
        tracked = self.acks.tracked
        if not tracked:
            self.loop_waiting()
        first = self._first(now)
        if isinstance(first, NoElement):
            return first
        free = now < self.membership.lease_until and (tracked or self.save_state.barrier is None)
        if not free:
            return NoElement.WAIT
        start, pieces = self.log.next, [first]
        most = BLOCK if limit is None else min(limit, BLOCK)
        while len(pieces) < most and self.log.follows(start + len(pieces)):
            piece = self._piece(start + len(pieces))
            if piece is None:
                break
            pieces.append(piece)
        return RoundSlice(tuple(pieces), start, start + len(pieces))

    def look(self, now: float) -> bool | NoElement:
        """Return whether `next_slice` has elements, or why not."""
        piece = self._first(now)
        return piece if isinstance(piece, NoElement) else True

    def locate(self, now: float) -> int | NoElement:
        """Return the first round that the loop has not had, or that it is not known yet."""
        self.acks.collect_acks(now, at_once=True)
        return self.round if self.log.known or self.finished else NoElement.WAIT

    def permit(self, now: float) -> bool | NoElement:
        """Return True if elements may be handed out, else that the loop has to wait."""
        return now < self.lease_until or NoElement.WAIT

    def deliver(self, piece: RoundSlice, now: float) -> bool:
        """Mark *piece*, from `next_slice`, delivered: it gets the next delivery tags."""
        if now >= (self.membership.lease_until if self.acks.tracked else self.lease_until):
            return False
        rounds = range(piece.start, piece.stop)
        if self.log.next != piece.start or [self._piece(n) for n in rounds] != [*piece.pieces]:
            return False
        # First of all: where Ctrl-C strikes behind this, what has tags is requeued.
        self.acks.delivered(ROUNDS, piece.start, piece.stop)
        for number, one in zip(rounds, piece.pieces, strict=True):
            self._groups.discard(one)
            if one.frame.filler:
                self.log.fillers.add(number)
        self.log.hand_out(piece.start, piece.stop)
        self.is_waiting = self.is_waiting and self.acks.tracked
        self.acks.collect_soon(now)
        self._flow_control.send_due(now, starved=False)
        return True

    def loop_waiting(self) -> None:
        """Note that the loop asks for more: it consumed all earlier elements."""
        if not self.is_waiting and self.log.view.lost:
            # Who was lost may be back: the loop is told of what the dispatcher says from now on.
            self._answers.ask_for_lost(self.membership.seq)
            self._reports.want()
        self.is_waiting = True
        if self.save_state.barrier is None:
            self.save_state.forget()

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
            self.acks.halt(now)
            if self.log.out_of_order:
                self.save_state.barrier = None  # it goes on
                raise self.log.order_error()
            self._effects.append(SendHeartbeat())
        return None

    def requeue(self, tags: RangeSet, now: float) -> None:
        """Hand the rounds with *tags* out again: the outermost iterator dropped them."""
        self.acks.requeue(tags)
        self._groups.fetch_missing(now)

    def skip_to(self, number: int, now: float) -> None:
        """Hand out no round below *number*; what operators have of these is skipped, if requeued.

        Raises:
            DatasetError: when the loop has had it.
        """
        if number < self.round:
            raise DatasetError(
                f"round {self.round} comes next, and skip_to({number}) would go back: what was had "
                "does not come again but from a state"
            )
        self.log.skip_to(number)
        self._groups.keep_wanted()
        self._groups.fetch_missing(now)
        self._reports.soon(self.log.in_hand, now)

    def leave(self, now: float) -> None:
        """Deliver no more, and tell the dispatcher which elements were taken."""
        self.stop(now)
        self.is_waiting = False
        if self.membership.leave():
            self._effects.append(SendHeartbeat())

    def let_go(self) -> None:
        """See `SessionCore.let_go`."""
        self._groups.let_go()

    def stop(self, now: float) -> None:
        """Deliver no more."""
        self.membership.revoke()
        self.acks.halt(now)

    # --- the network ---

    def heartbeat(self, now: float) -> ReaderHeartbeat:
        """Return the heartbeat that is being sent now."""
        self.acks.collect_acks(now, at_once=True)
        member = self.membership
        seq = member.next_seq(now)
        if self.log.finished and member.reader is not None:
            self._answers.say_end(seq)
        return ReaderHeartbeat(
            self.iteration,
            member.session,
            member.reader,
            seq,
            barrier=self.save_state.barrier,
            leaving=member.leaving,
            consumed=self.acks.consumed,
            process=self.process,
            unreachable=self.reachability.level(now),
            rounds=self._reports.send(now),
            tasks_as_of=self._known.as_of,
        )

    def on_view(self, view: ReaderView, now: float) -> None:
        """Take over what the dispatcher says; an older view than the last is ignored."""
        if not self.membership.concerns(view):
            return
        self.membership.revision = view.revision
        if view.status is not ReaderStatus.LIVE:
            self._on_removed(view)
            return
        if not self.membership.leaving:
            self.membership.renew(view)
        self.save_state.on_view(view)
        self.waiting_for, self.on_consumers = view.waiting_for, view.on_readers
        skipping = self.log.skips_ahead
        # Of a pass that is over, the rest is here: only who came later begins where it ended.
        if view.rounds is not None and not (view.finished and self.log.known):
            self.log.on_view(view.rounds)
            self._answers.on_answer(view.seq or 0)
        self._over |= view.finished
        self._groups.on_view(self._known.take(view), view.seq or 0, now)
        if skipping or self._groups.refetched:
            self._groups.keep_wanted()
        self._groups.open_all(now)
        self._reports.soon(self.log.in_hand, now)

    def on_answered(self, task: TaskId, subscription: int, now: float) -> None:
        """Note that a worker answered on a stream; it may have nothing to send yet."""
        self._flow_control.on_answered(task, subscription, now)
        self._send_credit(now)

    def on_frame(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> None:
        """Keep an element, if its attempt and subscription are the current ones."""
        if self._groups.receive(frame, load, nbytes, now):
            self._reports.soon(self.log.in_hand, now)
        self._send_credit(now)

    def on_stream_ended(self, subscription: int, end: StreamEnd, now: float) -> None:
        """Note that nothing more comes of this attempt."""
        self._groups.on_ended(subscription, end, now)

    def on_stream_broken(self, task: TaskId, subscription: int, why: str, now: float) -> None:
        """Note that a stream broke: it is opened again after a while."""
        self._flow_control.on_broken(task, subscription, why, now)

    def on_tick(self, now: float) -> None:
        """Do what time has made due."""
        self.acks.collect_acks(now)
        self._groups.open_all(now)
        self.reachability.look(now, starved=self._starved)
        self._send_credit(now)
        self._reports.soon(self.log.in_hand, now)

    def due(self, now: float) -> float:
        """Return when `on_tick` should be called next, if nothing else happens."""
        if self.reader is None or self.membership.leaving:
            return now + 1.0
        said = min(self._flow_control.due_at(now, starved=False), self.acks.due(now))
        return max(now, self._reports.due(self.log.in_hand, said))

    @property
    def ready(self) -> bool:
        """Whether the element of the next round is here, and the round is released."""
        return self._piece(self.log.next) is not None

    # --- rounds ---

    def _first(self, now: float) -> FrameSlice | NoElement:
        self._groups.open_all(now)
        piece = self._piece(self.log.next)
        if piece is not None:
            return piece
        if self.log.at_end or self._over:
            if self.log.view.failure is not None:
                raise self.log.view.failure.error()
            return self._end(now)
        self._groups.raise_refusal()
        self._reports.soon(self.log.in_hand, now)
        asked = self.is_waiting and self._answers.lost_are_known
        number, lost = self.log.next, self.log.view.lost
        if asked and lost and self.log.entry(number) is None:
            raise lost_error(number, lost)
        return NoElement.WAIT

    def _end(self, now: float) -> NoElement:
        """Return that the pass is over: to operators, or to a loop when the dispatcher knows.

        Before that this process must not end: who comes in its place would get the rounds again.
        """
        self.acks.collect_acks(now, at_once=True)
        if self.finished or not self.log.finished:
            return NoElement.END
        self._reports.soon(self.log.in_hand, now)
        return NoElement.WAIT

    def _piece(self, number: int) -> FrameSlice | None:
        entry = self.log.entry(number)
        return None if entry is None else self._groups.here(entry)

    @property
    def _starved(self) -> bool:
        return self.is_waiting and not self.ready

    # --- reports ---

    def _report(self) -> RoundsReport:
        taken = min(self.log.taken, self.log.view.released)  # more may be skipped than there is yet
        if self.reader is None:
            start = taken if self.log.known else self._start
            return RoundsReport(self._consumer.index, self._stamp, start)
        handed = min(self.log.next, self.log.view.released)
        held = self._groups.held
        return RoundsReport(self._consumer.index, self._stamp, None, taken, held, handed)

    # --- what the dispatcher says ---

    def _on_removed(self, view: ReaderView) -> None:
        """Note that this reader left, or that the dispatcher gave it up: it joins again."""
        if self.membership.leaving and view.status is ReaderStatus.LEFT:
            self.membership.left = True
        if view.reader != self.reader:
            return
        if self.membership.leaving:
            self.membership.left = True
            return
        self.membership.reader, self.membership.known = None, False
        self._answers.on_removed()
        self.save_state.on_removed()
        self._groups.close_all()
        self._effects.append(SendHeartbeat())

    def _send_credit(self, now: float) -> None:
        self._flow_control.send_due(now, starved=False)
