"""`WorkerCore`: it runs attempts as assigned, and serves their elements.

Rule 1. Nothing here awaits, reads a clock, draws a random number or logs.
Rule 2. `WorkerCore.handle` is the only entry: only events change the state.
Rule 3. The dispatcher's assignment is a level: tasks that it lists run, all others stop.
Rule 4. An attempt that ended by itself is reported as ended until no assignment lists it.
"""

from __future__ import annotations

from typing import assert_never

from penstock.errors import DatasetError, ElementError, TransformError
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
from penstock_worker.core import division
from penstock_worker.core.attempt import Attempt
from penstock_worker.core.counters import WorkerCounters
from penstock_worker.core.early_streams import PATIENCE, EarlyStreams, never_assigned
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
    RunReport,
    SendEnd,
    StreamAcked,
    StreamClosed,
    StreamId,
    StreamOpened,
    StreamWritable,
    Tick,
)
from penstock_worker.core.runner_history import PastTimes
from penstock_worker.core.shares import AttemptConfig
from penstock_worker.core.sharing_readers import ReadStream
from penstock_worker.runner.messages import (
    ArenaFull,
    CheckpointTaken,
    CodecChosen,
    ElementsSkipped,
    ErrorsCounted,
    FrameReady,
    RunEnded,
    RunFailed,
    RunPaused,
    SplitsNeeded,
    TimesMeasured,
)

PAST = 1000
"""How many tasks that ran here are remembered, so that late readers are refused at once."""


