"""The runs under way: definitions in, runners started and stopped, orders passed on."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from penstock.errors import PenstockError, Unavailable
from penstock.messages import Failure, Run
from penstock.numbers import DatasetId
from penstock.wire.dispatcher import DispatcherApi
from penstock_worker.core.events import FromRunner, RunnerLost
from penstock_worker.runner.orders import (
    Ended,
    Failed,
    Free,
    Grant,
    Made,
    Need,
    Reached,
    Report,
    Start,
    Want,
)
from penstock_worker.runner.pool import Runner, RunnerDied, RunnerPool

Tell: TypeAlias = Callable[[FromRunner], None]

KEPT = 8
"""Definitions that are kept: epochs and neighbours use the same ones again."""

AGAIN = 0.2
"""Seconds until a definition is asked for again when the dispatcher does not answer."""


class ActiveRuns:
    """Runs by number, each in a runner of *pool*.

    A wanted run keeps the orders for it until its runner is there.
    """

    def __init__(self, pool: RunnerPool, dispatcher: DispatcherApi) -> None:
        self._pool = pool
        self._definitions = Definitions(dispatcher)
        self._tasks: set[asyncio.Task[None]] = set()
        self._wanted: dict[int, list[Grant | Free | Want]] = {}
        self._runners: dict[int, _Placed] = {}

    @property
    def definition_bytes(self) -> int:
        """The bytes of the definitions that are kept."""
        return self._definitions.nbytes

    def start(self, run: int, order: Run, tell: Tell) -> None:
        """Have a runner run *order* as soon as there is one; *tell* hears what it reports."""
        self._wanted[run] = []
        self._spawn(self._start(run, order, tell), f"start run {run}")

    def stop(self, run: int) -> None:
        """Give up a run, whether it has started or not."""
        self._wanted.pop(run, None)
        placed = self._runners.pop(run, None)
        if placed is not None:
            self._spawn(placed.runner.stop(), f"stop run {run}")

    def pass_on(self, order: Grant | Free | Want) -> None:
        """Send *order* to the runner that it is for, once that is there."""
        placed = self._runners.get(order.run)
        if placed is not None:
            placed.runner.send(order)
        elif order.run in self._wanted:
            self._wanted[order.run].append(order)

    def payload(self, made: Made) -> memoryview:
        """Return the bytes of a frame, where the runner wrote them."""
        return self._runners[made.run].arena[made.offset : made.offset + made.nbytes]

    async def close(self) -> None:
        """Start and stop nothing more, and let go of all runners' memory."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._wanted.clear()
        self._runners.clear()

    def _heard(self, tell: Tell, runner: Runner, report: Report | RunnerDied) -> None:
        if report.run in self._wanted:
            self._place(report.run, runner)
            tell(_event(report))

    async def _start(self, run: int, order: Run, tell: Tell) -> None:
        start = Start(
            run, order.dataset, order.index, order.seed, order.codec, order.state, order.logs
        )
        try:
            definition = await self._definitions.get(order.dataset)
            if run not in self._wanted:
                return
            runner = await self._pool.start(definition, start, partial(self._heard, tell))
        except PenstockError as exc:
            if run in self._wanted:
                tell(Failed(run, order.state.number, Failure.of(exc)))
            return
        if run in self._wanted:
            self._place(run, runner)
        else:
            await runner.stop()

    def _place(self, run: int, runner: Runner) -> None:
        if run not in self._runners:
            self._runners[run] = _Placed(runner, runner.arena)
            for order in self._wanted[run]:
                runner.send(order)

    def _spawn(self, coro: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A runner, and its memory, which is still needed when its process is gone."""

    runner: Runner
    arena: memoryview


class Definitions:
    """Definitions by dataset, each fetched once; the last few are kept."""

    def __init__(self, dispatcher: DispatcherApi) -> None:
        self._dispatcher = dispatcher
        self._kept: OrderedDict[DatasetId, bytes] = OrderedDict()
        self._locks: WeakValueDictionary[DatasetId, asyncio.Lock] = WeakValueDictionary()

    @property
    def nbytes(self) -> int:
        """The bytes kept."""
        return sum(map(len, self._kept.values()))

    async def get(self, dataset: DatasetId) -> bytes:
        """Return a definition, however long the dispatcher is away.

        Raises:
            PenstockError: what the dispatcher answered, if it refuses.
        """
        lock = self._locks.setdefault(dataset, asyncio.Lock())
        async with lock:
            if dataset not in self._kept:
                self._kept[dataset] = await self._fetch(dataset)
            self._kept.move_to_end(dataset)
            definition = self._kept[dataset]
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return definition

    async def _fetch(self, dataset: DatasetId) -> bytes:
        while True:
            try:
                return await self._dispatcher.get_definition(dataset)
            except Unavailable:
                await asyncio.sleep(AGAIN)


def _event(report: Report | RunnerDied) -> FromRunner:
    match report:
        case RunnerDied(run, "", code):
            return RunnerLost(run, f"the process ended with exit code {code}")
        case RunnerDied(run, name, _):
            return RunnerLost(run, f"the process died of {name}")
        case Made() | Reached() | Need() | Ended() | Failed():
            return report
        case _:
            raise AssertionError(f"a runner has no business to say {report}")
