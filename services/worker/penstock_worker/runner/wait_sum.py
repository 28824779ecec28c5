"""How long a run has waited for something: of a wait that goes on, up to now."""

from __future__ import annotations

import time
from collections.abc import Callable


class WaitSum:
    """Adds up the waits of one thread; any thread may ask for the sum."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waits: tuple[float, float | None] = 0.0, None
        """The seconds before, and since when it waits now."""

    def begin(self) -> None:
        """Note that it waits from now on."""
        self._waits = self._waits[0], self._clock()

    def end(self) -> None:
        """Note that it waits no more."""
        self._waits = self.seconds, None

    @property
    def seconds(self) -> float:
        """How long it has waited, up to now."""
        before, since = self._waits
        return before if since is None else before + self._clock() - since
