"""The reader's mind: what it holds, what it may hand out, and what it says about both.

The reader is the fence: a frame counts only when a reader accepts it, and it accepts frames of
one attempt, through one opening, and of no attempt that it gave its word on. It hands out within
its lease only, by its own clock.

Rule 1. Nothing here waits, reads a clock, draws a random number or logs: time comes in.
Rule 2. A number is *taken* when the training loop has it. That is for ever, and told late, twice
        or in any order without harm. *Buffered* is a claim that ends with the reader's standing.
Rule 3. What the loop has before it but did not return yet is still buffered: a `Handed` says how
        far the loop is, and can be cut short.

    View ──▶ shares ──OpenStream──▶ worker ──frames──▶ pieces ──ask──▶ Hand ──▶ taken ──SendAck──▶
"""

from __future__ import annotations

from penstock.messages import (
    Ack,
    Failure,
    Frame,
    Open,
    ReaderBeat,
    Recall,
    StreamEnd,
    TaskView,
    View,
)
from penstock.numbers import IterationId, ReaderId, Standing, Taken, TaskId
from penstock.reader.credit import Limit
from penstock.reader.hand import Hand, Handed, Pause
from penstock.reader.orders import CloseStream, OpenStream, Order, SendAck, SendBeat
from penstock.reader.share import LONG_AGO, Share

ACK_EVERY = 0.05
"""Several acknowledgements travel as one; what is not yet said at a crash is doubt."""

ACK_WAITING, QUIET = 0.005, 0.001
"""The same while the loop waits, has nothing, and for so long nothing came: others may wait for
just this."""


