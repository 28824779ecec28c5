"""All child processes for functions: forked when needed, kept warm between iterations.

A fork server forks them. A keeper thread ends processes that were idle too long. When none are
left, it ends the server and itself.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from penstock.errors import Closed, ConfigError
from penstock.executors.messages import PROGRAM
from penstock.executors.process import FunctionProcess
from penstock.ipc.fork_client import ForkClient
from penstock.ipc.idle_pool import IdlePool
from penstock.runtime.cores import cores
from penstock.runtime.linux import check_linux
from penstock.runtime.settings import from_env

CLOSE_SECONDS = 0.5
"""How long processes may take to end by themselves; then they are killed."""


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """Settings for ``executor="process"``, each also as a ``PENSTOCK_*`` variable.

    Attributes:
        process_memory: bytes that a process may have for itself. Above that, another process
            replaces it. If its first elements took more than half of it, the limit is twice
            what they took.
        process_idle: seconds for which an unused process waits for the next iteration.
        processes_idle: how many unused processes may wait; None is two for each core.
    """

    process_memory: int = 2 << 30
    process_idle: float = 60.0
    processes_idle: int | None = None

    def __post_init__(self) -> None:
        if self.process_memory < 1:
            raise ConfigError(
                f"process_memory must be a number of bytes above 0, not {self.process_memory}"
            )
        if self.process_idle < 0:
            raise ConfigError(f"process_idle must not be negative, as {self.process_idle} is")
        if self.processes_idle is not None and self.processes_idle < 0:
            raise ConfigError(f"processes_idle must not be negative, as {self.processes_idle} is")

    @property
    def most_idle(self) -> int:
        """How many processes may wait."""
        if self.processes_idle is not None:
            return self.processes_idle
        return 2 * cores()


class ProcessPool:
    """Processes that are in use, and processes that wait. For any thread."""

    def __init__(self, settings: ProcessSettings | None = None) -> None:
        self._settings = settings or from_env(ProcessSettings, os.environ)
        self._idle: IdlePool[FunctionProcess] = IdlePool(
            self._settings.most_idle, self._settings.process_idle
        )
        self._used: set[FunctionProcess] = set()
        self._lock = threading.Lock()
        self._starting = 0
        """How many processes are being forked."""
        self._server = ForkClient(PROGRAM, ["-P"], session=False)
        self._changes: SimpleQueue[None] = SimpleQueue()
        """Wakes the keeper."""
        self._keeper: threading.Thread | None = None
        self._closed = False

    def take(self, key: str) -> FunctionProcess:
        """Return a process for the function *key*: one that has it, or any other; `put` it back.

        Raises:
            ConfigError: where this is not Linux.
            Unavailable: when none can be started.
            RuntimeError: when the system has no room for the keeper thread.
            Closed: when this process is about to end.
        """
        check_linux('executor="process"', 'use executor="thread", or have workers run the pipeline')
        with self._lock:
            self._check_open()
            full = len(self._used) + len(self._idle) >= self._settings.most_idle
            process = self._idle.take(key, any_key=full)
            if process is not None:
                self._used.add(process)
                return process
            self._keep()
            self._starting += 1
        try:
            process = FunctionProcess.start(self._server)
        finally:
            with self._lock:
                self._starting -= 1
                if process is not None:
                    self._used.add(process)
            self._changes.put(None)
        if self._closed:
            self.put(process, fit=False)
        self._check_open()
        return process

    def put(self, process: FunctionProcess, *, fit: bool = True) -> None:
        """Return *process* to the pool; a process that is not *fit* for more calls ends."""
        with self._lock:
            self._used.discard(process)
            fit = fit and not self._closed and not self._is_large(process)
            if fit:
                process.rest()
            ending = self._idle.put(process, time.monotonic()) if fit else [process]
            self._changes.put(None)  # there is another time to wait for
        _end(ending, CLOSE_SECONDS if fit else 0.0)

    def is_large(self, process: FunctionProcess) -> bool:
        """Return whether *process* has grown above its cap, so that another should replace it."""
        return self._is_large(process)

    def close(self) -> None:
        """End all processes. Idempotent."""
        with self._lock:
            self._closed = True
            ending = [*self._idle.clear(), *self._used]
            self._changes.put(None)
            keeper = self._keeper
        _end(ending, CLOSE_SECONDS)
        if keeper is not None:
            keeper.join(CLOSE_SECONDS)
        self._server.close(CLOSE_SECONDS)

    def _is_large(self, process: FunctionProcess) -> bool:
        return process.resident > max(self._settings.process_memory, 2 * process.first_resident)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the processes of this process were ended: it is about to end, too")

    # --- the keeper's thread, which holds the lock but while it waits ---

    def _keep(self) -> None:
        if self._keeper is None:
            # A daemon: it must not keep this process from ending.
            keeper = threading.Thread(target=self._run, name="penstock-keeper", daemon=True)
            keeper.start()
            self._keeper = keeper

    def _run(self) -> None:
        while True:
            self._wait()
            with self._lock:
                ending = self._idle.expire(time.monotonic())
            _end(ending, CLOSE_SECONDS)  # before it is forgotten: `close` waits for it
            with self._lock:
                # A pool that is closed takes back nothing: what is used ends as it is put back.
                used = (self._used or self._starting) and not self._closed
                if not used and not self._idle and self._changes.empty():
                    self._keeper = None
                    # Under the lock: otherwise `take` could fork a process that ends with this.
                    self._server.close()
                    return

    def _wait(self) -> None:
        """Wait until something changes, or the time of an idle process is over."""
        with self._lock:
            due = self._idle.due()
        with suppress(Empty):
            self._changes.get(timeout=due and max(0.0, due - time.monotonic()))


def _end(processes: Iterable[FunctionProcess], seconds: float) -> None:
    """End *processes* within this many *seconds*."""
    ending = list(processes)
    for process in ending:
        process.leave() if seconds else process.kill()
    deadline = time.monotonic() + seconds
    for process in ending:
        process.reap(max(0.0, deadline - time.monotonic()))


class _Pools:
    """The pool of this process. A fork has none at first: the processes are its parent's."""

    def __init__(self) -> None:
        self.pool: ProcessPool | None = None
        self.lock = threading.Lock()
        self.foreign: list[ProcessPool] = []
        if hasattr(os, "register_at_fork"):  # nothing forks on Windows
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.lock = threading.Lock()
        if self.pool is not None:
            self.foreign.append(self.pool)
            self.pool = None


_pools = _Pools()


def pool() -> ProcessPool:
    """Return the pool of this process."""
    with _pools.lock:
        if _pools.pool is None:
            _pools.pool = ProcessPool()
        return _pools.pool


@atexit.register
def close() -> None:
    """End all processes of this process; the next use starts new ones."""
    with _pools.lock:
        ending, _pools.pool = _pools.pool, None
    if ending is not None:
        ending.close()
