"""The runners of a worker: forked when needed, kept warm between runs."""

from __future__ import annotations

import math
from typing import Self

from penstock.errors import Closed, ConfigError, Overloaded
from penstock.ipc.idle_pool import IdlePool
from penstock_worker.runner import capacity
from penstock_worker.runner.arena import span
from penstock_worker.runner.confinement import FREE, Confinement
from penstock_worker.runner.fork import RunnerForks
from penstock_worker.runner.messages import RunnerReport, StartRun
from penstock_worker.runner.process import OnReport, RunnerDied, RunnerPhase, RunnerProcess

__all__ = ["OnReport", "RunnerDied", "RunnerPool", "RunnerProcess", "RunnerReport"]


class RunnerPool:
    """Runs datasets in processes; an async context manager, for one event loop.

    Args:
        buffer_bytes: how much each runner may have produced that is not freed.
        max_element_bytes: the largest element; one larger than the buffer stands beside it.
        cache_bytes: how much a runner may have produced that is not freed, if its run has a window.
        keep_idle: how many runners without a run are kept, for the next.
        patience: how long user code may hold up the end of a run before its runner is killed.
        confinement: what runners may do less than this process.
    """

    def __init__(
        self,
        *,
        buffer_bytes: int = 64 << 20,
        max_element_bytes: int = 1 << 30,
        cache_bytes: int = 0,
        keep_idle: int = 4,
        patience: float = 2.0,
        confinement: Confinement = FREE,
    ) -> None:
        _check_positive("buffer_bytes", buffer_bytes)
        _check_positive("max_element_bytes", max_element_bytes)
        self._span = span(max(buffer_bytes, cache_bytes), max_element_bytes)
        self._patience = patience
        self.forks = RunnerForks(buffer_bytes, max_element_bytes, confinement)
        self._all: set[RunnerProcess] = set()
        self._idle: IdlePool[RunnerProcess] = IdlePool(keep_idle, math.inf)
        self._closed = False

    async def __aenter__(self) -> Self:
        self.forks.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self, definition: bytes, start: StartRun, on_report: OnReport) -> RunnerProcess:
        """Begin the run *start* on an idle runner that has its dataset loaded, or on a new one.

        A runner never gets another dataset: what functions change in their process (variables,
        directory, seeds, modules, signal handlers) must not reach other functions.

        *definition* is that of the run's dataset. *on_report* gets the reports in order, and at the
        very end, if the process dies in mid-run, `RunnerDied`.

        Raises:
            ConfigError, Overloaded, Unavailable: see `RunnerForks.fork`.
            Overloaded: when there is no room for what belongs to a runner: files, memory.
            Closed: after `close`.
        """
        if self._closed:
            raise Closed("the runner pool is closed")
        runner = self._idle.take(start.dataset, any_key=False) or await self._fork_with_room()
        runner.begin(definition, start, on_report)
        return runner

    async def close(self) -> None:
        """End all runners, in well under a second; nothing more is reported. Idempotent."""
        self._closed = True
        for runner in self._all:
            runner.kill()
        await self.forks.close()

    async def _fork_with_room(self) -> RunnerProcess:
        """Fork a runner; if the system has no room for it, first end those that wait for a run."""
        while True:
            try:
                return await self._fork()
            except Overloaded:
                waiting = self._idle.take("", any_key=True)
                if waiting is None:
                    raise
                await waiting.end()

    async def _fork(self) -> RunnerProcess:
        try:
            runner = RunnerProcess(self._span, self._patience, self._changed)
        except (OSError, MemoryError) as exc:
            raise Overloaded(capacity.lacking(exc)) from exc
        try:
            runner.process = await self.forks.fork(runner.files, runner.on_exit)
        except BaseException:
            runner.close()
            raise
        runner.close_child_ends()
        self._all.add(runner)
        return runner

    def _changed(self, runner: RunnerProcess) -> None:
        if runner.phase is RunnerPhase.DEAD:
            self._all.discard(runner)
            self._idle.discard(runner)
            return
        for surplus in self._idle.put(runner, 0.0):
            surplus.kill()


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"{name} must be positive, not {value}")
