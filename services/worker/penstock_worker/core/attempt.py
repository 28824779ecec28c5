"""One attempt of a task: its runners, one after another, and its delivery policy.

The policy (`DeliveryPolicy`) decides which reader gets an element, and keeps frames while a reader
may need them. So no element is lost when a runner dies: the next runner continues from the newest
checkpoint, and the attempt drops elements that it produces again.

The attempt ends by itself (`over`) in three cases: the worker drains and readers have their
elements; a reader needs an element that the worker no longer has; no runner starts for a while.
The next attempt produces the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from penstock.errors import TransformError
from penstock.protocol.control import (
    AttemptProgress,
    SkippedErrors,
    SplitGrant,
    TaskAssignment,
)
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.types import Checkpoint, Failure
from penstock_worker.core.checkpoints import AttemptCheckpoints
from penstock_worker.core.counters import AttemptCounters
from penstock_worker.core.delivery_policy import Parting
from penstock_worker.core.events import (
    Effect,
    HeartbeatDue,
    LogError,
    RetainFrames,
    SendToRunner,
    StartRunner,
    StopRunner,
    StreamId,
)
from penstock_worker.core.first_come import policy_of
from penstock_worker.core.link_speed import LinkSpeed
from penstock_worker.core.runner_history import RestartPolicy, RunnerTimes
from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.core.shares import AttemptConfig, BufferRoom, CacheRoom, SlotShare
from penstock_worker.core.sharing_readers import ReadStream, Sender, free
from penstock_worker.runner.messages import (
    AddSplits,
    ErrorsCounted,
    Flush,
    FrameReady,
    PauseRun,
)

STALL = 1.0
"""Seconds without a new frame after which other readers' unacked elements are recalled."""

COPIED = 16 << 20
"""If an ordered task has ended, at most this many bytes of its frames are copied to free its runner
for the next task. The worker's loop waits for the copy."""

LAST_STATE = 1.0
"""Seconds that a runner gets to pause when its worker drains and nothing else is left to do."""


