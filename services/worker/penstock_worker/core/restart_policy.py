"""How often runners of one attempt may die or fail to start, and how soon the next starts."""

from __future__ import annotations

DEATHS = 3
"""The attempt fails after this many deaths without a new element."""

PAUSE = 0.1
"""Seconds from the start of one runner to that of the next, at least."""

TRIES = (0.1, 0.5, 2.0)
"""Pauses in seconds before a runner is tried again when the system has no room for one."""


class RestartPolicy:
    """Counts the deaths of an attempt's runners, and how often there was no room for one."""

    def __init__(self) -> None:
        self.lacking = ""
        """Why there was no room for the newest one, as long as that is so."""
        self._tries, self._short_at = 0, -1
        """How often in a row, with element *_short_at* the next."""
        self.deaths = 0
        """How many there were in a row at one element."""
        self._place = -1
        self._begun: float | None = None

    @property
    def flush_each(self) -> bool:
        """Whether a runner died before, and so may again."""
        return self.deaths > 0

    def next_delay(self, now: float) -> float:
        """Record the start of another one; return in how many seconds it should be."""
        pause = TRIES[self._tries - 1] if self.lacking else PAUSE
        after = 0.0 if self._begun is None else max(0.0, self._begun + pause - now)
        self._begun = now + after
        return after

    def may_retry(self, why: str, head: int) -> bool:
        """Record that none could be had, or could not go on, when *head* was the next number.

        Return whether to try again here, and not elsewhere.
        """
        self.lacking = why
        # Who begins, and then has no room for a thread, has reported something each time.
        self._tries = self._tries + 1 if head == self._short_at else 1
        self._short_at = head
        return self._tries <= len(TRIES)

    def on_first_report(self) -> None:
        """Record that there is one."""
        self.lacking = ""

    def may_restart(self, head: int) -> bool:
        """Count a death when *head* was the next number; return whether to start another one."""
        self.deaths = self.deaths + 1 if head == self._place else 1
        self._place = head
        return self.deaths < DEATHS
