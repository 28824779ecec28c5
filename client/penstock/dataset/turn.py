"""The turn to change an iterator: one thread at a time has it, once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.errors import Reentered
from penstock.runtime.interrupts import interruptible, uninterrupted

T = TypeVar("T")

LOOK_AROUND = 0.1
"""Seconds after which a thread that waits for another thread's block checks whether waiting still
makes sense: the other one may be in a function that never returns, and the iterator closed."""


class Turn:
    """Held by the thread that makes the next block, or replaces the pipeline.

    Signal handlers do not interrupt its calls then: see `penstock.runtime.interrupts`.
    """

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._at_work = False

    def call(self, call: Callable[[], T], check: Callable[[], object]) -> T:
        """Return what *call* returns, when no other thread is at it; *check* may end the wait.

        Raises:
            Reentered: in a signal handler, or a function of the pipeline, that is called meanwhile.
        """
        return uninterrupted(lambda: self._call(call, check))

    def call_at_once(self, call: Callable[[], T], default: T) -> T:
        """Return what *call* returns, or *default* if another thread has the turn."""
        return uninterrupted(lambda: self._call_at_once(call, default))

    def _call_at_once(self, call: Callable[[], T], default: T) -> T:
        if not self._turn.acquire(blocking=False):
            return default
        try:
            return default if self._at_work else self._call(call, bool)
        finally:
            self._turn.release()

    def _call(self, call: Callable[[], T], check: Callable[[], object]) -> T:
        turn = self._turn
        while not turn.acquire(timeout=LOOK_AROUND):
            interruptible(check)
        try:
            if self._at_work:
                raise Reentered(
                    "a signal handler, or a function of the pipeline, called this in the middle of "
                    "another call of the same iterator, where it cannot be done: let the handler "
                    "set a flag, and look at that between two elements"
                )
            self._at_work = True
            try:
                return call()
            finally:
                self._at_work = False
        finally:
            turn.release()
