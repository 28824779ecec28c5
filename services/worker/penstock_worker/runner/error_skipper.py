"""Leaves out the elements that cannot be made, counts them, and reports them to the worker.

State: ``{"on_error": elements left out of the task so far, "at": the state of what it runs}``.
So the count belongs to a position in the task's stream. A job that is saved without this may
continue with it, and the other way round.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OneInputIterator, OpIterator, State
from penstock.ops.ignore_errors import belongs_to_element
from penstock.ops.internal.dead_letters import ElementOrigin, letter_of
from penstock.protocol.control import FIRST
from penstock.runtime.tracebacks import shortened
from penstock_worker.runner.connection import RunInbox, RunOverError, WorkerConnection
from penstock_worker.runner.messages import ErrorsCounted

EVERY = 0.1
"""Seconds between reports while elements fail one after another."""

LONGEST = 2048
"""Characters of a text in a letter."""

LeftOut = Callable[[int, int, Exception], None]
"""Called with the count of elements left out so far, the number of the last one, and its error."""


def unwrapped(state: Any) -> tuple[int, State]:
    """Return how many elements were left out before *state*, and the state of what runs."""
    if isinstance(state, dict) and state.keys() == {"on_error", "at"}:
        return int(state["on_error"]), state["at"]
    return 0, state


class ErrorSkipper(OneInputIterator):
    """The elements of *engine* that can be made: its next one is element *number* of the task."""

    def __init__(self, engine: OpIterator, number: int, count: int, on_left_out: LeftOut) -> None:
        self._upstream, self._on_left_out = engine, on_left_out
        self._number, self.count = number + count, count
        self._below = engine.mark()

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        while True:
            try:
                block = self._upstream.block(n)
            except ELEMENT_ERRORS as exc:
                self._leave_out(exc)
            else:
                self._below = self._upstream.mark()
                self._number += len(block)
                return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`. Elements left out before an element stay left out."""
        count, below = self.count, self._below
        return lambda back: {"on_error": count, "at": below(back)}

    def _leave_out(self, error: Exception) -> None:
        before, self._below = self._below, self._upstream.mark()
        try:
            if not belongs_to_element(error, before, self._below):
                raise error
            number = self._number
            self._number, self.count = number + 1, self.count + 1
            self._on_left_out(self.count, number, error)
        finally:
            del error  # or the error would keep this frame, and with it the engine, forever


class ErrorReport:
    """The elements left out by a run of the pipeline that ends in *stage*."""

    def __init__(
        self, connection: WorkerConnection, inbox: RunInbox, stage: str, context: Context
    ) -> None:
        self._connection, self._inbox, self._stage = connection, inbox, stage
        self._origin = ElementOrigin(context.base_seed, "on_error", context.pass_key)
        self._letters = self._count = self._sent = 0
        self._due = 0.0

    def begin(self, count: int) -> None:
        """Report the elements left out before the run began."""
        self._count = count
        self.send()

    def add(self, count: int, number: int, error: Exception) -> None:
        """Report *error* of element *number*; *count* elements are left out by now.

        Raises:
            RunOverError: when the run was stopped: it may never make another element.
        """
        self._count = count
        if self._letters < FIRST:
            self._letters += 1
            self._post(self._letter(number, error))
        elif time.monotonic() >= self._due:
            self.send()
            self._connection.poll()
        if self._inbox.stopped:
            raise RunOverError

    def send(self) -> None:
        """Send everything that was not reported yet."""
        if self._count > self._sent:
            self._post("")

    def _post(self, letter: str) -> None:
        self._due = time.monotonic() + EVERY
        self._sent = self._count
        self._connection.post(ErrorsCounted(self._inbox.start.run, self._count, letter))

    def _letter(self, number: int, error: Exception) -> str:
        letter = letter_of(self._origin.key(number), self._stage, number, error, LONGEST)
        return msgspec.json.encode({k: _short(v) for k, v in asdict(letter).items()}).decode()


def _short(value: object) -> object:
    if not isinstance(value, str):
        return value
    # Text that is no UTF-8 (file names) does not travel as it is.
    return shortened(value.encode("utf-8", "backslashreplace").decode(), LONGEST)
