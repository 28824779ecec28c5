"""The clock of a session: when it looks at what is due, and when its looks wake a wait."""

from __future__ import annotations

TICKS_WAKE_EVERY = 0.05
"""Seconds between two looks of a wait because of time alone: hardly any wait ends by that, and to
wake a thread at each tick of the clock would cost more than the tick."""

LEAST = 0.001
"""Seconds between two ticks, at least."""

SOONER = 0.004
"""By so many seconds a tick has to come sooner for that to be worth another thread's time."""


class Ticks:
    """When a session's clock ticks. The session's lock is held for every call."""

    def __init__(self) -> None:
        self._idle = False
        self._next_at = float("-inf")
        self._woken_at = float("-inf")

    def wakes(self, now: float) -> bool:
        """Return whether the tick at *now* has waits look again."""
        if now < self._woken_at + TICKS_WAKE_EVERY:
            return False
        self._woken_at = now
        return True

    def sleep(self, now: float, due: float, idle_from: float) -> float:
        """Return for how many seconds the clock sleeps from *now* when something is *due*.

        From *idle_from* seconds on it has to be interrupted when something is due earlier.
        """
        self._idle = due - now > idle_from
        self._next_at = max(due, now + LEAST)
        return self._next_at - now

    def interrupt(self) -> bool:
        """Return, once a sleep, whether the clock has to look again."""
        idle, self._idle = self._idle, False
        return idle

    def interrupt_for(self, due: float) -> bool:
        """Return, once, whether the clock has to look again for what has become *due* sooner."""
        if self._idle or due + SOONER < self._next_at:
            self._idle, self._next_at = False, due
            return True
        return False
