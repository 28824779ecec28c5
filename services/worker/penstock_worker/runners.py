"""The runs under way: definitions fetched, runners started and stopped, commands passed on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from penstock.errors import Overloaded, PenstockError, Unavailable
from penstock.protocol.control import TaskAssignment
from penstock.protocol.types import Failure, Mode
from penstock.runtime import log_lines
from penstock.storage.counts import StorageCounts
from penstock.wire.dispatcher import DispatcherApi
from penstock_worker.core.events import (
    FromRunner,
    NondeterminismFound,
    RunnerLost,
    RunnerNotStarted,
    RunReport,
    StartRunner,
)
from penstock_worker.core.loans import BorrowerId, Loan, Loans
from penstock_worker.definition_cache import DefinitionCache
from penstock_worker.runner import capacity
from penstock_worker.runner.arena import LeftMemory
from penstock_worker.runner.messages import (
    FilesRead,
    FrameReady,
    FreeFrames,
    KeepPlaces,
    ReturnPlaces,
    RunCommand,
    RunFailed,
    RunnerReport,
    SplitsNeeded,
    StartRun,
)
from penstock_worker.runner.pool import RunnerPool
from penstock_worker.runner.process import RunnerDied, RunnerProcess
from penstock_worker.start_gate import StartGate

log = logging.getLogger("penstock.worker")

T = TypeVar("T")

OnEvent: TypeAlias = Callable[[FromRunner], None]

LEAST_STARTS = 2
"""So many runs may begin at once where there are fewer slots: one waits while another works."""

COPIED = 64 << 20
"""The most bytes of a runner that died that are copied: streams wait for that."""


class ActiveRunners:
    """Runs by number, each in a runner of *pool*.

    Commands for a run wait until its runner is there. Of a run whose runner has died, frames are
    kept until they are freed.
    """

    def __init__(
        self,
        pool: RunnerPool,
        dispatcher: DispatcherApi,
        buffer_bytes: int = 64 << 20,
        gate: StartGate | None = None,
    ) -> None:
        self.loans: Loans[RunnerProcess] = Loans(buffer_bytes // 2, 2 * buffer_bytes, buffer_bytes)
        """What readers on this host look at. *buffer_bytes* is what a runner may have produced."""
        self._pool = pool
        self._definitions = DefinitionCache(dispatcher)
        self._gate = gate or StartGate(LEAST_STARTS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_failure: Callable[[BaseException], None] = _log
        """Called with errors that no attempt gets."""
        self.files_read = StorageCounts()
        """What all runners have read of remote files."""
        self._starting: dict[int, list[RunCommand]] = {}
        self._runners: dict[int, _Placed] = {}
        self._retained: dict[int, dict[int, bytes]] = {}
        self._left: dict[int, _Left] = {}

    @property
    def definition_bytes(self) -> int:
        """The bytes of the definitions that are cached."""
        return self._definitions.nbytes

    @property
    def retained_bytes(self) -> int:
        """The bytes of frames of runs whose runners have died."""
        copied = sum(len(frame) for frames in self._retained.values() for frame in frames.values())
        return copied + sum(left.memory.nbytes for left in self._left.values())

    def start(self, effect: StartRunner, on_event: OnEvent) -> None:
        """Have a runner carry *effect* out as soon as there is one; *on_event* gets its reports."""
        self._starting[effect.run] = []
        self._spawn(self._start(effect, on_event), f"start run {effect.run}")

    def stop(self, run: int) -> None:
        """Stop a run, whether it has started or not."""
        self._starting.pop(run, None)
        self._gate.begun(run)
        placed = self._runners.pop(run, None)
        if placed is not None:
            # Of what was left of a runner that died, frames are needed yet.
            kept = () if run in self._left else self.loans.end_run(placed.runner)
            if kept:
                placed.runner.send(KeepPlaces(run, kept))
            self._spawn(placed.runner.stop(), f"stop run {run}")

    def retain(self, run: int, frames: tuple[FrameReady, ...]) -> None:
        """Keep *frames* of a run whose runner is gone: copies, or its arena if they are many."""
        placed = self._runners.get(run)
        if placed is not None and sum(frame.nbytes for frame in frames) > COPIED:
            self._leave(run, placed.runner, {frame.offset: frame.nbytes for frame in frames})
            return
        self._retained[run] = {frame.offset: bytes(self.payload(frame)) for frame in frames}

    def send(self, command: RunCommand) -> None:
        """Send *command* to the runner of its run, once that is there."""
        placed = self._runners.get(command.run)
        if placed is not None and isinstance(command, FreeFrames):
            free, kept = self.loans.free(placed.runner, command.offsets)
            if free:
                placed.runner.send(FreeFrames(command.run, free))
            if kept:
                placed.runner.send(KeepPlaces(command.run, kept))
        elif placed is not None:
            placed.runner.send(command)
        elif command.run in self._starting:
            self._starting[command.run].append(command)
        elif isinstance(command, FreeFrames):
            self._free(command)

    def payload(self, frame: FrameReady) -> memoryview:
        """Return the bytes of a frame, where the runner wrote them if it lives."""
        placed = self._runners.get(frame.run)
        if placed is None and frame.run in self._left:
            return self._left[frame.run].memory.frame(frame.offset)
        if placed is None:
            return memoryview(self._retained[frame.run][frame.offset])
        return placed.arena[frame.offset : frame.offset + frame.nbytes]

    # --- readers on this host ---

    def runner_of(self, frame: FrameReady) -> RunnerProcess | None:
        """Return the runner in whose memory *frame* lies, if it lives."""
        placed = self._runners.get(frame.run)
        return None if placed is None or placed.runner.arena_file < 0 else placed.runner

    def lend(self, borrower: BorrowerId, frame: FrameReady) -> Loan:
        """Lend *frame*, which has a runner, to a reader."""
        runner = self._runners[frame.run].runner
        return self.loans.lend(borrower, runner, frame.offset, frame.nbytes)

    def give_back(self, borrower: BorrowerId, loans: Iterable[int]) -> None:
        """Note that a reader gave back *loans*."""
        self._return(self.loans.give_back(borrower, loans))

    def hang_up(self, borrower: BorrowerId) -> None:
        """Note that a reader is gone: it looks at nothing any more."""
        self._return(self.loans.hang_up(borrower))

    def _return(self, free: Mapping[RunnerProcess, tuple[int, ...]]) -> None:
        for runner, offsets in free.items():
            left = [run for run, left in self._left.items() if left.runner is runner]
            if left:
                self._free_left(left[0], offsets)
            else:
                runner.send(ReturnPlaces(offsets))

    def _leave(self, run: int, runner: RunnerProcess, frames: dict[int, int]) -> None:
        """Keep of a dead runner's memory *frames*, and what readers look at."""
        lent = self.loans.lent(runner)
        self.loans.free(runner, lent.keys() - frames.keys())
        self._left[run] = _Left(runner, runner.leave((lent | frames).items()))

    def _free_left(self, run: int, offsets: Iterable[int]) -> None:
        memory = self._left[run].memory
        for offset in offsets:
            memory.free(offset)
        if not memory:
            del self._left[run]

    async def close(self) -> None:
        """Start and stop nothing more, and free all runners' memory."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._starting.clear()
        self._runners.clear()
        self._retained.clear()
        self._left.clear()

    def _free(self, command: FreeFrames) -> None:
        """Free frames of a runner that has died."""
        if (left := self._left.get(command.run)) is not None:
            free, _ = self.loans.free(left.runner, command.offsets)
            self._free_left(command.run, free)
        elif (kept := self._retained.get(command.run)) is not None:
            for offset in command.offsets:
                del kept[offset]
            if not kept:
                del self._retained[command.run]

    def _on_report(
        self, on_event: OnEvent, runner: RunnerProcess, report: RunnerReport | RunnerDied
    ) -> None:
        try:
            if isinstance(report, FilesRead):
                self.files_read = self.files_read.plus(report.read)
            elif report.run in self._starting:
                if not isinstance(report, SplitsNeeded):
                    self._gate.begun(report.run)
                self._place(report.run, runner)
                on_event(_event(report))
        except Exception as exc:  # noqa: BLE001  a report that is lost would be missed for ever
            self.on_failure(exc)

    async def _start(self, effect: StartRunner, on_event: OnEvent) -> None:
        run, dataset = effect.run, effect.assignment.dataset
        await asyncio.sleep(effect.delay)
        definition = await self._had(self._definitions.get(dataset), effect, on_event)
        if definition is None:
            return
        async with self._gate.turn(run) as turn:
            if run not in self._starting:  # it was stopped while others had their turns
                self._gate.begun(run)
                return
            on_report = partial(self._on_report, on_event)
            start = self._pool.start(definition.data, _start(effect), on_report)
            runner = await self._had(start, effect, on_event)
            if runner is None:
                return
            turn.pid = runner.pid
            if run not in self._starting:
                await runner.stop()
                return
            self._place(run, runner)
            if definition.nondeterministic:
                on_event(NondeterminismFound(run))

    async def _had(
        self, wanted: Coroutine[Any, Any, T], effect: StartRunner, on_event: OnEvent
    ) -> T | None:
        """Return what a run needs, or None where it cannot be had, or is not needed any more."""
        run = effect.run
        try:
            return await wanted
        except Exception as exc:  # noqa: BLE001  whatever it is, an attempt waits for this run
            self._gate.begun(run)
            if run in self._starting:
                on_event(_why_not(run, effect.assignment.checkpoint.number, exc))
            return None

    def _place(self, run: int, runner: RunnerProcess) -> None:
        if run not in self._runners:
            self._runners[run] = _Placed(runner, runner.arena)
            for command in self._starting[run]:
                runner.send(command)

    def _spawn(self, coro: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.on_failure(failure)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A runner, and its memory, which is still needed when its process is gone."""

    runner: RunnerProcess
    arena: memoryview


