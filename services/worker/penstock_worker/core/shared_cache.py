"""Cached tasks: each trainer gets each element once, and all trainers share the same elements.

A *window* keeps consecutive frames. If there is no room for an element that a trainer wants, the
oldest frame is evicted. Each trainer's readers share its elements as the
readers of an ordinary job do, over the same frames.

A trainer skips elements that are evicted while they are ready for it; the cache counts them. It
also skips evicted elements that one of its readers requeues later. With `WhenFull.WAIT`, a frame is
evicted only after all trainers with live readers had it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from penstock.protocol.cache import Cached, TrainerProgress, WhenFull
from penstock.protocol.control import TaskAssignment
from penstock.protocol.data import Subscribe
from penstock.protocol.ranges import NO_RANGES, AckedSet, RangeSet
from penstock.protocol.types import ReaderId, ReaderStatus
from penstock_worker.core.delivery_policy import (
    DeliveryCounts,
    DeliveryPolicy,
    Parting,
    counts_of,
    parting_if_remade,
)
from penstock_worker.core.events import Effect, HeartbeatDue, StreamId
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.sharing_readers import ReadStream, Sender, SharingReaders
from penstock_worker.runner.messages import FrameReady

EXPECTED_TICKS = 40
"""Ticks for which a new attempt keeps elements for readers of the attempt before it."""


class _Trainer(SharingReaders):
    """The readers of one trainer, and which of them are *live*."""

    def __init__(
        self,
        ownership: Ownership,
        frames: FrameBuffer,
        sender: Sender,
        live: set[ReaderId],
        before: int,
    ) -> None:
        super().__init__(ownership, frames, sender)
        self.live, self.before = live, before
        self.expected = set(live)
        """Readers of an earlier attempt that have not opened a stream yet; kept for a while."""
        self.skipped = 0
        self.finished = False
        """Whether it has all elements, and the dispatcher knows."""

    @property
    def readers(self) -> set[ReaderId]:
        """The readers that this worker knows to be live."""
        return self.live | super().readers

    @property
    def progress(self) -> TrainerProgress:
        """Its progress, as heartbeats report it."""
        return TrainerProgress(self.ownership.acked, self.skipped, self.before)

    def skip(self, numbers: RangeSet) -> None:
        """Skip *numbers*: the window no longer has them."""
        self.skipped += len(self.ownership.ack(numbers))

    def evict(self, numbers: RangeSet) -> None:
        """Record that *numbers* left the window; readers keep those that they have."""
        self.skip(self.ownership.ready & numbers)
        self.ownership.drop(numbers)

    def lacks(self, numbers: RangeSet) -> bool:
        """Return whether some of *numbers* may be sent yet, or again.

        Elements in a loop's operators do not count while the loop waits for more, because they will
        hardly be requeued. If one loop waits for more than there is room for, other loops' elements
        do not count either, because those loops may wait for it.
        """
        left = numbers - self.ownership.acked.ranges
        if self.any_has_operators():
            return bool(left & self.ownership.ready)
        return bool(left - self.in_operators())


class SharedCache(DeliveryPolicy[_Trainer]):
    """See `DeliveryPolicy`. Each trainer's readers are a group."""

    lost = False

    def __init__(self, assignment: TaskAssignment, cached: Cached, sender: Sender) -> None:
        live: dict[str, set[ReaderId]] = {}
        for reader, name in cached.readers.items():
            live.setdefault(name, set()).add(reader)
        # Of a trainer that came shortly before the last attempt's end nothing is known.
        places = [cached.trainers.get(name, TrainerProgress()) for name in live]
        floor = min((place.acked.floor for place in places), default=0)
        super().__init__(max(assignment.checkpoint.number, floor), sender)
        self.ahead = 0
        """The bytes of frames that no trainer has been sent any part of."""
        self._ahead: deque[tuple[int, int]] = deque()
        """The first number and the bytes of each of these frames."""
        self._waits = cached.when_full is WhenFull.WAIT
        self._names = dict(cached.readers)
        """The trainer of each reader that ever opened a stream."""
        self._trainers: dict[str, _Trainer] = {}
        self._ticks = 0
        for name in sorted({*cached.trainers, *live}):
            known = cached.trainers.get(name)
            self._restore(name, known, live.get(name, set()), assignment.unacked)

    def _restore(
        self,
        name: str,
        known: TrainerProgress | None,
        live: set[ReaderId],
        unacked: Mapping[ReaderId, RangeSet],
    ) -> None:
        """Add a trainer as an earlier attempt left it. It skips elements not produced again."""
        place = TrainerProgress() if known is None else known
        reserved = {reader: unacked.get(reader, NO_RANGES) for reader in live}
        ownership = Ownership(self.head, place.acked, reserved)
        past = RangeSet.of((0, self.head))
        gone = past - ownership.had
        trainer = self._add(name, ownership, live, place.before)
        trainer.skipped = place.skipped
        if known is None:
            trainer.before = len(ownership.ack(gone))
        else:
            trainer.skip(gone)
        ownership.drop(past)

    def _add(self, name: str, ownership: Ownership, live: set[ReaderId], before: int) -> _Trainer:
        trainer = _Trainer(ownership, self.frames, self._sender, live, before)
        self._trainers[name] = trainer
        return trainer

    @property
    def groups(self) -> Iterable[_Trainer]:
        """One group of readers for each trainer."""
        return self._trainers.values()

    @property
    def oldest(self) -> int:
        """The lowest number in the window, or the next number if the window is empty."""
        frame = self.frames.oldest
        return self.head if frame is None else frame.start

    @property
    def acked(self) -> AckedSet:
        """The elements that no trainer needs, neither one that reads nor one that joins late."""
        floors = [t.ownership.acked.floor for t in self._trainers.values() if t.live]
        return AckedSet(min([*floors, self.oldest]))

    @property
    def done(self) -> bool:
        """Return False: another trainer may join. The dispatcher says when none can join."""
        return False

    @property
    def all_sent(self) -> bool:
        """Return False: another trainer may join."""
        return False

    @property
    def starving(self) -> bool:
        """Whether a trainer has every element in the window, and wants more."""
        return any(trainer.starving for trainer in self._trainers.values())

    def trainers(self) -> Mapping[str, TrainerProgress]:
        """Return each trainer's progress."""
        return {name: trainer.progress for name, trainer in self._trainers.items()}

    def counts_of(self) -> Mapping[str, DeliveryCounts]:
        """Return for each trainer how many elements are ready or unacked."""
        return {name: counts_of(trainer) for name, trainer in self._trainers.items()}

    # --- what was made ---

    def add(self, frame: FrameReady, start: int, stop: int) -> bool:
        """Add *frame* for its numbers from *start* to *stop*, if there are any."""
        if start >= stop:
            return False
        self.head = stop
        self.frames.put(BufferedFrame(start, stop, frame))
        self.ahead += frame.nbytes
        self._ahead.append((start, frame.nbytes))
        for trainer in self._trainers.values():
            trainer.ownership.produce(start, stop)
        return True

    def on_ended(self, number: int, out: list[Effect]) -> None:
        """Record that there are *number* elements, or more if another runner produced more."""
        super().on_ended(number, out)
        out.append(HeartbeatDue())
        for trainer in self._trainers.values():
            self._settle(trainer, out)

    def shed(self) -> list[FrameReady]:
        """Evict and return the oldest frame, if a trainer wants more than there is room for."""
        frame = self._evict() if self.starving else None
        return [] if frame is None else [frame]

    def trim(self, nbytes: int) -> list[FrameReady]:
        """Evict and return the oldest frames beyond *nbytes*; a single one may be larger."""
        evicted = []
        while self.nbytes > nbytes and len(self.frames) > 1 and (frame := self._evict()):
            evicted.append(frame)
        return evicted

    # --- who gets it ---

    def open(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Add a stream, and note that its reader is live; return None if it is refused."""
        stream = super().open(name, request, out)
        if stream is not None:
            trainer = self._group(request.reader)
            trainer.live.add(request.reader)
            trainer.expected.discard(request.reader)
            self._settle(trainer, out)
        return stream

    def remove_reader(self, reader: ReaderId, status: ReaderStatus, out: list[Effect]) -> None:
        """Requeue the unacked elements of *reader* that are in the window, and skip the others."""
        trainer = self._group(reader)
        trainer.live.discard(reader)
        trainer.expected.discard(reader)
        super().remove_reader(reader, status, out)
        self._settle(trainer, out)

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark elements that the dispatcher knows to be acked, and note which readers will come."""
        cached = assignment.cached
        if cached is None:
            return
        for name, trainer in self._trainers.items():
            if name in cached.trainers:
                self._ack(cached.trainers[name].acked.ranges, (trainer,), out)
        for reader, name in cached.readers.items():
            if name in self._trainers and reader not in self._names:
                self._names[reader] = name
                self._trainers[name].live.add(reader)

    def on_tick(self) -> None:
        """Count a tick for every stream, and for expected readers that have not come."""
        super().on_tick()
        self._ticks += 1
        if self._ticks >= EXPECTED_TICKS:
            for trainer in self._trainers.values():
                trainer.expected.clear()

    def send_ready(self, out: list[Effect]) -> bool:
        """Send each trainer the elements that it may get now."""
        for trainer in self._trainers.values():
            trainer.send_ready(out, ended=self.total is not None)
        self._pass_ahead()
        return True

    def parting(self, *, failed: bool) -> Parting:
        """Return when to hand over; the next attempt remakes elements that a trainer lacks."""
        return parting_if_remade(self, failed=failed)

    # --- inside ---

    def _why_not(self, request: Subscribe) -> str:
        """Return why a reader may not read, as a sentence about the task; "" if it may."""
        reader, trainer = request.reader, request.trainer
        if not trainer:
            return f"is cached, and reader {reader} names no trainer"
        before = self._names.get(reader, trainer)
        if before != trainer:
            two = f"of trainer {before!r} cannot be of trainer {trainer!r}"
            return f"is cached, and reader {reader} {two}"
        return ""

    def _join(self, request: Subscribe) -> _Trainer:
        """Return the trainer of a reader; a new one begins with the oldest frame in the window."""
        self._names[request.reader] = request.trainer
        if (known := self._trainers.get(request.trainer)) is not None:
            return known
        oldest, had = self.oldest, request.acked.ranges
        before = RangeSet.of((0, oldest)) - had
        ownership = Ownership(oldest, AckedSet(oldest), {})
        ownership.produce(oldest, self.head)
        return self._add(request.trainer, ownership, set(), len(before))

    def _group(self, reader: ReaderId) -> _Trainer:
        return self._trainers[self._names[reader]]

    def _concerned(self, one: _Trainer) -> Iterable[_Trainer]:
        return (one,)

    def _ack(self, numbers: RangeSet, groups: Iterable[_Trainer], out: list[Effect]) -> None:
        """Mark *numbers* acked for the trainers *groups*; the window keeps their frames."""
        for trainer in groups:
            trainer.ack(numbers)
            self._settle(trainer, out)

    def _count_had(self, number: int) -> int:
        """Count elements from *number* on that one trainer has."""
        below = RangeSet.of((0, number))
        return max((len(one.ownership.had - below) for one in self.groups), default=0)

    def _settle(self, trainer: _Trainer, out: list[Effect]) -> None:
        """Skip requeued elements that are gone, and report when the trainer has all elements."""
        missing = trainer.ownership.missing
        if missing and self._waits and trainer.live:
            self.lost = True  # the next attempt makes it again: no trainer skips it
        elif missing:
            trainer.skip(missing)
        over = self.total is not None and trainer.ownership.acked.floor >= self.total
        if over and not trainer.finished:
            trainer.finished = True
            out.append(HeartbeatDue())

    def _evict(self) -> FrameReady | None:
        """Evict and return the oldest frame, unless it must be kept for a trainer."""
        frame = self.frames.oldest
        if frame is None:
            return None
        span = frame.span
        if any(self._holds(t) and t.lacks(span) for t in self._trainers.values()):
            return None
        self.frames.evict()
        for trainer in self._trainers.values():
            trainer.evict(span)
        self._pass_ahead()
        return frame.frame

    def _holds(self, trainer: _Trainer) -> bool:
        """Return whether elements that *trainer* lacks must not be evicted."""
        return bool(trainer.live if self._waits else trainer.expected)

    def _pass_ahead(self) -> None:
        """Subtract the frames that were sent in part or evicted."""
        front = self.oldest
        for trainer in self._trainers.values():
            ready = trainer.ownership.ready.spans
            front = max(front, ready[0][0] if ready else self.head)
        while self._ahead and self._ahead[0][0] < front:
            self.ahead -= self._ahead.popleft()[1]
