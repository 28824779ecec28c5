"""A lock that refuses a thread that already holds it, so that no thread waits for itself.

A signal handler runs in the main thread at any point, even during a change that this thread is
making. With a plain lock, the thread would wait for itself. With a re-entrant lock, the handler
would work on half-changed data.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from penstock.errors import Reentered
from penstock.runtime.interrupts import InterruptibleCondition


class SingleEntry(InterruptibleCondition):
    """A condition that raises `Reentered` in a thread that is inside already."""

    def __init__(self) -> None:
        self._entry = threading.RLock()
        super().__init__(self._entry)
        self._is_inside = self._entry._is_owned  # type: ignore[attr-defined]  # noqa: SLF001

    def __enter__(self) -> bool:
        if self._is_inside():
            raise Reentered(
                "a signal handler called this in the middle of another call, where it cannot be "
                "done: let the handler set a flag, and look at that between two elements"
            )
        try:
            return self._entry.acquire()  # on the way of every block: `super` would cost as much
        except BaseException:  # of a signal handler, outside of any section: the lock may be taken
            with suppress(RuntimeError):
                self._entry.release()
            raise