@dataclass(frozen=True, slots=True)
class _Left:
    """The memory of a dead runner that is still needed."""

    runner: RunnerProcess
    memory: LeftMemory


def _log(failure: BaseException) -> None:
    log.error("a run failed", exc_info=failure)


def _start(effect: StartRunner) -> StartRun:
    task, window = effect.assignment, effect.window
    static = task.static
    return StartRun(
        effect.run,
        task.dataset,
        task.index,
        task.seed,
        task.codec,
        task.checkpoint,
        task.logs,
        effect.send_from,
        effect.flush_each,
        consumers=_consumers(task),
        window=0 if window is None else window.nbytes,
        elsewhere=0 if window is None else window.elsewhere,
        skip_errors=task.skip_errors,
        mode=Mode.OFF if static is None else static.mode,
        shards=0 if static is None else static.shards,
        share=effect.share,
        room=effect.room,
        worker=log_lines.identity("worker"),
        iteration=task.iteration,
        task=task.task,
        attempt=task.attempt,
    )


def _consumers(task: TaskAssignment) -> int:
    """Return among how many consumers elements are divided one by one; 0 if they are not."""
    if task.stride is not None:
        return task.stride.consumers
    return 0 if task.grouped is None else task.grouped.consumers


def _why_not(run: int, number: int, error: Exception) -> RunFailed | RunnerNotStarted:
    """Return the event of a run that did not start: there is no room now, or it failed."""
    match error:
        case Overloaded() | Unavailable():
            return RunnerNotStarted(run, str(error))
        case PenstockError():
            return RunFailed(run, number, Failure.of(error))
        case OSError() | MemoryError():
            return RunnerNotStarted(run, capacity.lacking(error))
        case _:
            log.error("run %d could not be started", run, exc_info=error)
            bug = PenstockError(f"no runner was started, for {error!r}; this is a bug")
            return RunFailed(run, number, Failure.of(bug))


def _event(report: RunnerReport | RunnerDied) -> FromRunner:
    match report:
        case RunnerDied(run, _, _, lacking) if lacking:
            return RunnerNotStarted(run, lacking)
        case RunnerDied(run, "", code):
            return RunnerLost(run, f"the process ended with exit code {code}")
        case RunnerDied(run, name, _):
            return RunnerLost(run, f"the process died of {name}")
        case _ if isinstance(report, RunReport):
            return report
        case _:
            raise AssertionError(f"a runner has no business to say {report}")
