"""How often threads take turns while a reader receives.

A training loop in pure Python keeps the interpreter for 5 ms at a time, and the thread that
receives needs it a dozen times a frame. With turns of 0.5 ms it receives twice as much or more.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERVAL = 0.0005
"""Seconds between turns while any reader is open, in the whole process."""


class _Readers:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may come in the middle of it
        self._count = 0
        self._before = INTERVAL

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, INTERVAL))

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            # Other code may have set it meanwhile: then it stays so.
            if self._count == 0 and abs(sys.getswitchinterval() - INTERVAL) < INTERVAL / 100:
                sys.setswitchinterval(self._before)


_READERS = _Readers()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns often; the last exit restores the former interval."""
    _READERS.enter()
    try:
        yield
    finally:
        _READERS.leave()
