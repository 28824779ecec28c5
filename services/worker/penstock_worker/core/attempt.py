"""One attempt of a task: what its runners produce, one after another, and who gets it.

A frame is kept until all its numbers are acked; then its place in the arena is freed, once. So no
element is lost with a runner that dies: the next one goes on from the newest checkpoint, and what
it makes again is dropped.

The attempt can end by itself (`over`): when the worker drains and all that was produced is acked,
when a number was requeued that is not here any more, or when no runner can be started for a while.
The next attempt makes the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.errors import TransformError
from penstock.protocol.control import AttemptProgress, SplitGrant, TaskAssignment
from penstock.protocol.data import Ack, FrameHeader, Recall, StreamEnd, Subscribe
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import Checkpoint, Failure, ReaderId, ReaderStatus, WorkerId
from penstock_worker.core.checkpoints import AttemptCheckpoints
from penstock_worker.core.counters import AttemptCounters, WorkerCounters
from penstock_worker.core.events import (
    Effect,
    HeartbeatDue,
    LogError,
    RetainFrames,
    SendEnd,
    SendFrame,
    SendRecall,
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamId,
)
from penstock_worker.core.frame_buffer import BufferedFrame, FrameBuffer
from penstock_worker.core.ownership import Ownership
from penstock_worker.core.restart_policy import RestartPolicy
from penstock_worker.core.streams import ReadStream, StreamScheduler
from penstock_worker.runner.messages import AddSplits, Flush, FrameReady, FreeFrames, PauseRun

STALL = 1.0
"""Seconds without a new frame after which a reader that has nothing is helped by the others."""

LAST_STATE = 1.0
"""Seconds that a runner gets to come to rest when its worker leaves and all else is done."""


@dataclass(frozen=True, slots=True)
class AttemptConfig:
    """What all attempts of a worker share: *room* is how many bytes of one may be kept."""

    worker: WorkerId
    room: int
    tally: WorkerCounters
    name_run: Callable[[Attempt], int]


class Attempt:
    """A task being run here."""

    def __init__(self, order: TaskAssignment, now: float, setting: AttemptConfig) -> None:
        self.order = order
        self.run: int | None = None
        self.total: int | None = None
        self.failure: Failure | None = None
        self.over = False
        self.places = Ownership(max(order.state.number, order.taken.floor), order.taken, order.held)
        self.stock = FrameBuffer()
        self.trail = AttemptCheckpoints(order)
        self.serving = StreamScheduler(self.stock, self.places)
        self.effort = AttemptCounters(order.state.number)
        self._lives = RestartPolicy()
        self._known = 0
        """What runners before the present one had made."""
        self._full = self._wanted = self._paused = False
        self._leaving_since: float | None = None
        self._made_at = now
        self._setting, self._tally = setting, setting.tally

    @property
    def done(self) -> bool:
        """Whether all there is has been taken."""
        return self.total is not None and self.places.taken.floor >= self.total

    @property
    def state(self) -> str:
        """What it is at, in a word."""
        if self.failure is not None:
            return "failed"
        if self.total is not None:
            return "done" if self.done else "ended"
        if self._leaving_since is not None:
            return "leaves"
        return "waits for splits" if self.trail.asked else "runs"

    def progress(self) -> AttemptProgress:
        """Return what the dispatcher should know."""
        places = self.places
        return AttemptProgress(
            self.order.attempt,
            places.head,
            places.taken,
            self.trail.behind(places.taken.floor),
            self.done,
            self.failure,
            self.effort.work(),
            places.doubted,
            self._lives.lacking,
        )

    # --- runners ---

    def begin(self, now: float, out: list[Effect]) -> None:
        """Have a runner go on from the newest state."""
        places, state = self.places, self.trail.newest
        self.effort.begin(state.number, places.there(state.number, made=self._lives.careful))
        self.run = self._setting.name_run(self)
        self._tally.runs_started += 1
        order = replace(self.order, state=state, logs=self.trail.logs)
        after, careful = self._lives.begin(now), self._lives.careful
        out.append(StartRunner(self.run, order, places.head, careful, after))

    def not_started(self, why: str, out: list[Effect]) -> None:
        """Know that no runner could be had; `revive` tries again, or others go on."""
        if self.run is None:
            return
        self._stop_run(out)
        self.effort.not_begun()
        again = self._lives.lacks_room(why)
        do = "trying again" if again else "others are to go on"
        out.append(LogError(f"there is no room for a runner of {self._place}: {why}; {do}"))
        out.append(HeartbeatDue())
        self.over = self.over or not again

    def reported(self) -> None:
        """Know that the runner is there."""
        self._lives.reported()

    def made(self, made: FrameReady, now: float, out: list[Effect]) -> None:
        """Keep a frame. What is taken already, or made before by another runner, is dropped."""
        self._wanted = self._full = False
        self._made_at = now
        self._tally.made(made.count, made.nbytes)
        start, stop = max(made.first, self.places.head), made.first + made.count
        self.effort.reach(stop, self._known)
        if made.first > self.places.head:
            text = f"the runner skipped from element {self.places.head} to {made.first}"
            self.fail(Failure("PenstockError", (f"{text}; this is a bug",)), out)
        elif self.places.make(start, stop):
            self.stock.put(BufferedFrame(start, stop, made))
        else:
            out.append(SendToRunner(FreeFrames(made.run, (made.offset,))))

    def reached(self, state: Checkpoint) -> None:
        """Keep a state until everything before it is taken."""
        self.effort.reach(state.number, self._known)
        self.trail.reached(state)

    def full(self) -> None:
        """Know that the runner waits for room."""
        self._full = True

    def paused(self) -> None:
        """Know that the runner makes no more, and that its newest state is here."""
        self._paused = True

    def ended(self, number: int, out: list[Effect]) -> None:
        """Know the end: there are *number* elements, or as many as another runner made."""
        self.effort.reach(number, self._known)
        self.total = max(number, self.places.head)
        self._finish(out)

    def fail(self, failure: Failure, out: list[Effect]) -> None:
        """Go no further: what was made is still served, then streams end with *failure*."""
        if self.failure is None and self.total is None:
            self.failure = failure
            out.append(HeartbeatDue())

    def died(self, how: str, out: list[Effect]) -> None:
        """Know that the runner's process is gone; `revive` begins another one."""
        if self.run is None:
            return
        if frames := self.stock.of(self.run):
            out.append(RetainFrames(self.run, frames))
        self._stop_run(out)
        self._known, self._full, self._wanted = self.places.head, False, False
        if self.total is not None or self.failure is not None:
            return
        place = f"{self._place}, element {self.places.head}"
        out.append(LogError(f"the runner of {place} is lost: {how}"))
        if not self._lives.died(self.places.head):
            died = TransformError("runner", self.places.head, how, self._setting.worker)
            self.fail(Failure.of(died), out)

    def revive(self, now: float, out: list[Effect]) -> None:
        """Have another runner go on where one has died, as soon as there is room."""
        if self._lacks_runner and self.stock.nbytes < self._setting.room:
            self.begin(now, out)

    def granted(self, grant: SplitGrant, out: list[Effect]) -> None:
        """Add what was drawn to the log, and pass it on."""
        if self.trail.granted(grant) and self.run is not None:
            out.append(
                SendToRunner(AddSplits(self.run, grant.stream, grant.position, grant.splits))
            )

    # --- readers ---

    def opened(self, name: StreamId, opening: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Settle what this reader holds, and put it last in line; None when it is refused."""
        if self.serving.overtaken(opening):
            out.append(SendEnd(name, self._end()))
            return None
        self.take(opening.taken.runs, out)
        if stray := self.places.stray(opening.reader, opening.buffered):
            self._refuse(name, opening.reader, stray, out)
            return None
        self._gave_back(self.places.settle(opening.reader, opening.buffered))
        stream, before = self.serving.open(name, opening)
        if before is not None:
            out.append(SendEnd(before.id, self._end()))
        return stream

    def acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Take what was handed out, and give the stream its room again."""
        stream.heard(ack)
        self.take(ack.taken, out)

    def parted(self, reader: ReaderId, standing: ReaderStatus, out: list[Effect]) -> None:
        """Free what *reader* held."""
        stream = self.serving.parted(reader)
        if stream is not None:
            out.append(SendEnd(stream.id, self._end()))
        given_up = standing is ReaderStatus.GONE
        freed = self.places.part(reader, given_up=given_up)
        if given_up:
            self._tally.doubted += len(freed)
            out.append(HeartbeatDue())
        else:
            self._gave_back(freed)

    def take(self, numbers: RangeSet, out: list[Effect]) -> None:
        """Know that *numbers* are taken, by whomever. It is for ever."""
        if new := self.places.take(numbers):
            self._tally.elements_taken += len(new)
            self._free(self.stock.release(new, self.places.taken), out)
            self._finish(out)

    # --- the worker ---

    def leave(self, now: float, out: list[Effect]) -> None:
        """Make no more: what is here is still served, and then others go on."""
        self._leaving_since = now
        if self.run is not None and self.total is None and self.failure is None:
            out.append(SendToRunner(PauseRun(self.run)))

    def stop(self, out: list[Effect]) -> None:
        """End every stream, and the run, and let go of all that is here."""
        self.over = True  # streams that have not hung up yet may still say something
        self._end_streams(out)
        run = self.run
        self._stop_run(out)
        self._free([made for made in self.stock.clear() if made.run != run], out)

    def tick(self) -> None:
        """Let time count for every stream."""
        for stream in self.serving.streams.values():
            stream.tick()

    def serve(self, now: float, out: list[Effect]) -> None:
        """Send what is ready to those who can take it, and see to those who go empty."""
        served = self._send_ready(out)
        self.revive(now, out)
        if served:
            if self.failure is not None or self.done:
                self._end_streams(out)
            elif self.total is None:
                self._want(out)
                self._lend(out)
            if self.total is not None or now >= self._made_at + STALL:
                self._recall(out)
        self.over = self.over or bool(self.places.astray) or self._may_be_handed_over(now)

    # --- inside ---

    @property
    def _place(self) -> str:
        return f"task {self.order.task}, attempt {self.order.attempt}"

    @property
    def _lacks_runner(self) -> bool:
        at_work = self.total is None and self.failure is None and not self.over
        return at_work and self.run is None and self._leaving_since is None

    def _send_ready(self, out: list[Effect]) -> bool:
        """Send what can be sent; say whether nothing is left."""
        while self.places.ready:
            stream = self.serving.next()
            if stream is None:
                return False
            self._send(stream, out)
        return True

    def _send(self, stream: ReadStream, out: list[Effect]) -> None:
        frame = self.stock.at(self.places.ready.spans[0][0])
        made, part = frame.made, self.serving.share(frame, ended=self.total is not None)
        whose = (self.order.task, self.order.attempt, stream.opening)
        which = (made.first, made.count, self.places.taken.floor)
        header = FrameHeader(*whose, *which, part, made.layout, made.stored, made.raw_nbytes)
        self.places.send(stream.reader, part)
        stream.sent(made.nbytes)
        self.effort.sent += len(part)
        self._tally.sent(len(part), made.nbytes)
        out.append(SendFrame(stream.id, header, made))

    def _want(self, out: list[Effect]) -> None:
        """Tell the runner, once a frame, that a reader shall not wait for a full one."""
        if not self._wanted and self.run is not None and self.serving.wants():
            self._wanted = True
            out.append(SendToRunner(Flush(self.run)))

    def _lend(self, out: list[Effect]) -> None:
        """Give up the oldest frames, when there is no room and readers' operators want more.

        Those have what is in them, and will hardly give it back.
        """
        if self._is_full and self.serving.borrows():
            while self._is_full and len(self.stock):
                shed = self.stock.shed()
                self._tally.frames_lent += len(shed)
                self.places.lend(RangeSet.of(*((frame.start, frame.stop) for frame in shed)))
                self._free([frame.made for frame in shed], out)
                # Frames of runners before it make no room for the present one.
                self._full = self._full and all(frame.made.run != self.run for frame in shed)

    @property
    def _is_full(self) -> bool:
        return self._full or (self._lacks_runner and self.stock.nbytes >= self._setting.room)

    def _recall(self, out: list[Effect]) -> None:
        for stream, last in self.serving.recalls(ended=self.total is not None):
            self._tally.recalls += 1
            out.append(SendRecall(stream.id, Recall(self.order.task, self.order.attempt, last)))

    def _may_be_handed_over(self, now: float) -> bool:
        """Say whether others can go on as well by now, when the worker leaves."""
        since = self._leaving_since
        if since is None or self.done:
            return False
        if not self.serving.streams and (self.failure or not self.places.holders):
            return True  # nobody reads it
        if self.places.ready or self.failure is not None:
            return False
        if self.places.holders:
            return self.total is None and self.serving.all_wait()
        return self._paused or self.run is None or now >= since + LAST_STATE

    def _gave_back(self, numbers: RangeSet) -> None:
        self.effort.given_back += len(numbers)
        self._tally.given_back += len(numbers)

    def _refuse(self, name: StreamId, reader: ReaderId, stray: RangeSet, out: list[Effect]) -> None:
        text = (
            f"law 5: reader {reader} buffers {stray.spans} of {self._place}, which is not "
            "reserved for it; this is a bug"
        )
        out.append(LogError(text))
        out.append(SendEnd(name, self._end(Failure("PenstockError", (text,)))))

    def _free(self, frames: list[FrameReady], out: list[Effect]) -> None:
        for run in dict.fromkeys(made.run for made in frames):
            offsets = tuple(made.offset for made in frames if made.run == run)
            out.append(SendToRunner(FreeFrames(run, offsets)))

    def _finish(self, out: list[Effect]) -> None:
        if self.done and self.run is not None:
            out.append(HeartbeatDue())
            self._stop_run(out)

    def _stop_run(self, out: list[Effect]) -> None:
        if self.run is not None:
            out.append(StopRunner(self.run))
            self.run = None

    def _end_streams(self, out: list[Effect]) -> None:
        end = self._end(self.failure)
        out.extend(SendEnd(stream.id, end) for stream in self.serving.streams.values())
        self.serving.streams.clear()

    def _end(self, failure: Failure | None = None) -> StreamEnd:
        return StreamEnd(self.order.task, self.order.attempt, failure)
