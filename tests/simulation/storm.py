"""Storms: many more faults in a schedule than its plan has, while it is otherwise the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

UNTIL = 16.0
"""Seconds of virtual time: behind that a pass is to come to its end."""

BREAKS = 0.02
"""How likely a message breaks its line."""

LIMITED = ("runner w", "start w")
"""What readers are rightly told of if it comes too often: a plan has as many as it may."""


@dataclass(frozen=True, slots=True)
class Storm:
    """How many faults come on top of a plan's; none is no storm."""

    faults: int = 0

    def draw(self, seed: int, kinds: Sequence[str]) -> Iterator[tuple[float, str]]:
        """Yield when each comes, and its kind; nothing in a schedule without faults."""
        chance = Random(f"storm {seed}")
        often = [kind for kind in kinds if kind not in LIMITED]
        for _ in range(self.faults if often else 0):
            yield chance.uniform(0.5, UNTIL), chance.choice(often)


_now = Storm()


def current() -> Storm:
    """Return the storm that schedules begin in."""
    return _now


@contextmanager
def blowing(storm: Storm) -> Iterator[None]:
    """Have schedules that begin meanwhile be in *storm*."""
    global _now
    before, _now = _now, storm
    try:
        yield
    finally:
        _now = before
