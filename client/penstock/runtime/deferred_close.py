"""Closing what was dropped: not in the thread in which its finaliser happens to run.

The collector finalises what it finds in whatever thread is running, in the middle of anything and
with any lock held by that thread. So a finaliser that has to take a lock, or to wait, only
enqueues what is to be closed, and a thread of its own closes it. Most finalisers run where the
last reference was dropped: that thread waits for it a moment, so that ``del iterator`` does what
one expects.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable

from penstock.runtime.interrupts import uninterrupted

A_MOMENT = 0.5
"""Seconds that a finaliser waits by default; the closing goes on behind it."""

OURS = "penstock-"
"""How the names of Penstock's own threads begin. Others wait for these: they wait for none."""


def close_dropped(close: Callable[[], object], seconds: float = A_MOMENT) -> None:
    """Have *close* called by another thread, and wait *seconds* at most. For finalisers only."""
    if sys.is_finalizing():
        return  # threads have stopped where they were, perhaps with a lock held
    # No thread at all may be had while the process ends, or when there are too many.
    with contextlib.suppress(RuntimeError):
        # A daemon: what does not end must not keep the process from ending.
        thread = threading.Thread(target=close, name=f"{OURS}close", daemon=True)
        uninterrupted(thread.start)
        if not in_own_thread():
            thread.join(seconds)


def in_own_thread() -> bool:
    """Return whether this is one of Penstock's own threads."""
    return threading.current_thread().name.startswith(OURS)