class Attempt:
    """A task that this worker runs."""

    def __init__(self, task: TaskAssignment, now: float, config: AttemptConfig[Attempt]) -> None:
        self.assignment = task
        self.run: int | None = None
        self.failure: Failure | None = None
        self.errors: SkippedErrors | None = None
        """The failed elements that runners of this worker reported as left out."""
        self.over = False
        self.checkpoints = AttemptCheckpoints(task)
        self.counters = AttemptCounters(task.checkpoint.number)
        self.delivery = policy_of(task, Sender(task, self.counters, config.counters))
        """Decides which reader gets an element, and which frames are kept."""
        self.cache_room: CacheRoom | None = None
        if isinstance(self.delivery, SharedCache):
            self.cache_room = CacheRoom(self.delivery, config.cache, config.room)
        self.link, self.share = LinkSpeed(now), SlotShare()
        self.choice = ""
        """The codec that AUTO means now and the reason, as text."""
        self.times = RunnerTimes()
        """How long the newest runner's operators worked, and what those of all runners counted."""
        self._restart_policy = RestartPolicy()
        self._head_before = 0
        """The head when the present runner began."""
        self._arena_full = self._flush_sent = self._paused = False
        self._done_told = self._all_sent_told = False
        self._leaving_since: float | None = None
        self._produced_at = now
        self._config, self._worker_counters = config, config.counters
        self.buffer = BufferRoom(config.room // self._share)

    @property
    def state(self) -> str:
        """A short description of its present activity, for status."""
        if self.failure is not None:
            return "failed"
        if self.delivery.total is not None:
            return "done" if self.delivery.done else "ended"
        if self._leaving_since is not None:
            return "leaves"
        return "waits for splits" if self.checkpoints.requested else "runs"

    @property
    def room(self) -> int:
        """How many bytes of frames may be kept."""
        return self.buffer.nbytes if self.cache_room is None else self.cache_room.nbytes

    def progress(self) -> AttemptProgress:
        """Return what the dispatcher should know."""
        delivery = self.delivery
        return AttemptProgress(
            self.assignment.attempt,
            delivery.head,
            delivery.acked,
            self.checkpoints.latest_below(delivery.acked.floor),
            delivery.done,
            self.failure,
            self.counters.counts(self.times.measures),
            delivery.in_doubt,
            self._restart_policy.lacking,
            delivery.total is not None,
            delivery.trainers(),
            self.errors,
            self._all_sent,
            0 if self.run is None or (told := self.times.whole) is None else told.processes,
        )

    # --- runners ---

    def start_runner(self, now: float, out: list[Effect]) -> None:
        """Start a runner at the newest checkpoint."""
        delivery, state = self.delivery, self.checkpoints.newest
        produced = self._restart_policy.flush_each
        there = delivery.count_existing(state.number, produced=produced)
        self.counters.on_started(state.number, there)
        self.run, self.times = self._config.name_run(self), RunnerTimes(self.times.measures)
        self._worker_counters.runs_started += 1
        self.link.on_runner_started()
        assignment = replace(self.assignment, checkpoint=state, logs=self.checkpoints.logs)
        after, flush_each = self._restart_policy.next_delay(now), self._restart_policy.flush_each
        window = None if self.cache_room is None else self.cache_room.start(self.run)
        share, room = self._share, 0 if window is not None else self.buffer.on_runner_started()
        start = (assignment, delivery.head, flush_each, after, window, share, room)
        out.append(StartRunner(self.run, *start))
        self.share.on_runner_started(self.run, out)

    def on_runner_not_started(self, why: str, out: list[Effect]) -> None:
        """Record that no runner could start; `revive` tries again, or the attempt ends."""
        self.counters.on_not_started()
        again = self._restart_policy.may_retry(why, self.delivery.head)
        why += "; trying again" if again else "; others are to go on"
        out.append(self._log(f"there is no room for a runner of {self._label}: {why}"))
        out.append(HeartbeatDue())
        self.over |= not again

    def _log(self, text: str) -> LogError:
        return LogError(text, self.assignment.task, self.assignment.attempt)

    def on_first_report(self) -> None:
        """Record that the runner has started."""
        self._restart_policy.on_first_report()

    def on_frame(self, frame: FrameReady, now: float, out: list[Effect]) -> None:
        """Buffer a frame, without elements that are acked or that an earlier runner produced."""
        self._flush_sent = self._arena_full = False
        self._produced_at = now
        self._worker_counters.add_made(frame.count, frame.nbytes)
        start, stop = max(frame.first, self.delivery.head), frame.first + frame.count
        self.counters.advance(stop, self._head_before)
        if frame.first > self.delivery.head:
            text = f"the runner skipped from element {self.delivery.head} to {frame.first}"
            self.fail(Failure("PenstockError", (f"{text}; this is a bug",)), out)
        elif not self.delivery.add(frame, start, stop):
            free([frame], out)

    def on_errors(self, report: ErrorsCounted) -> None:
        """Record elements that were left out; a runner that replays reports some of them again."""
        if report.count:
            self.errors = (self.errors or SkippedErrors()).plus(report.count, report.letter)

    def on_checkpoint(self, state: Checkpoint) -> None:
        """Keep a checkpoint until everything before it is acked."""
        self.counters.advance(state.number, self._head_before)
        self.checkpoints.add(state)

    def on_arena_full(self) -> None:
        """Record that the runner waits for room."""
        self._arena_full = True

    def on_paused(self) -> None:
        """Record that the runner produces no more, and that its newest checkpoint is here."""
        self._paused = True

    def on_ended(self, number: int, out: list[Effect]) -> None:
        """Record the end: there are *number* elements, or more if another runner produced more."""
        self.counters.advance(number, self._head_before)
        self.delivery.on_ended(number, out)
        if self.assignment.ordered:
            out.append(HeartbeatDue())  # there is room for the next task
        self._finish(out)

    def fail(self, failure: Failure, out: list[Effect]) -> None:
        """Stop: elements already produced are still sent, then streams end with *failure*."""
        if self.failure is None and self.delivery.total is None:
            self.failure = failure
            out.append(HeartbeatDue())

    def on_runner_lost(self, how: str, out: list[Effect]) -> None:
        """Record that the runner's process has died; `revive` starts another one."""
        text = f"the runner of {self._label}, element {self.delivery.head} is lost: {how}"
        out.append(self._log(text))
        if not self._restart_policy.may_restart(self.delivery.head):
            died = TransformError("runner", self.delivery.head, how, self._config.worker)
            self.fail(Failure.of(died), out)

    def part_with_runner(self, out: list[Effect]) -> bool:
        """Keep the frames of a dead runner; return whether there are more elements to produce."""
        if self.run is None:
            return False
        if frames := self.delivery.frames_of(self.run):
            out.append(RetainFrames(self.run, frames))
        if self.cache_room is not None:
            self.cache_room.on_runner_lost()
        self._stop_run(out)
        self._head_before, self._arena_full, self._flush_sent = self.delivery.head, False, False
        return self.delivery.total is None and self.failure is None

    def revive(self, now: float, out: list[Effect]) -> None:
        """Start another runner after one has died, as soon as there is room."""
        if self._lacks_runner and self.delivery.nbytes < self.room:
            self.start_runner(now, out)

    def on_splits(self, grant: SplitGrant, out: list[Effect]) -> None:
        """Add granted splits to the log, and pass them on."""
        if self.checkpoints.on_splits(grant) and self.run is not None:
            added = AddSplits(self.run, grant.provider, grant.position, grant.splits)
            out.append(SendToRunner(added))

    # --- readers ---

    def on_opened(self, name: StreamId, request: Subscribe, out: list[Effect]) -> ReadStream | None:
        """Add a reader's stream and the acks it brings; return None if it is refused."""
        stream = self.delivery.open(name, request, out)
        self._finish(out)
        return stream

    def on_acked(self, stream: ReadStream, ack: Ack, out: list[Effect]) -> None:
        """Ack elements that were sent, and add the stream's new credit."""
        self.delivery.on_acked(stream, ack, out)
        self._finish(out)

    def on_closed(self, stream: ReadStream) -> None:
        """Forget a stream, and nothing else."""
        self.link.on_closed(stream.id)
        self.delivery.close(stream)

    def on_assigned(self, assignment: TaskAssignment, out: list[Effect]) -> None:
        """Mark the elements that the dispatcher knows to be acked; irrevocable and idempotent."""
        self.delivery.on_assigned(assignment, out)
        self._finish(out)

    # --- the worker ---

    def on_tick(self, now: float) -> None:
        """Count a tick."""
        self.delivery.on_tick()
        self.link.on_tick(now)

    def resize_cache(self, nbytes: int, out: list[Effect]) -> None:
        """Set how many bytes of this cached task may be kept."""
        if self.cache_room is not None and nbytes != self.cache_room.nbytes:
            self._drop(self.cache_room.resize(nbytes), out)

    def drain(self, now: float, out: list[Effect]) -> None:
        """Stop producing: buffered elements are still sent, then another worker continues."""
        self._leaving_since = now
        if self.run is not None and self.delivery.total is None and self.failure is None:
            out.append(SendToRunner(PauseRun(self.run)))

    def stop(self, out: list[Effect]) -> None:
        """End every stream, and the run, and free all frames."""
        self.over = True  # streams that are not closed yet may still send something
        self.delivery.end_streams(self.failure, out)
        run = self.run
        self._stop_run(out)
        free([frame for frame in self.delivery.clear() if frame.run != run], out)

    def serve(self, now: float, out: list[Effect]) -> None:
        """Send buffered elements to streams with credit; flush or recall for starving readers."""
        self.link.tell(self.run, self.assignment.codec, out)
        served = self.delivery.send_ready(out)
        self.buffer.on_kept(self.delivery.nbytes, self.run, out, waits=self._arena_full)
        self.revive(now, out)
        if served:
            if self.failure is not None or self.delivery.done:
                self.delivery.end_served(self.failure, out)
            elif self.delivery.total is None:
                self._flush(out)
                self._make_room(out)
                self._resize_window(out)
            if self._all_sent and not self._all_sent_told:
                self._all_sent_told = True
                out.append(HeartbeatDue())
            if self.delivery.total is not None or now >= self._produced_at + STALL:
                self.delivery.recall(out)
        self.over = self.over or self.delivery.lost or self._may_be_handed_over(now)

    # --- inside ---

    @property
    def _label(self) -> str:
        return f"task {self.assignment.task}, attempt {self.assignment.attempt}"

    @property
    def _share(self) -> int:
        """The task may use 1/this of the resources that the worker has for its job."""
        return self._config.slots if self.assignment.fills_slot else 1

    @property
    def _all_sent(self) -> bool:
        """Whether readers have all elements of an ordered task: then other tasks may follow."""
        return self.assignment.ordered and self.delivery.all_sent

    @property
    def _lacks_runner(self) -> bool:
        at_work = self.delivery.total is None and self.failure is None and not self.over
        return at_work and self.run is None and self._leaving_since is None

    def _flush(self, out: list[Effect]) -> None:
        """Tell the runner, once for each frame, that a reader must not wait for a full frame."""
        if not self._flush_sent and self.run is not None and self.delivery.wants_flush():
            self._flush_sent = True
            out.append(SendToRunner(Flush(self.run)))

    def _make_room(self, out: list[Effect]) -> None:
        """Drop frames if there is no room and readers want more."""
        while self._is_full and (shed := self.delivery.shed()):
            self._drop(shed, out)
            # Freed frames of earlier runners give the present one no room unless it is told so.
            self._arena_full &= self.cache_room is None and all(f.run != self.run for f in shed)

    def _drop(self, frames: list[FrameReady], out: list[Effect]) -> None:
        """Free *frames*, which some reader might have needed."""
        self._worker_counters.frames_dropped += len(frames)
        free(frames, out)
        if self.cache_room is not None:
            self.cache_room.on_evicted(frames, self.run)

    def _resize_window(self, out: list[Effect]) -> None:
        """Tell the runner of a cached task if its room has changed."""
        if self.cache_room is None or self.run is None or self.delivery.total is not None:
            return
        if window := self.cache_room.change(self.run, waits=self._arena_full):
            self._arena_full = False
            out.append(SendToRunner(window))

    @property
    def _is_full(self) -> bool:
        no_room = self._lacks_runner and self.delivery.nbytes >= self.room
        granted = self.cache_room is None or self.cache_room.is_full()
        return (self._arena_full and granted) or no_room

    def _may_be_handed_over(self, now: float) -> bool:
        """Return whether the worker drains and another worker can continue now."""
        since = self._leaving_since
        if since is None or self.delivery.done:
            return False
        match self.delivery.parting(failed=self.failure is not None):
            case Parting.NOW:
                return True
            case Parting.AT_CHECKPOINT:
                return self._paused or self.run is None or now >= since + LAST_STATE
            case Parting.LATER:
                return False
            case other:
                assert_never(other)

    def _finish(self, out: list[Effect]) -> None:
        if self.delivery.done and not self._done_told:
            self._done_told = True
            out.append(HeartbeatDue())
            self._stop_run(out)
            return
        ended = self.assignment.ordered and self.delivery.total is not None
        if ended and self.run is not None and self.delivery.nbytes <= COPIED:
            if frames := self.delivery.frames_of(self.run):
                out.append(RetainFrames(self.run, frames))
            self._stop_run(out)

    def _stop_run(self, out: list[Effect]) -> None:
        if self.run is not None:
            out.append(StopRunner(self.run))
            self.run = None
