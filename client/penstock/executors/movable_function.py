"""A user's function that is called in threads at first, and may move to processes as it runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from penstock.element import Element
from penstock.engine.rows import Block
from penstock.errors import PenstockError, TransformError
from penstock.executors.batch_memory import Room
from penstock.executors.function import FunctionCaller, UserFunction
from penstock.executors.process_function import ProcessFunction

log = logging.getLogger("penstock.autotune")


_NO_PROCESS = (PenstockError, RuntimeError)
"""What to prepare a process raises where there can be none."""


class _Calls:
    """What all copies of a function know. For any thread."""

    def __init__(self, fn: Callable[..., Any], label: str, seed: int) -> None:
        self.label = label
        self.function = UserFunction(fn, label, seed)
        self.in_processes = self.failed = False
        self._processes: ProcessFunction | None = None
        self._made_of = fn, label, seed
        self._lock = threading.Lock()
        self._seconds = 0.0
        self.callers = 0
        """How many copies have a process."""

    @property
    def processes(self) -> ProcessFunction:
        """The function in processes, of which each thread has a copy."""
        with self._lock:
            if self._processes is None:
                # Nobody asked for processes: if something ends one of them nobody shall notice.
                self._processes = ProcessFunction.of(*self._made_of, again=True)
            return self._processes

    def add(self, seconds: float) -> None:
        """Count so many *seconds* of a core."""
        with self._lock:
            self._seconds += seconds

    def take_seconds(self) -> float:
        """Return the seconds of a core since this was last called."""
        with self._lock:
            seconds, self._seconds = self._seconds, 0.0
        return seconds

    def count(self, callers: int) -> None:
        """Count *callers* more that have a process."""
        with self._lock:
            self.callers += callers

    def give_up(self, why: Exception) -> None:
        """Call in threads from now on: there can be no processes."""
        with self._lock:
            first, self.failed, self.in_processes = not self.failed, True, False
        if first:
            log.warning(
                "%s holds the interpreter's lock, and cannot be called in processes, so that one "
                "core does all of it: %s",
                self.label,
                why,
            )

    def end(self) -> None:
        """End the processes that are at work."""
        with self._lock:
            ending = self._processes
        if ending is not None:
            ending.end()


class MovableFunction(FunctionCaller):
    """See `UserFunction`; `move` says whether processes call it. The elements are the same."""

    def __init__(self, calls: _Calls) -> None:
        self._calls = calls
        self._process: ProcessFunction | None = None

    @classmethod
    def of(cls, fn: Callable[..., Any], label: str, seed: int) -> MovableFunction:
        """Return *fn* as operator *label* calls it; see `UserFunction`."""
        return cls(_Calls(fn, label, seed))

    def copy(self) -> MovableFunction:
        """See `FunctionCaller.copy`."""
        return MovableFunction(self._calls)

    def move(self, *, to_processes: bool) -> None:
        """Have the next calls of all copies made in processes, or in the threads that ask."""
        kind = ProcessFunction if to_processes else FunctionCaller
        self.run_seconds, self.most, self.ahead = kind.run_seconds, kind.most, kind.ahead
        self._calls.in_processes = to_processes and not self._calls.failed

    @property
    def places(self) -> bool:  # type: ignore[override]  # it changes as calls move
        """See `FunctionCaller.places`."""
        return self._calls.in_processes

    @property
    def elsewhere(self) -> bool:  # type: ignore[override]  # as above
        """See `FunctionCaller.elsewhere`."""
        return self._calls.in_processes

    @property
    def callers(self) -> int:
        """How many threads have a process that calls."""
        return self._calls.callers

    @property
    def failed(self) -> bool:
        """Whether there can be no processes."""
        return self._calls.failed

    def take_seconds(self) -> float:
        """Return how long the function has computed in this process since the last call of this.

        In seconds of one core.
        """
        return self._calls.take_seconds()

    def call_block(
        self, block: Sequence[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        """See `FunctionCaller.call_block`."""
        if self._calls.in_processes and (process := self._prepared()) is not None:
            try:
                return process.call_block(block, number)
            except _NO_PROCESS as exc:  # its process ended, and there can be no other
                self._calls.give_up(exc)
        return self._call_here(block, number)

    def call_into(
        self, block: Sequence[Element], number: int, rooms: list[Room]
    ) -> tuple[list[Block], TransformError | None]:
        """See `FunctionCaller.call_into`."""
        if self._calls.in_processes and (process := self._prepared()) is not None:
            try:
                return process.call_into(block, number, rooms)
            except _NO_PROCESS as exc:
                self._calls.give_up(exc)
        return super().call_into(block, number, rooms)

    def _call_here(
        self, block: Sequence[Element], number: int
    ) -> tuple[list[Element], TransformError | None]:
        self.done()
        began = time.thread_time()
        try:
            return self._calls.function.call_block(block, number)
        finally:
            self._calls.add(time.thread_time() - began)

    def done(self) -> None:
        """See `FunctionCaller.done`."""
        process, self._process = self._process, None
        if process is not None:
            self._calls.count(-1)
            process.done()

    def end(self) -> None:
        """See `FunctionCaller.end`."""
        self._calls.end()

    def _prepared(self) -> ProcessFunction | None:
        """Return this copy's process, or None if there can be none."""
        if self._process is None:
            process = self._calls.processes.copy()
            try:
                process.prepare()
            except _NO_PROCESS as exc:
                self._calls.give_up(exc)
                return None
            self._process = process
            self._calls.count(1)
        return self._process
