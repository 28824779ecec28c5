"""Decides how many requests to one prefix run at once: more on success, half when told to slow."""

from __future__ import annotations

FIRST, LEAST, MOST = 8.0, 1.0, 64.0


class RequestWindow:
    """The requests of this process to one prefix: additive increase, multiplicative decrease."""

    def __init__(self) -> None:
        self.limit = FIRST
        self.running = 0
        self._slowed_at = -1.0
        self._started = 0

    def start(self) -> bool:
        """Return whether one more request may start now, and count it if so."""
        if self.running >= int(self.limit):
            return False
        self.running += 1
        return True

    def end(self) -> None:
        """Note that a request ended, however it did."""
        self.running -= 1

    def succeeded(self) -> None:
        """Allow one more request after as many successes as may run at once."""
        self.limit = min(self.limit + 1.0 / self.limit, MOST)

    def slow_down(self, sent: float, now: float) -> None:
        """Halve the limit, because the store refused a request that was sent at *sent*.

        Requests that were sent before the last decrease say nothing about the smaller limit.
        """
        if sent > self._slowed_at:
            self.limit, self._slowed_at = max(self.limit / 2, LEAST), now
