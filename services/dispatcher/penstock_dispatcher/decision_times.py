"""How long decisions take, by what they were about."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from penstock.runtime.histogram import Durations
from penstock_dispatcher.core.events import Effect, Event

Decide = Callable[[Event, float], list[Effect]]


class DecisionTimes:
    """Times since the process began, by the name of the event's class."""

    def __init__(self) -> None:
        self.by_event: defaultdict[str, Durations] = defaultdict(Durations)

    def timed(self, decide: Decide, event: Event, now: float) -> list[Effect]:
        """Return what *decide* returns of *event*, and note how long that took."""
        began = time.perf_counter()
        effects = decide(event, now)
        self.by_event[type(event).__name__].observe(time.perf_counter() - began)
        return effects
