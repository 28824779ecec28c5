"""The receipts of a job that gives each element once, whoever makes it: what a saver reads.

Attempts run the real operator that writes chunks. They are killed, and declared lost while they
still write. The next attempt begins at a mark, and makes elements again that the saver has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Self

from penstock.dataset.dataset import Dataset
from penstock.engine.context import Context
from penstock.engine.rows import elements_of
from penstock.errors import DatasetError, TransformError
from penstock.ops.write_chunks import WriteChunks
from simulation.saved_stage import Program, Stage

LEASE = 1.0
"""Seconds after which a saver knows that an attempt was killed."""

AHEAD = 12
"""So many receipts an attempt gives that nobody has taken."""

LOST = 0.01
"""How likely an attempt that runs counts as lost, each time that a saver looks for a receipt."""

LATE = 0.2
"""How likely a block is not there at once."""

LOOK = 0.02


@dataclass(eq=False)
class Task:
    """A part of the elements, and who makes it."""

    first: int
    stop: int
    taken: int = 0
    """How many of its receipts the saver has."""
    marks: list[tuple[int, Any]] = field(default_factory=lambda: [(0, None)])
    """Where an attempt may begin: after how many elements, and the state there."""
    receipts: deque[tuple[Any, ...]] = field(default_factory=deque)
    """Those that the saver has not taken."""
    attempt: int = 0
    program: Program | None = None
    error: Exception | None = None
    ended: bool = False
    lost_at: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.taken == self.stop - self.first


class LateBlocks:
    """The thread of `write_chunks`: it reads a block at once, or while the attempt waits for it."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._late: dict[Future[Any], Callable[[], Any]] = {}

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """See `ThreadPool.submit`."""
        future: Future[Any] = Future()
        if self._stage.chance.random() < LATE:
            self._late[future] = call
        else:
            future.set_result(call())
        return future

    def wait(self, futures: tuple[Future[Any], ...], seconds: float) -> None:
        """See `concurrent.futures.wait`."""
        self._stage.sleep(seconds)
        for future in futures:
            if self._stage.chance.random() < 0.5:
                future.set_result(self._late.pop(future)())


class ModelReceipts:
    """What `BlockReader` is to a save: receipts of *node*, from *state* on."""

    def __init__(
        self,
        stage: Stage,
        node: WriteChunks,
        state: Any,
        parts: Sequence[tuple[int, int]],
        errors: dict[int, float],
    ) -> None:
        self._stage, self._node, self._errors = stage, node, errors
        self._tasks = [Task(first, stop) for first, stop in parts]
        self._in_order = True
        for task, (taken, marked) in zip(self._tasks, state or (), strict=False):
            task.taken, task.marks = taken, [(0, None), tuple(marked)]
        assert stage.current is not None
        self._saver = stage.current

    def shuffled(self) -> ModelReceipts:
        """Give receipts of tasks as they come."""
        self._in_order = False
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Tell all attempts to end; they may go on writing for a while."""
        for task in self._tasks:
            task.attempt += 1

    def block(self) -> list[tuple[Any, ...]]:
        """See `BlockReader.block`."""
        found: list[tuple[Any, ...]] = []
        most = self._stage.chance.choice((1, 1, 3, 20))
        while task := self._next_task():
            if task.receipts:
                task.taken += 1
                found.append(task.receipts.popleft())
                if len(found) == most:
                    break
            elif found:
                break
            elif task.error is not None:
                raise task.error
            else:
                self._stage.sleep(LOOK)
        return found

    @property
    def waits(self) -> bool:
        """See `BlockReader.waits`."""
        task = self._next_task()
        return task is not None and not task.receipts and task.error is None

    def state(self) -> Any:
        """Return how many receipts of each task were taken, and a mark before that."""
        state = []
        for task in self._tasks:
            before = [mark for mark in task.marks if mark[0] <= task.taken]
            state.append([task.taken, list(self._stage.chance.choice(before[-2:]))])
        return state

    def _next_task(self) -> Task | None:
        left = [task for task in self._tasks if not task.is_over]
        for task in left[:2]:  # so many run at once
            self._look_after(task)
        if not left or self._in_order:
            return left[0] if left else None
        ready = [task for task in left if task.receipts]
        return self._stage.chance.choice(ready) if ready else left[0]

    def _look_after(self, task: Task) -> None:
        """See that somebody makes the task's elements."""
        chance, program = self._stage.chance, task.program
        if program is not None and not program.dead and not program.ended:
            if self._saver.is_safe or self._stage.now > self._stage.peace or chance.random() > LOST:
                return
            self._stage.told("attempt lost that runs", f"task {task.first}")
            task.program = None
        elif program is not None:
            if task.error is not None or task.ended:
                return
            task.lost_at = task.lost_at or self._stage.now
            if self._stage.now < task.lost_at + LEASE:
                return
        task.attempt, task.lost_at = task.attempt + 1, 0.0
        if chance.random() < 0.5:  # else they are on their way, and whole
            task.receipts.clear()
        self._begin(task)

    def _begin(self, task: Task) -> None:
        attempt, chance = task.attempt, self._stage.chance
        has = task.taken + len(task.receipts)
        marks = [mark for mark in task.marks if mark[0] <= has]
        begins, state = chance.choice(marks[-2:])
        skips = chance.random() < 0.5
        writing = replace(self._node, upstream=Dataset.range(task.first, task.stop).node)

        def act() -> None:
            at = begins
            iterator = writing.open(Context.local(0), state)
            if skips:
                at += iterator.skip(has - at)
            while task.attempt == attempt:
                if len(task.receipts) > AHEAD:
                    self._stage.sleep(LOOK)
                    continue
                try:
                    self._check(task, at)
                    block = elements_of(iterator.rows(chance.randint(1, 6)))
                except (DatasetError, TransformError) as exc:
                    if task.attempt == attempt:
                        task.error = exc
                    return
                if task.attempt != attempt:
                    return
                if not block:
                    task.ended = True
                    return
                for receipt in block:
                    if at >= task.taken + len(task.receipts):
                        task.receipts.append((int(receipt[0]), int(receipt[1]), receipt[2]))
                    at += 1
                if chance.random() < 0.4:
                    back = chance.randint(0, len(block))
                    task.marks.append((at - back, iterator.mark()(back)))

        name = f"{self._saver.name} task {task.first} attempt {attempt}"
        task.program = self._stage.begin(name, act, 0.01 + 0.2 * chance.random())
        task.program.is_safe = self._saver.is_safe

    def _check(self, task: Task, at: int) -> None:
        """Fail at an element that users' code cannot make yet."""
        for number, until in self._errors.items():
            if task.first <= number < task.stop and at <= number - task.first < at + 6:
                if self._stage.now < until and not self._saver.is_safe:
                    self._stage.told("element that fails", str(number))
                    raise TransformError("map", number, "ValueError", "not yet", "")
