"""The worker's side of forking runners: asks a fork server for them, and watches their end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace

from penstock.errors import Closed, ConfigError, Overloaded, Unavailable
from penstock.ipc.child import ONE_THREAD, ProcessEnvironment
from penstock.ipc.fork_client import CannotForkError, ForkClient, ForkedProcess
from penstock.runtime.usage import count_in, count_out
from penstock_worker.runner import capacity
from penstock_worker.runner.confinement import (
    FREE,
    RECORDER,
    RUNNER,
    Confinement,
    RunnerSetup,
)

log = logging.getLogger("penstock.worker.runner")

FORK_TIMEOUT = 60.0
"""Seconds that a fork may take; before the first, NumPy and everything else is loaded."""

SHARED_WITHIN = 10.0
"""Seconds that a server has which another process started; after that, the worker starts one."""

CLOSE_TIMEOUT = 0.6
"""Seconds that a server gets to end its runners and itself."""

MAX_FORKS = 8

OnExit = Callable[[int], None]

_shared: list[ForkClient] = []
"""The server of another process that forks runners for this one, if there is one."""


def share(server: ForkClient | None) -> None:
    """Have runners of this process forked by *server* from now on, if it can."""
    _shared[:] = [] if server is None else [server]


class RunnerForks:
    """Has a fork server fork runners, and reports their end. For one event loop.

    The server is the one that was shared with this process. If there is none, or it refuses or does
    not answer, this starts a server of its own. *budget* and *largest* are those of the runners'
    arenas.
    """

    def __init__(self, budget: int, largest: int, confinement: Confinement = FREE) -> None:
        self._confinement = confinement
        self._details = RunnerSetup(budget, largest, confinement).to_bytes()
        self._own = ForkClient("penstock_worker.runner.fork_child", ["-P"])
        self._others = list(_shared)
        self._alive: dict[ForkedProcess, OnExit] = {}
        self._none_alive = asyncio.Event()
        self._slots = asyncio.Semaphore(MAX_FORKS)
        self._closed = False

    def prepare(self) -> None:
        """If this needs a server of its own, start it now: it loads its modules meanwhile."""
        if not self._others:
            self._start()

    async def fork(
        self, files: Sequence[int], on_exit: OnExit, recorder: bytes | None = None
    ) -> ForkedProcess:
        """Fork a runner with *files*, its socket and its arena, and return it.

        With the details of a *recorder*, it is that, which has the socket alone and runs no user's
        code. *on_exit* is called once with the exit code, when the process is gone.

        Raises:
            ConfigError: when what Python loads at start-up makes forking unsound.
            Overloaded: when the system has no room for another process.
            Unavailable: when the server does not live or does not answer.
            Closed: after `close`.
        """
        async with self._slots:
            process = await self._fork(files, recorder)
        if self._closed:
            process.close()
            raise Closed(_CLOSING)
        self._alive[process] = on_exit
        count_in(process.pid)
        asyncio.get_running_loop().add_reader(process.fileno(), self._look, process)
        return process

    async def close(self) -> None:
        """End the server that this started, and all runners; idempotent."""
        self._closed = True
        for process in self._alive:
            process.kill()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                while self._alive:
                    self._none_alive.clear()
                    await self._none_alive.wait()
        except TimeoutError:
            log.info("runners are left alone: they did not end within %.1f s", CLOSE_TIMEOUT)
        self._own.close(0.0)
        for process in list(self._alive):
            self._gone(process, -signal.SIGKILL)

    async def _fork(self, files: Sequence[int], recorder: bytes | None) -> ForkedProcess:
        for server in self._others:
            try:
                return await self._ask(server, files, recorder, SHARED_WITHIN, exact=True)
            except (CannotForkError, Unavailable) as exc:
                log.info("starting a fork server of this worker: %s", exc)
                self._others.clear()
        while True:
            started = self._start()
            pid = self._own.server_pid
            try:
                return await self._ask(self._own, files, recorder, FORK_TIMEOUT, exact=False)
            except CannotForkError as exc:
                raise ConfigError(f"runners cannot be forked: {exc}") from exc
            except Unavailable as exc:
                if self._closed:
                    raise Closed(_CLOSING) from exc
                if not self._own.lost(pid):
                    raise
                text = (
                    f"the server that forks runners ended with status {self._own.returncode}; "
                    "the worker's stderr says why"
                )
                if started:
                    raise Unavailable(text) from exc
                log.warning("%s; starting another", text)

    async def _ask(
        self,
        server: ForkClient,
        files: Sequence[int],
        recorder: bytes | None,
        within: float,
        *,
        exact: bool,
    ) -> ForkedProcess:
        there = ProcessEnvironment.here()
        program, details = (RUNNER, self._details) if recorder is None else (RECORDER, recorder)
        if recorder is None:
            there = replace(there, environment=self._confinement.passed_on(there.environment))
        worker = ["--worker", str(os.getpid())]
        try:
            process = server.ask(
                program, there, files, arguments=worker, exact=exact, details=details
            )
        except Unavailable:
            raise
        except OSError as exc:
            raise Overloaded(capacity.lacking(exc)) from exc
        try:
            await _readable(process.fileno(), within)
            process.answered(within)
        except TimeoutError as exc:
            raise Unavailable(f"no runner was forked within {within:.0f} s") from exc
        else:
            return process
        finally:
            if not process.pid:
                process.close()  # nobody waits for it any more

    def _start(self) -> bool:
        if self._closed:
            raise Closed(_CLOSING)
        if self._own.running:
            return False
        here = ProcessEnvironment.here()
        # The server has one thread, whatever the worker's own environment says.
        environment = {**self._confinement.passed_on(here.environment), **ONE_THREAD}
        try:
            return self._own.start({**environment, b"PYTHONPATH": here.first_path})
        except (OSError, MemoryError) as exc:
            raise Overloaded(
                f"the fork server could not be started: {capacity.lacking(exc)}"
            ) from exc

    def _look(self, process: ForkedProcess) -> None:
        code = process.poll()
        if code is not None:
            self._gone(process, code)

    def _gone(self, process: ForkedProcess, code: int) -> None:
        asyncio.get_running_loop().remove_reader(process.fileno())
        process.close()
        count_out(process.pid)
        self._alive.pop(process)(code)
        if not self._alive:
            self._none_alive.set()


_CLOSING = "this worker's runners were ended: it is closing"


async def _readable(fd: int, within: float) -> None:
    """Wait until *fd* can be read.

    Raises:
        TimeoutError: when that takes more than *within* seconds.
    """
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, came.set)
    try:
        async with asyncio.timeout(within):
            await came.wait()
    finally:
        loop.remove_reader(fd)
