"""Who reads, of coordinated reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Consumer:
    """Which consumer reads, of how many, and with which round it asks to begin."""

    index: int
    count: int
    start_round: int | None = None
