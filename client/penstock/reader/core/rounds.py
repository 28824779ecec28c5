"""`RoundsCore`: a consumer of coordinated reads, from what the network brings to rounds in order.

The core fetches this consumer's elements of each task group by group, ahead of any decision. There
is always room for one element of every task. The core reports the groups that it has. When all
consumers have a group, the dispatcher releases it as a round. The core hands out the rounds in
order (see `penstock.protocol.rounds`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.element import Element
from penstock.errors import DatasetError
from penstock.protocol.control import ReaderHeartbeat, ReaderView
from penstock.protocol.data import FrameHeader, StreamEnd
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import RoundsReport
from penstock.protocol.types import IterationId
from penstock.reader.core.effects import ReaderEffect
from penstock.reader.core.group_streams import GroupStreams
from penstock.reader.core.limits import Limit
from penstock.reader.core.membership import Membership
from penstock.reader.core.round_log import ROUNDS, RoundLog
from penstock.reader.core.round_reports import RoundAnswers, RoundReports, lost_error
from penstock.reader.core.session_core import NoElement, SessionCore
from penstock.reader.core.task_stream import FrameElements, FrameSlice, TaskStream

BLOCK = 64
"""The most rounds that are handed out at a time."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Which consumer reads, of how many, and with which round it asks to begin.

    One that is *strided* reads no rounds: it gets every n-th element of one order.
    """

    index: int
    count: int
    start_round: int | None = None
    strided: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class RoundSlice:
    """The elements of consecutive rounds, from *start* to *stop*; see `Slice`."""

    pieces: tuple[FrameSlice, ...]
    start: int
    stop: int

    @property
    def load(self) -> RoundSlice:
        """See `Slice.load`."""
        return self

    def elements(self, start: int, stop: int) -> list[Element]:
        """Return the elements of the rounds from *start* to *stop*."""
        found: list[Element] = []
        for piece in self.pieces[start - self.start : stop - self.start]:
            found += piece.load.elements(piece.start, piece.stop)
        return found


class RoundsCore(SessionCore):
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
        # An element is this consumer's forever: it needs no lease to hand it out.
        member, effects = Membership(session_id, float("inf")), list[ReaderEffect]()
        self.log = RoundLog()
        self._groups = GroupStreams(consumer.index, self.log, member, limit, effects)
        flow, ledgers = self._groups.flow_control, {ROUNDS: self.log}
        super().__init__(iteration, process, member, flow, ledgers, effects)
        self._over = False
        self._consumer, self._stamp, self._start = consumer, stamp, consumer.start_round
        self._answers = RoundAnswers()
        self._reports = RoundReports(consumer.count, self._rounds_report, effects)

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

    def locate(self, now: float) -> int | NoElement:
        """Return the first round that the loop has not had, or that it is not known yet."""
        self.acks.collect_acks(now, at_once=True)
        return self.round if self.log.known or self.finished else NoElement.WAIT

    def deliver(self, piece: RoundSlice, now: float) -> bool:
        """See `SessionCore.deliver`."""
        if now >= (self.membership.lease_until if self.acks.tracked else self.lease_until):
            return False
        rounds = range(piece.start, piece.stop)
        if self.log.next != piece.start or [self._piece(n) for n in rounds] != [*piece.pieces]:
            return False
        # First: if Ctrl-C strikes after this, all elements with tags are requeued.
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
            # A lost consumer may be back: the loop hears what the dispatcher knows from now on.
            self._answers.ask_for_lost(self.membership.seq)
            self._reports.want()
        super().loop_waiting()

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
                f"round {self.round} comes next, and skip_to({number}) would go back: "
                "delivered rounds come again only from a state"
            )
        self.log.skip_to(number)
        self._groups.keep_wanted()
        self._groups.fetch_missing(now)
        self._reports.soon(self.log.in_hand, now)

    def let_go(self) -> None:
        """See `SessionCore.let_go`."""
        self._groups.let_go()

    # --- the network ---

    def on_view(self, view: ReaderView, now: float) -> None:
        """Take over what the dispatcher says; an older view than the last is ignored."""
        super().on_view(view, now)
        self._reports.soon(self.log.in_hand, now)

    def on_frame(self, frame: FrameHeader, load: FrameElements, nbytes: int, now: float) -> None:
        """Keep an element, if its attempt and subscription are the current ones."""
        if self._groups.receive(frame, load, nbytes, now):
            self._reports.soon(self.log.in_hand, now)
        self._send_acks(now)

    def on_stream_ended(self, subscription: int, end: StreamEnd, now: float) -> None:
        """Note that nothing more comes of this attempt."""
        self._groups.on_ended(subscription, end, now)

    def on_tick(self, now: float) -> None:
        """Do what time has made due."""
        super().on_tick(now)
        self._reports.soon(self.log.in_hand, now)

    @property
    def ready(self) -> bool:
        """Whether the element of the next round is here, and the round is released."""
        return self._piece(self.log.next) is not None

    # --- rounds ---

    def _first(self, now: float) -> FrameSlice | NoElement:
        self._open_all(now)
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

    def _slice(self, first: FrameSlice, limit: int | None) -> RoundSlice:
        start, pieces = self.log.next, [first]
        most = BLOCK if limit is None else min(limit, BLOCK)
        while len(pieces) < most and self.log.follows(start + len(pieces)):
            piece = self._piece(start + len(pieces))
            if piece is None:
                break
            pieces.append(piece)
        return RoundSlice(tuple(pieces), start, start + len(pieces))

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

    def _check_order(self) -> None:
        if self.log.out_of_order:
            self.save_state.barrier = None  # the loop continues
            raise self.log.order_error()

    # --- reports ---

    def _report(self, plain: ReaderHeartbeat, now: float) -> ReaderHeartbeat:
        if self.log.finished and plain.reader is not None:
            self._answers.say_end(plain.seq)
        return replace(plain, rounds=self._reports.send(now))

    def _next_due(self, now: float) -> float:
        return self._reports.due(self.log.in_hand, super()._next_due(now))

    def _rounds_report(self) -> RoundsReport:
        taken = min(self.log.taken, self.log.view.released)  # more may be skipped than there is yet
        if self.reader is None:
            start = taken if self.log.known else self._start
            return RoundsReport(self._consumer.index, self._stamp, start)
        handed = min(self.log.next, self.log.view.released)
        held = self._groups.held
        return RoundsReport(self._consumer.index, self._stamp, None, taken, held, handed)

    # --- what the dispatcher says ---

    def _on_live_view(self, view: ReaderView, now: float) -> None:
        self.on_consumers = view.on_readers
        skipping = self.log.skips_ahead
        # Of a pass that is over, the rest is here: only who came later begins where it ended.
        if view.rounds is not None and not (view.finished and self.log.known):
            self.log.on_view(view.rounds)
            self._answers.on_answer(view.seq or 0)
        self._over |= view.finished
        self._groups.on_view(self._known.take(view), view.seq or 0, now)
        if skipping or self._groups.refetched:
            self._groups.keep_wanted()

    def _on_expired(self) -> None:
        self.membership.reader, self.membership.known = None, False
        self._answers.on_removed()

    def _open(self, stream: TaskStream, now: float) -> None:
        self._groups.open(stream.task, now)
