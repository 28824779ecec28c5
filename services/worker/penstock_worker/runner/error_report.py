"""Reports a run's failed elements to its worker: their count, and the first dead letters."""

from __future__ import annotations

import time
from dataclasses import asdict

import msgspec

from penstock.engine.context import Context
from penstock.ops.internal.dead_letters import ElementOrigin, letter_of
from penstock.protocol.control import FIRST
from penstock.runtime.tracebacks import shortened
from penstock_worker.runner.connection import RunInbox, RunOverError, WorkerConnection
from penstock_worker.runner.messages import ErrorsCounted

EVERY = 0.1
"""Seconds between reports while elements fail one after another."""

LONGEST = 2048
"""Characters of a text in a letter."""


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
