"""Closes dropped objects in another thread than the one that runs their finaliser.

The garbage collector runs finalisers in any thread, at any point, and that thread may hold any
lock. So a finaliser that must take a lock or wait starts a thread that does the closing. Most
finalisers run where the last reference was dropped. That thread waits a short time for the closing
to finish, so that ``del iterator`` does what one expects.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable

from penstock.runtime.interrupts import uninterrupted

A_MOMENT = 0.5
"""Seconds that a finaliser waits by default; the closing may continue after that."""

OURS = "penstock-"
"""The prefix of Penstock's own threads. They do not wait, because others wait for them."""


def close_dropped(close: Callable[[], object], seconds: float = A_MOMENT) -> None:
    """Call *close* in another thread, and wait at most *seconds*. For finalisers only."""
    if sys.is_finalizing():
        return  # threads have stopped where they were, perhaps with a lock held
    # Python may refuse a new thread while the process ends, or if there are too many.
    with contextlib.suppress(RuntimeError):
        # A daemon, so that a closing that hangs does not keep the process alive.
        thread = threading.Thread(target=close, name=f"{OURS}close", daemon=True)
        uninterrupted(thread.start)
        if not in_own_thread():
            thread.join(seconds)


def in_own_thread() -> bool:
    """Return whether this is one of Penstock's own threads."""
    return threading.current_thread().name.startswith(OURS)
