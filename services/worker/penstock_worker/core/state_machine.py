"""`WorkerCore`: it runs attempts as assigned, and serves what they produce.

Rule 1. Nothing here awaits, reads a clock, draws a random number or logs.
Rule 2. `WorkerCore.apply` is the only entry: what changes the state came in as an event.
Rule 3. The dispatcher's assignment is a level: what it does not list stops, what it lists runs.
Rule 4. An attempt that ended by itself is reported as ended until the assignment lists it no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from penstock.errors import DatasetError, TransformError
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    SplitGrant,
    SplitRequest,
    TaskAssignment,
    WorkerHeartbeat,
)
from penstock.protocol.data import StreamEnd, Subscribe
from penstock.protocol.types import Failure, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock_worker.core.attempt import Attempt, AttemptConfig
from penstock_worker.core.counters import WorkerCounters
from penstock_worker.core.events import (
    AbortStream,
    DispatcherConnected,
    Drained,
    DrainRequested,
    DrainStarted,
    Effect,
    Event,
    FromReader,
    FromRunner,
    HeartbeatDue,
    NondeterminismFound,
    RequestSplits,
    RunnerLost,
    RunnerNotStarted,
    SendEnd,
    StreamAcked,
    StreamClosed,
    StreamId,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.streams import ReadStream
from penstock_worker.runner.messages import (
    ArenaFull,
    CheckpointTaken,
    ElementsSkipped,
    FrameReady,
    RunEnded,
    RunFailed,
    RunPaused,
    SplitsNeeded,
)

PATIENCE = 3.0
"""Seconds that a reader may be ahead of the order to run what it wants to read."""

PAST = 1000
"""How many tasks that ran here are remembered, so that late readers are sent away at once."""


@dataclass(frozen=True, slots=True)
class _Early:
    """A reader that came before the order to run what it wants to read."""

    open: Subscribe
    until: float


class WorkerCore:
    """One life of a worker: a restarted one has another incarnation and remembers nothing.

    *room* is how many bytes of an attempt may be made before they are taken.
    """

    def __init__(
        self, worker: WorkerId, incarnation: int, beat_interval: float | None, room: int
    ) -> None:
        self.worker = worker
        self.incarnation = incarnation
        self.as_of = -1
        self.attempts: dict[TaskId, Attempt] = {}
        self.tally = WorkerCounters()
        self.leaving = False
        self._left = False
        self._setting = AttemptConfig(worker, room, self.tally, self._name_run)
        self._interval = beat_interval
        self._beat_interval = beat_interval or 1.0
        self._beat_at = 0.0
        self._readers: dict[ReaderId, ReaderStatus] = {}
        self._started: set[tuple[TaskId, int]] = set()
        self._over: dict[TaskId, AttemptProgress] = {}
        self._runs: dict[int, Attempt] = {}
        self._run = 0
        self._streams: dict[StreamId, tuple[Attempt, ReadStream]] = {}
        self._early: dict[StreamId, _Early] = {}
        self._past: dict[TaskId, int] = {}

    def apply(self, event: Event, now: float) -> list[Effect]:
        """Take *event* in, and return what must be done about it, in order."""
        out: list[Effect] = []
        match event:
            case Assignment():
                self._assigned(event, now, out)
            case SplitGrant():
                self._granted(event, out)
            case DispatcherConnected():
                self._ask_again(out)
            case DrainRequested():
                self._leave(now, out)
            case Tick():
                self._ticked(now, out)
            case (
                NondeterminismFound()
                | FrameReady()
                | ElementsSkipped()
                | CheckpointTaken()
                | SplitsNeeded()
                | ArenaFull()
                | RunPaused()
                | RunEnded()
                | RunFailed()
                | RunnerLost()
                | RunnerNotStarted()
            ):
                self._reported(event, now, out)
            case StreamOpened() | StreamAcked() | StreamWritable() | StreamClosed():
                self._read(event, now, out)
            case _:
                assert_never(event)
        if self.leaving and not (self._left or self.attempts or self._over):
            self._left = True
            out.append(Drained())
        return out

    def beat(self) -> WorkerHeartbeat:
        """Return all that the dispatcher should know now."""
        running = {(task, attempt.order.attempt) for task, attempt in self.attempts.items()}
        progress = {task: attempt.progress() for task, attempt in self.attempts.items()}
        return WorkerHeartbeat(
            self.worker,
            self.incarnation,
            self.as_of,
            self._over | progress,
            frozenset(self._started - running),
            self.leaving,
        )

    # --- the dispatcher ---

    def _assigned(self, order: Assignment, now: float, out: list[Effect]) -> None:
        if order.incarnation != self.incarnation or order.as_of < self.as_of:
            return
        self.as_of, self._readers = order.as_of, dict(order.readers)
        self._beat_interval = self._interval or order.beat_interval
        listed = {(run.task, run.attempt) for run in order.runs}
        for task, attempt in list(self.attempts.items()):
            if (task, attempt.order.attempt) not in listed:
                self._stop(task, attempt, out)
        self._started &= listed
        self._over = {t: p for t, p in self._over.items() if (t, p.attempt) in listed}
        if order.drain:
            self._leave(now, out)
        for run in order.runs:
            self._told(run, now, out)
        self._open_early(now, out)
        for attempt in list(self.attempts.values()):
            self._serve(attempt, now, out)

    def _told(self, run: TaskAssignment, now: float, out: list[Effect]) -> None:
        """Start what is new; of what runs, hear what was taken before hearing who parted."""
        key = (run.task, run.attempt)
        if key not in self._started:
            self._started.add(key)
            attempt = Attempt(run, now, self._setting)
            if self.leaving:
                self._over[run.task] = attempt.progress()
                out.append(HeartbeatDue())
                return
            self.attempts[run.task] = attempt
            attempt.begin(now, out)
        elif run.task in self.attempts:
            self.attempts[run.task].take(run.taken.runs, out)
        else:
            return
        self._free_parted(self.attempts[run.task], out)

    def _free_parted(self, attempt: Attempt, out: list[Effect]) -> None:
        """A reader that the order does not mention is new, not gone: orders are slow."""
        for reader in {*attempt.places.held, *attempt.serving.streams}:
            standing = self._readers.get(reader, ReaderStatus.LIVE)
            if standing is not ReaderStatus.LIVE:
                attempt.parted(reader, standing, out)

    def _stop(self, task: TaskId, attempt: Attempt, out: list[Effect]) -> None:
        del self.attempts[task]
        attempt.stop(out)
        self._past[task] = attempt.order.attempt
        if len(self._past) > PAST:
            del self._past[next(iter(self._past))]
        self._runs = {run: other for run, other in self._runs.items() if other is not attempt}

    def _granted(self, grant: SplitGrant, out: list[Effect]) -> None:
        attempt = self.attempts.get(grant.task)
        if attempt is not None and attempt.order.attempt == grant.attempt:
            attempt.granted(grant, out)

    def _ask_again(self, out: list[Effect]) -> None:
        for attempt in self.attempts.values():
            for stream, position in attempt.trail.asked:
                out.append(RequestSplits(self._request(attempt, stream, position)))

    def _request(self, attempt: Attempt, stream: int, position: int) -> SplitRequest:
        task, number = attempt.order.task, attempt.order.attempt
        return SplitRequest(self.worker, self.incarnation, task, number, stream, position)

    def _leave(self, now: float, out: list[Effect]) -> None:
        """Begin to leave: make no more, hand over what is served, and say so."""
        if self.leaving:
            return
        self.leaving = True
        out += [DrainStarted(), HeartbeatDue()]
        for attempt in list(self.attempts.values()):
            attempt.leave(now, out)
            self._serve(attempt, now, out)

    def _ticked(self, now: float, out: list[Effect]) -> None:
        for stream, early in list(self._early.items()):
            if now >= early.until:
                del self._early[stream]
                out.append(AbortStream(stream, self._unknown(early.open)))
        for attempt in list(self.attempts.values()):
            attempt.tick()
            self._serve(attempt, now, out)
        if now >= self._beat_at:
            self._beat_at = now + self._beat_interval
            self._ask_again(out)
            out.append(HeartbeatDue())

    def _serve(self, attempt: Attempt, now: float, out: list[Effect]) -> None:
        """Serve who reads an attempt; let go of it if it is over by its own word."""
        attempt.serve(now, out)
        task = attempt.order.task
        if attempt.over and self.attempts.get(task) is attempt:
            self._over[task] = attempt.progress()
            self._stop(task, attempt, out)
            out.append(HeartbeatDue())

    # --- runners ---

    def _name_run(self, attempt: Attempt) -> int:
        self._run += 1
        self._runs[self._run] = attempt
        return self._run

    def _reported(self, report: FromRunner, now: float, out: list[Effect]) -> None:
        attempt = self._runs.get(report.run)
        if attempt is None:
            return
        if isinstance(report, RunnerLost):
            del self._runs[report.run]
            self.tally.runners_lost += 1
            attempt.died(report.how, out)
        elif isinstance(report, RunnerNotStarted):
            del self._runs[report.run]
            attempt.not_started(report.why, out)
        elif attempt.failure is None:
            attempt.reported()
            self._hear(attempt, report, now, out)
        self._serve(attempt, now, out)

    def _hear(
        self,
        attempt: Attempt,
        report: NondeterminismFound
        | FrameReady
        | ElementsSkipped
        | CheckpointTaken
        | SplitsNeeded
        | ArenaFull
        | RunPaused
        | RunEnded
        | RunFailed,
        now: float,
        out: list[Effect],
    ) -> None:
        match report:
            case NondeterminismFound() | ElementsSkipped():
                _account(attempt, report)
            case FrameReady():
                attempt.made(report, now, out)
            case CheckpointTaken():
                attempt.reached(report.state)
            case SplitsNeeded(_, stream, position):
                if not self.leaving and attempt.trail.needs(stream, position):
                    out.append(RequestSplits(self._request(attempt, stream, position)))
            case ArenaFull():
                attempt.full()
            case RunPaused():
                attempt.paused()
            case RunEnded():
                attempt.ended(report.number, out)
            case RunFailed():
                attempt.fail(self._signed(report.failure), out)
            case _:
                assert_never(report)

    def _signed(self, failure: Failure) -> Failure:
        """Say in an error of a pipeline on which worker it was."""
        error = failure.error()
        if isinstance(error, TransformError) and error.worker is None:
            return Failure.of(error.but(worker=self.worker))
        if isinstance(error, DatasetError):
            return Failure(failure.kind, (f"worker {self.worker}: {error}",))
        return failure

    # --- readers ---

    def _read(self, event: FromReader, now: float, out: list[Effect]) -> None:
        if isinstance(event, StreamOpened):
            self._opened(event.stream, _Early(event.open, now + PATIENCE), now, out)
        elif event.stream in self._early:
            self._read_early(event)
        elif event.stream in self._streams:
            attempt, stream = self._streams[event.stream]
            match event:
                case StreamAcked(ack=ack):
                    attempt.acked(stream, ack, out)
                case StreamWritable():
                    stream.asking = True
                case StreamClosed():
                    del self._streams[event.stream]
                    attempt.serving.hung(stream)
                case _:
                    assert_never(event)
            self._serve(attempt, now, out)

    def _read_early(self, event: StreamAcked | StreamWritable | StreamClosed) -> None:
        """Keep what a reader says before its stream can be opened: it says it once."""
        early = self._early[event.stream]
        match event:
            case StreamAcked(stream, ack):
                said = replace(
                    early.open,
                    taken=early.open.taken.plus(ack.taken),
                    buffered=early.open.buffered - ack.taken,
                    credit=early.open.credit + ack.credit,
                )
                self._early[stream] = replace(early, open=said)
            case StreamClosed(stream):
                del self._early[stream]
            case StreamWritable():
                pass  # who opens a stream asks for a frame
            case _:
                assert_never(event)

    def _opened(self, name: StreamId, early: _Early, now: float, out: list[Effect]) -> None:
        opening = early.open
        attempt = self.attempts.get(opening.task)
        number = attempt.order.attempt if attempt is not None else self._past.get(opening.task, 0)
        if self._readers.get(opening.reader, ReaderStatus.LIVE) is not ReaderStatus.LIVE:
            out.append(SendEnd(name, StreamEnd(opening.task, opening.attempt)))
        elif attempt is not None and number == opening.attempt:
            stream = attempt.opened(name, opening, out)
            if stream is not None:
                self._streams[name] = (attempt, stream)
            self._serve(attempt, now, out)
        elif number >= opening.attempt:
            out.append(SendEnd(name, StreamEnd(opening.task, opening.attempt)))
        else:
            self._early[name] = early

    def _unknown(self, opening: Subscribe) -> str:
        return (
            f"worker {self.worker} was not assigned attempt {opening.attempt} of task "
            f"{opening.task} within {PATIENCE:g} s"
        )

    def _open_early(self, now: float, out: list[Effect]) -> None:
        waiting, self._early = self._early, {}
        for name, early in waiting.items():
            self._opened(name, early, now, out)


def _account(attempt: Attempt, report: NondeterminismFound | ElementsSkipped) -> None:
    """Know something that matters for the account only."""
    match report:
        case NondeterminismFound():
            attempt.effort.exact = False
        case ElementsSkipped(_, count):
            attempt.effort.skipped += count
        case _:
            assert_never(report)
