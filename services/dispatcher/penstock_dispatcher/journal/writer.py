"""A thread that does one thing after another, so that the event loop waits for no disk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeAlias

Work: TypeAlias = Callable[[], None]
Done: TypeAlias = Callable[[Exception | None], None]


class Writer:
    """Runs *work* in the order given, and passes each outcome to the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        # A daemon: a process that just ends is no worse than one that is killed.
        self._thread = threading.Thread(target=self._run, name="penstock-journal", daemon=True)
        self._thread.start()

    def do(self, work: Work, done: Done) -> None:
        """Do *work*, then call *done* in the loop, with what went wrong if anything did."""
        self._queue.put((work, done))

    def stop(self, timeout: float) -> bool:
        """End the thread when all is done; return whether that was within *timeout* seconds."""
        self._queue.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (next_ := self._queue.get()) is not None:
            work, done = next_
            error: Exception | None = None
            try:
                work()
            except Exception as exc:  # noqa: BLE001  the loop decides what it means
                error = exc
            with suppress(RuntimeError):  # the loop is closed: it needs no outcome
                self._loop.call_soon_threadsafe(done, error)