class Reader:
    """One training loop's end of an iteration."""

    def __init__(self, iteration: IterationId, token: str, lease: float, limit: Limit) -> None:
        self.iteration, self.token, self.lease, self.limit = iteration, token, lease, limit
        self.reader: ReaderId | None = None
        self.as_of = -1
        self.permitted_until = LONG_AGO
        self.heard_at = LONG_AGO
        self.waiting_for = ""
        self.finished = self.leaving = self.left = self.asking = False
        self.failure: Failure | None = None
        self.shares: dict[TaskId, Share] = {}
        self.hand: Hand | None = None
        self._beat = self._arrivals = 0
        self._beats: dict[int, float] = {}
        self._orders: list[Order] = []

    # --- the training loop ---

    def ask(self, now: float, limit: int | None = None) -> Hand | Pause:
        """Return the next elements of one task, at most *limit*, or why there are none.

        Raises:
            PenstockError: what happened behind the last element of a task; once, and again when
                nothing else is left.
        """
        self._settle()
        self.hand = None
        self.asking = True
        self._honour_recalls(now)
        self._raise_new_trouble(now)
        self._open_all(now)
        share = self._oldest()
        if share is not None and now < self.permitted_until:
            self.hand = Hand.of(share, limit)
            self._say(now)
            return self.hand
        self._say(now)
        if share is None and self._is_over(now):
            self.asking = False
            return Pause.OVER
        return Pause.WAIT

    def accept(self, hand: Hand, handed: Handed | None, now: float) -> bool:
        """Know that the loop has *hand* before it; without *handed* it has taken all of it.

        False says that the elements are not this reader's any more: they must not be used.
        """
        if self.hand is not hand:
            return False
        self.asking = False
        if handed is None:
            self._note(hand, hand.stop - hand.start)
            self.hand = None
        else:
            hand.handed = handed
            self._settle()
        self._honour_recalls(now)
        self._say(now)
        return True

    def stop_asking(self, now: float) -> None:
        """Know that the loop has given up waiting."""
        self.asking = False
        self._honour_recalls(now)

    def leave(self, now: float) -> None:
        """Hand out no more, and say what was taken."""
        self._withdraw()
        self.asking, self.leaving = False, True
        self.left = self.reader is None
        for share in self.shares.values():
            if share.streaming and share.unsaid:
                self._orders.append(SendAck(share.task, Ack(share.give(0, now), 0)))
        if not self.left:
            self._orders.append(SendBeat())

    # --- the network ---

    def beat(self, now: float) -> ReaderBeat:
        """Return all that this reader is. It is being sent now."""
        self._settle()
        self._beat += 1
        self._beats = {n: at for n, at in self._beats.items() if now < at + self.lease}
        self._beats[self._beat] = now
        holdings = {task: share.holding() for task, share in self.shares.items()}
        return ReaderBeat(
            self.iteration, self.token, self.reader, self._beat, holdings, None, self.leaving
        )

    def viewed(self, view: View, now: float) -> None:
        """Take over what the dispatcher says; an older view than the last is ignored."""
        if view.token != self.token or self.reader not in (None, view.reader):
            return
        if view.as_of < self.as_of:
            return
        self.as_of, self.heard_at = view.as_of, now
        if view.standing is not Standing.LIVE:
            self._parted(view)
            return
        self.reader = view.reader
        self._permit(view.beat)
        self.waiting_for = view.waiting_for
        self.failure = self.failure or view.failure
        self.finished |= view.finished
        for task, share in self.shares.items():
            if task not in view.tasks:
                self._done(share)
        for task, seen in view.tasks.items():
            self._seen(self.shares.setdefault(task, Share(task)), seen)
        self._open_all(now)

    def received(self, frame: Frame, load: object, nbytes: int, now: float) -> None:
        """Keep a frame, as far as it is new and of the attempt and opening that count."""
        share = self.shares.get(frame.task)
        if share is None or not share.streaming or frame.opening != share.opening:
            return
        if frame.attempt != share.attempt or frame.attempt < share.fence:
            return
        share.balance -= nbytes
        share.heard_at, share.breaks = now, 0
        self._floor(share, frame.floor)
        self._arrivals += 1
        share.receive(frame, load, nbytes, self._arrivals)
        self._say(now)

    def recalled(self, recall: Recall, now: float) -> None:
        """Give back what the loop is not asking for, at once or when it has got its element."""
        share = self.shares.get(recall.task)
        if share is not None and share.streaming and share.attempt == recall.attempt:
            share.recalled = True
            self._honour_recalls(now)

    def stream_ended(self, opening: int, end: StreamEnd, now: float) -> None:
        """Know that nothing more comes of this attempt."""
        share = self.shares.get(end.task)
        if share is None or share.opening != opening or share.attempt != end.attempt:
            return
        share.streaming, share.ended, share.heard_at = False, True, now
        share.failure = end.failure or share.failure

    def stream_broken(self, task: TaskId, opening: int, why: str, now: float) -> None:
        """Know that a stream is gone: it is opened anew after a while."""
        share = self.shares.get(task)
        if share is not None and share.opening == opening and share.streaming:
            share.broken(why, now)

    def tick(self, now: float) -> None:
        """Do what time has made due."""
        self._settle()
        self._open_all(now)
        self._say(now)

    def due(self, now: float) -> float:
        """Return when `tick` should be called next, if nothing else happens."""
        times = [now + 1.0]
        starved = self._starved
        for share in self.shares.values():
            if share.streaming:
                if share.unsaid or self.limit.credit(share, self.shares, now):
                    times.append(_say_at(share, starved))
                elif self.hand is not None:
                    times.append(now + ACK_EVERY)
            elif share.readable and self.reader is not None and not self.leaving:
                times.append(share.retry_at)
        return max(now, min(times))

    @property
    def pressing(self) -> bool:
        """Whether there are orders."""
        return bool(self._orders)

    def orders(self) -> list[Order]:
        """Return, once, what is to be done; in this order."""
        orders, self._orders = self._orders, []
        return orders

    # --- what the loop has ---

    def _settle(self) -> None:
        """Note what the loop has returned of its block."""
        hand = self.hand
        if hand is not None and hand.handed is not None:
            self._note(hand, hand.handed.returned())

    def _withdraw(self) -> None:
        """Take back what the loop has not returned of its block: it is buffered as before."""
        hand, self.hand = self.hand, None
        if hand is not None and hand.handed is not None:
            self._note(hand, hand.handed.withdraw())

    def _note(self, hand: Hand, count: int) -> None:
        if hand.start + count > hand.piece.start:
            hand.share.take(hand.piece, hand.start + count)

    def _forget(self, share: Share) -> None:
        """Drop all of *share* that is not taken."""
        if self.hand is not None and self.hand.share is share:
            self._withdraw()
        share.clear()

    def _honour_recalls(self, now: float) -> None:
        """Give back what was recalled, by opening anew, unless the loop is about to take it."""
        if self.asking and now < self.permitted_until:
            return
        for share in self.shares.values():
            if share.recalled:
                share.recalled = False
                if share.pieces:
                    self._forget(share)
                    self._open(share, now)

    # --- what is told the loop when it asks ---

    def _oldest(self) -> Share | None:
        waiting = (share for share in self.shares.values() if share.pieces)
        return min(waiting, key=lambda share: share.pieces[0].arrival, default=None)

    @property
    def _starved(self) -> bool:
        return self.asking and not any(share.pieces for share in self.shares.values())

    def _raise_new_trouble(self, now: float) -> None:
        for share in self.shares.values():
            if share.told or share.pieces:
                continue
            if share.in_trouble(now):
                share.told, self.asking = True, False
                raise share.error()

    def _is_over(self, now: float) -> bool:
        """Say whether nothing will come any more; raise what went wrong before, if anything."""
        told = [share for share in self.shares.values() if share.told]
        stuck = told and all(share.told for share in self.shares.values() if share.listed)
        if self.failure is None and not self.finished and not stuck:
            return False
        self.asking = False
        if self.failure is not None:
            raise self.failure.error()
        for share in told:
            if share.in_trouble(now):
                raise share.error()
        return True

    # --- what the dispatcher says ---

    def _permit(self, beat: int | None) -> None:
        """Renew the lease, from the moment when the beat that was answered was sent."""
        sent = self._beats.get(beat or 0)
        if sent is not None:
            self.permitted_until = max(self.permitted_until, sent + self.lease)

    def _parted(self, view: View) -> None:
        """We left, or were given up: then what was buffered is somebody else's."""
        if view.reader != self.reader:
            return
        if self.leaving:
            self.left = True
            return
        self._withdraw()
        self.reader, self.permitted_until = None, LONG_AGO
        self._beats.clear()
        for share in self.shares.values():
            self._close(share)
            share.clear()
        self._orders.append(SendBeat())

    def _seen(self, share: Share, seen: TaskView) -> None:
        share.listed = True
        share.failure = share.failure or seen.failure
        share.lost = seen.lost or share.lost
        if seen.worker is None or seen.lost is not None:
            if seen.failure is not None and share.streaming:
                return  # its last elements are still on the way
            self._close(share)
            if share.fence <= seen.attempt:
                share.fence = seen.attempt + 1
                self._orders.append(SendBeat())
        elif seen.attempt > share.attempt or share.worker is None:
            self._close(share)
            share.attempt, share.worker, share.ended = seen.attempt, seen.worker, False
            share.fence = max(share.fence, seen.attempt)
            share.retry_at, share.breaks = LONG_AGO, 0

    def _done(self, share: Share) -> None:
        """All of it is taken: what is still here was taken by a reader that came back."""
        share.listed = False
        self._close(share)
        if share.failure is None:
            self._forget(share)

    # --- streams, credit, acknowledgements ---

    def _close(self, share: Share) -> None:
        if share.streaming:
            share.streaming = False
            self._orders.append(CloseStream(share.task))
        share.worker = None

    def _open_all(self, now: float) -> None:
        for share in self.shares.values():
            if share.readable and not share.streaming and now >= share.retry_at:
                self._open(share, now)

    def _open(self, share: Share, now: float) -> None:
        if self.reader is None or self.leaving or share.worker is None:
            return
        self._settle()
        share.opened(self.limit.opening(share, self.shares, now), now)
        opening = Open(
            self.reader,
            share.task,
            share.attempt,
            share.opening,
            share.taken,
            share.buffered,
            share.balance,
        )
        self._orders.append(OpenStream(share.task, share.worker, opening))

    def _floor(self, share: Share, floor: int) -> None:
        """All below *floor* is taken by somebody: what of it is here belongs to nobody."""
        if floor <= share.taken.floor:
            return
        if share.pieces and share.pieces[0].start < floor:
            if self.hand is not None and self.hand.share is share:
                self._withdraw()
            share.drop_below(floor)
        share.taken |= Taken(floor)

    def _say(self, now: float) -> None:
        """Acknowledge and give credit, where it is time to."""
        starved = self._starved
        for share in self.shares.values():
            if not share.streaming:
                continue
            credit = self.limit.credit(share, self.shares, now)
            if not share.unsaid and not credit:
                continue
            if now >= _say_at(share, starved) or self.limit.urgent(share, credit):
                self._orders.append(SendAck(share.task, Ack(share.give(credit, now), credit)))


def _say_at(share: Share, starved: bool) -> float:
    """Return when what is to be said of *share* should be said."""
    regular = share.said_at + ACK_EVERY
    if not starved:
        return regular
    soon = share.said_at + ACK_WAITING if share.acks else LONG_AGO
    return min(regular, max(soon, share.heard_at + QUIET))
