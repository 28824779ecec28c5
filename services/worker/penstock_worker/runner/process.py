"""The worker's side of a runner: a process, a socket, an arena, and at most one run."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from penstock.ipc.fork_client import ChildProcess
from penstock.ipc.message_line import MessageLine
from penstock_worker.runner.arena import LeftMemory, SealedMemory
from penstock_worker.runner.messages import (
    REPORTS,
    Command,
    LoadDefinition,
    RoomLacking,
    RunnerReport,
    RunStopped,
    StartRun,
    StopRun,
)

log = logging.getLogger("penstock.worker.runner")


@dataclass(frozen=True, slots=True)
class RunnerDied:
    """The process of a runner is gone: by *signal* (a name), or, if that is "", by an exit.

    If it said before that the system has no room for it, *lacking* is why.
    """

    run: int
    signal: str
    exit_code: int | None
    lacking: str = ""


class RunnerPhase(Enum):
    """The present activity of a runner."""

    IDLE = auto()
    RUNNING = auto()
    STOPPING = auto()
    DYING = auto()
    DEAD = auto()


class RunnerProcess:
    """A process that runs users' code; `RunnerPool.start` gives one that has just begun a run.

    *changed* is called when it becomes idle or dead. `process` is there after the fork.
    """

    def __init__(
        self,
        arena_nbytes: int,
        patience: float,
        changed: Callable[[RunnerProcess], None],
    ) -> None:
        self.process: ChildProcess | None = None
        self.phase = RunnerPhase.IDLE
        self.key = ""
        """The dataset that it has loaded."""
        self._arena_memory = SealedMemory(arena_nbytes)
        self._patience, self._changed = patience, changed
        try:
            ours, self._child_sock = socket.socketpair()
        except OSError:
            self._arena_memory.close()
            raise
        self._loop = asyncio.get_running_loop()
        self._line: MessageLine[RunnerReport] = MessageLine(
            ours, REPORTS, self._receive, self._on_gone
        )
        self._run = -1
        self._lacking = ""
        """Why the system has no room for this process, as it said; then it ends."""
        self._on_report: OnReport | None = None
        self._quiet, self._dead = asyncio.Event(), asyncio.Event()

    @property
    def pid(self) -> int:
        """The number of the process; -1 before it is forked."""
        return -1 if self.process is None else self.process.pid

    @property
    def arena(self) -> memoryview:
        """The shared memory, to read: a frame is ``arena[offset : offset + nbytes]``.

        It lives as long as this object and views of it, also when the process is gone.
        """
        return self._arena_memory.memory

    @property
    def arena_file(self) -> int:
        """The file of that memory, to read only; -1 when the process is gone."""
        return self._arena_memory.fd

    @property
    def files(self) -> tuple[int, int]:
        """The files of the process itself: its socket and its arena."""
        return self._child_sock.fileno(), self._arena_memory.writable

    def close_child_ends(self) -> None:
        """Close the files that the process has by now."""
        self._child_sock.close()
        self._arena_memory.release()

    def begin(self, definition: bytes, start: StartRun, on_report: OnReport) -> None:
        """Begin the run *start* on this idle runner."""
        self._run, self._on_report = start.run, on_report
        self._quiet.clear()
        if self.phase is RunnerPhase.DEAD:
            self._loop.call_soon(self._notify, RunnerDied(start.run, "SIGKILL", None))
            return
        self.phase = RunnerPhase.RUNNING
        if self.key != start.dataset:
            self.send(LoadDefinition(start.dataset, definition))
            self.key = start.dataset
        self.send(start)

    def send(self, command: Command) -> None:
        """Send *command* to the process; never waits."""
        self._line.send(command)

    async def stop(self) -> None:
        """End the run; the runner then waits for another run and overwrites its arena.

        From the call on nothing is reported. Call it when this run's frames are not read any
        more. A process that does not stop, since users' code does not return, is killed.
        """
        if self.phase is RunnerPhase.RUNNING:
            self.phase, self._on_report = RunnerPhase.STOPPING, None
            self.send(StopRun(self._run))
        try:
            async with asyncio.timeout(self._patience):
                await self._quiet.wait()
        except TimeoutError:
            log.info("runner %d is killed: user code holds it for %.1f s", self.pid, self._patience)
            self.kill()
            await self._dead.wait()
        except asyncio.CancelledError:
            self.kill()
            raise

    def kill(self) -> None:
        """End the process at once; nothing more is reported."""
        if self.phase in (RunnerPhase.DYING, RunnerPhase.DEAD):
            return
        self.phase, self._on_report = RunnerPhase.DYING, None
        self._kill()

    async def end(self) -> None:
        """End the process, and wait until it is gone."""
        self.kill()
        await self._dead.wait()

    def on_exit(self, returncode: int) -> None:
        """Note that the process is gone; pass on its last reports, then report its end."""
        while self._line.read():
            pass
        self._hang_up()
        name = signal.Signals(-returncode).name if returncode < 0 else ""
        code = None if name else returncode
        self._notify(RunnerDied(self._run, name, code, self._lacking))
        self._on_report = None
        self._arena_memory.close()
        self._changed(self)

    def leave(self, frames: Iterable[tuple[int, int]]) -> LeftMemory:
        """Return the part of the arena to keep; call it when the end of the process is reported."""
        return LeftMemory(self._arena_memory.fd, frames)

    def close(self) -> None:
        """Let go of socket and files; the process, if there is one, ends by that. Idempotent."""
        self._hang_up()
        self._arena_memory.close()

    def _hang_up(self) -> None:
        """Let go of all but the arena."""
        if self.phase is RunnerPhase.DEAD:
            return
        self.phase = RunnerPhase.DEAD
        self._line.close()
        self._child_sock.close()
        self._quiet.set()
        self._dead.set()

    def _kill(self) -> None:
        if self.process is not None:
            self.process.kill()

    def _on_gone(self, _: str) -> None:
        # It closed its socket. That alone does not end a process: make sure that it is gone.
        self._kill()

    def _receive(self, report: RunnerReport) -> None:
        if isinstance(report, RoomLacking):
            self._lacking = report.reason
        elif not isinstance(report, RunStopped):
            self._notify(report)
        elif self.phase is RunnerPhase.STOPPING and report.run == self._run:
            self.phase = RunnerPhase.IDLE
            self._quiet.set()
            self._changed(self)

    def _notify(self, report: RunnerReport | RunnerDied) -> None:
        if self._on_report is None or report.run != self._run:
            return
        try:
            self._on_report(self, report)
        except Exception as exc:  # noqa: BLE001  the reports behind this one must not be lost
            context = {"message": f"{report} was not handled", "exception": exc}
            self._loop.call_exception_handler(context)


OnReport: TypeAlias = Callable[[RunnerProcess, RunnerReport | RunnerDied], None]
