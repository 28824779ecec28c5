"""A thread that flushes elements after 10 ms, and reports times, while users' code blocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from penstock_worker.runner.frame_writer import FrameWriter

AGE = 0.01
"""Seconds that an element may wait for others to share its frame."""

REPORT_EACH = 1.0
"""Seconds between two looks whether times are to be reported."""


class FlushThread:
    """Flushes one run's *frames* after `AGE`, in a thread that sleeps unless it may be needed.

    Once a second it calls *report*, which knows whether something is to be reported.
    """

    def __init__(self, frames: FrameWriter, report: Callable[[], None]) -> None:
        self._frames, self._report = frames, report
        self._entered: float | None = None
        self._wake, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="flush", daemon=True)

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: when the system has no room for it.
        """
        self._thread.start()

    def enter(self) -> float:
        """Note that the engine is at work from now on; return the time."""
        now = self._entered = time.monotonic()
        if self._frames.waiting:
            self.watch()
        return now

    def watch(self) -> None:
        """See to it that the thread is awake: elements wait, and the engine is at work."""
        # In this order, after the note in `enter`: if it is just going to sleep, it looks again.
        if not self._wake.is_set():
            self._wake.set()

    def leave(self) -> float:
        """Note that the engine has returned; return how long it worked, in seconds."""
        entered, self._entered = self._entered, None
        return time.monotonic() - (entered or 0.0)

    def close(self) -> None:
        """End the thread, if there is one."""
        self._over.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._over.is_set():
            self._wake.wait(REPORT_EACH)
            self._wake.clear()
            self._report_times()
            while self._entered is not None and self._frames.waiting:
                if self._over.wait(AGE):
                    return
                self._flush()
                self._report_times()

    def _report_times(self) -> None:
        if not self._over.is_set():
            with suppress(Exception):  # as below
                self._report()

    def _flush(self) -> None:
        entered = self._entered
        if entered is None or time.monotonic() - entered < AGE:
            return
        # The run's own thread gets the same error, and reports it.
        with suppress(Exception):
            self._frames.flush_nowait()