class WorkerCore:
    """One incarnation of a worker: a restarted one remembers nothing.

    A job may have *room* bytes produced and not acked; all jobs that are not cached may have
    *total* bytes together. A cached job may keep *cache* bytes. Tasks that fill *slots* share them.
    """

    def __init__(
        self,
        worker: WorkerId,
        incarnation: int,
        beat_interval: float | None,
        room: int,
        cache: int = 1 << 30,
        slots: int = 1,
        total: int = 1 << 40,
    ) -> None:
        self.worker = worker
        self.incarnation = incarnation
        self.revision = -1
        self._seq = 0
        self.attempts: dict[TaskId, Attempt] = {}
        self.counters = WorkerCounters()
        self.draining = False
        self._drained = False
        self._total = total
        self._config = AttemptConfig(worker, room, cache, slots, self.counters, self._new_run)
        self._interval = beat_interval
        self._heartbeat_interval = beat_interval or 1.0
        self._heartbeat_at = 0.0
        self._readers: dict[ReaderId, ReaderStatus] = {}
        self._started: set[tuple[TaskId, int]] = set()
        self._ended: dict[TaskId, AttemptProgress] = {}
        self._runs: dict[int, Attempt] = {}
        self._run = 0
        self._streams: dict[StreamId, tuple[Attempt, ReadStream]] = {}
        self._early = EarlyStreams()
        self._former: dict[TaskId, int] = {}
        self.past_times = PastTimes()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle *event*, and return its effects, in order."""
        out: list[Effect] = []
        match event:
            case Assignment():
                self._on_assignment(event, now, out)
            case SplitGrant():
                self._on_splits(event, out)
            case DispatcherConnected():
                self._on_connected(out)
            case DrainRequested():
                self._on_drain(now, out)
            case Tick():
                self._on_tick(now, out)
            case (
                NondeterminismFound()
                | FrameReady()
                | CodecChosen()
                | TimesMeasured()
                | ElementsSkipped()
                | ErrorsCounted()
                | CheckpointTaken()
                | SplitsNeeded()
                | ArenaFull()
                | RunPaused()
                | RunEnded()
                | RunFailed()
                | RunnerLost()
                | RunnerNotStarted()
            ):
                self._on_report(event, now, out)
            case StreamOpened() | StreamAcked() | StreamWritable() | StreamClosed():
                self._on_stream_event(event, now, out)
            case _:
                assert_never(event)
        if self.draining and not (self._drained or self.attempts or self._ended):
            self._drained = True
            out.append(Drained())
        return out

    def heartbeat(self) -> WorkerHeartbeat:
        """Return everything that the dispatcher should know now."""
        running = {(task, attempt.assignment.attempt) for task, attempt in self.attempts.items()}
        progress = {task: attempt.progress() for task, attempt in self.attempts.items()}
        self._seq += 1
        return WorkerHeartbeat(
            self.worker,
            self.incarnation,
            self.revision,
            self._ended | progress,
            frozenset(self._started - running),
            self.draining,
            seq=self._seq,
        )

    # --- the dispatcher ---

    def _on_assignment(self, assignment: Assignment, now: float, out: list[Effect]) -> None:
        if assignment.incarnation != self.incarnation or assignment.revision < self.revision:
            return
        self.revision, self._readers = assignment.revision, dict(assignment.readers)
        self._heartbeat_interval = self._interval or assignment.heartbeat_interval
        listed = {(run.task, run.attempt) for run in assignment.tasks}
        for task, attempt in list(self.attempts.items()):
            if (task, attempt.assignment.attempt) not in listed:
                self._stop(task, attempt, out)
        self._started &= listed
        self._ended = {t: p for t, p in self._ended.items() if (t, p.attempt) in listed}
        if assignment.drain:
            self._on_drain(now, out)
        for run in assignment.tasks:
            self._on_task(run, now, out)
        division.divide_buffer(self.attempts.values(), self._total, out)
        division.divide_cache(self.attempts.values(), self._config.cache, out)
        division.divide_slots(self.attempts.values(), self._config.slots, out)
        self._open_early(now, out)
        for attempt in list(self.attempts.values()):
            self._serve(attempt, now, out)

    def _on_task(self, run: TaskAssignment, now: float, out: list[Effect]) -> None:
        """Start a new task. For a running one, mark acked elements before removing readers."""
        key = (run.task, run.attempt)
        if key not in self._started:
            self._started.add(key)
            attempt = Attempt(run, now, self._config)
            if self.draining:
                self._ended[run.task] = attempt.progress()
                out.append(HeartbeatDue())
                return
            self.attempts[run.task] = attempt
            if run.cached is None:  # else its room depends on what else is assigned
                attempt.start_runner(now, out)
        elif run.task in self.attempts:
            self.attempts[run.task].on_assigned(run, out)
        else:
            return
        self._drop_removed_readers(self.attempts[run.task], out)

    def _drop_removed_readers(self, attempt: Attempt, out: list[Effect]) -> None:
        """Remove readers that are not live; one that no assignment mentions yet is new."""
        for reader in attempt.delivery.readers:
            status = self._readers.get(reader, ReaderStatus.LIVE)
            if status is not ReaderStatus.LIVE:
                attempt.delivery.remove_reader(reader, status, out)

    def _stop(self, task: TaskId, attempt: Attempt, out: list[Effect]) -> None:
        del self.attempts[task]
        attempt.stop(out)
        self.past_times.add(attempt.assignment.iteration, task, attempt.times.whole)
        self._former[task] = attempt.assignment.attempt
        if len(self._former) > PAST:
            del self._former[next(iter(self._former))]
        self._runs = {run: other for run, other in self._runs.items() if other is not attempt}
        if attempt.cache_room is not None:
            division.divide_cache(self.attempts.values(), self._config.cache, out)

    def _on_splits(self, grant: SplitGrant, out: list[Effect]) -> None:
        attempt = self.attempts.get(grant.task)
        if attempt is not None and attempt.assignment.attempt == grant.attempt:
            attempt.on_splits(grant, out)

    def _on_connected(self, out: list[Effect]) -> None:
        for attempt in self.attempts.values():
            for provider, position in attempt.checkpoints.requested:
                out.append(RequestSplits(self._request(attempt, provider, position)))

    def _request(self, attempt: Attempt, provider: int, position: int) -> SplitRequest:
        task, number = attempt.assignment.task, attempt.assignment.attempt
        return SplitRequest(self.worker, self.incarnation, task, number, provider, position)

    def _on_drain(self, now: float, out: list[Effect]) -> None:
        """Begin to drain: produce no more, hand tasks over once they are served, and report it."""
        if self.draining:
            return
        self.draining = True
        out += [DrainStarted(), HeartbeatDue()]
        for attempt in list(self.attempts.values()):
            attempt.drain(now, out)
            self._serve(attempt, now, out)

    def _on_tick(self, now: float, out: list[Effect]) -> None:
        for stream, request in self._early.take_expired(now):
            out.append(AbortStream(stream, never_assigned(self.worker, request)))
        for attempt in list(self.attempts.values()):
            attempt.on_tick(now)
            self._serve(attempt, now, out)
        division.divide_slots(self.attempts.values(), self._config.slots, out)
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + self._heartbeat_interval
            self._on_connected(out)
            out.append(HeartbeatDue())

    def _serve(self, attempt: Attempt, now: float, out: list[Effect]) -> None:
        """Serve the readers of an attempt; stop it if it ended by itself."""
        attempt.serve(now, out)
        task = attempt.assignment.task
        if attempt.over and self.attempts.get(task) is attempt:
            self._ended[task] = attempt.progress()
            self._stop(task, attempt, out)
            division.divide_buffer(self.attempts.values(), self._total, out)
            out.append(HeartbeatDue())

    # --- runners ---

    def _new_run(self, attempt: Attempt) -> int:
        self._run += 1
        self._runs[self._run] = attempt
        return self._run

    def _on_report(self, report: FromRunner, now: float, out: list[Effect]) -> None:
        attempt = self._runs.get(report.run)
        if attempt is None:
            return
        if isinstance(report, RunnerLost):
            del self._runs[report.run]
            self.counters.runners_lost += 1
            if attempt.part_with_runner(out):
                attempt.on_runner_lost(report.reason, out)
        elif isinstance(report, RunnerNotStarted):
            del self._runs[report.run]
            if attempt.part_with_runner(out):
                attempt.on_runner_not_started(report.reason, out)
        elif attempt.failure is None:
            attempt.on_first_report()
            self._on_runner_report(attempt, report, now, out)
        self._serve(attempt, now, out)

    def _on_runner_report(
        self, attempt: Attempt, report: RunReport, now: float, out: list[Effect]
    ) -> None:
        match report:
            case (
                NondeterminismFound()
                | ElementsSkipped()
                | ErrorsCounted()
                | CodecChosen()
                | TimesMeasured()
            ):
                _account(attempt, report)
            case FrameReady():
                attempt.on_frame(report, now, out)
            case CheckpointTaken():
                attempt.on_checkpoint(report.checkpoint)
            case SplitsNeeded(_, provider, position):
                if not self.draining and attempt.checkpoints.needs(provider, position):
                    out.append(RequestSplits(self._request(attempt, provider, position)))
            case ArenaFull():
                attempt.on_arena_full()
            case RunPaused():
                attempt.on_paused()
            case RunEnded():
                attempt.on_ended(report.number, out)
            case RunFailed():
                attempt.fail(self._signed(report.failure), out)
            case _:
                assert_never(report)

    def _signed(self, failure: Failure) -> Failure:
        """Return the failure of a pipeline with the worker named in it."""
        error = failure.error()
        if isinstance(error, TransformError) and error.worker is None:
            return Failure.of(error.but(worker=self.worker))
        if not isinstance(error, DatasetError):
            return failure
        task = "a task on " if isinstance(error, ElementError) else ""  # whose number it names
        return Failure(failure.kind, (f"{task}worker {self.worker}: {error}",))

    # --- readers ---

    def _on_stream_event(self, event: FromReader, now: float, out: list[Effect]) -> None:
        if isinstance(event, StreamOpened):
            self._on_opened(event.stream, event.request, now + PATIENCE, now, out)
        elif event.stream in self._early:
            self._early.on_event(event)
        elif event.stream in self._streams:
            attempt, stream = self._streams[event.stream]
            match event:
                case StreamAcked(ack=ack):
                    attempt.on_acked(stream, ack, out)
                case StreamWritable():
                    attempt.link.on_writable(event)
                    attempt.delivery.on_writable(stream)
                case StreamClosed():
                    attempt.on_closed(self._streams.pop(event.stream)[1])
                case _:
                    assert_never(event)
            self._serve(attempt, now, out)

    def _on_opened(
        self, name: StreamId, request: Subscribe, until: float, now: float, out: list[Effect]
    ) -> None:
        attempt, former = self.attempts.get(request.task), self._former.get(request.task, 0)
        number = former if attempt is None else attempt.assignment.attempt
        if self._readers.get(request.reader, ReaderStatus.LIVE) is not ReaderStatus.LIVE:
            out.append(SendEnd(name, StreamEnd(request.task, request.attempt)))
        elif attempt is not None and number == request.attempt:
            stream = attempt.on_opened(name, request, out)
            if stream is not None:
                self._streams[name] = (attempt, stream)
            self._serve(attempt, now, out)
        elif number >= request.attempt:
            out.append(SendEnd(name, StreamEnd(request.task, request.attempt)))
        else:
            self._early.add(name, request, until)

    def _open_early(self, now: float, out: list[Effect]) -> None:
        for name, request, until in self._early.take_all():
            self._on_opened(name, request, until, now, out)


def _account(
    attempt: Attempt,
    report: NondeterminismFound | ElementsSkipped | ErrorsCounted | CodecChosen | TimesMeasured,
) -> None:
    """Record an event that matters only for accounting or status."""
    match report:
        case NondeterminismFound():
            attempt.counters.exact = False
        case ElementsSkipped(_, count):
            attempt.counters.skipped += count
        case ErrorsCounted():
            attempt.on_errors(report)
        case CodecChosen(_, choice):
            attempt.choice = choice
        case TimesMeasured():
            attempt.times.add(report)
        case _:
            assert_never(report)
