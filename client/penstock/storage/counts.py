"""What this process has read from remote files, as numbers that only grow."""

from __future__ import annotations

import threading
from dataclasses import asdict, astuple, dataclass


@dataclass(frozen=True, slots=True)
class StorageCounts:
    """Counts of requests for bytes of remote files, and of damage in saved datasets."""

    requests: int = 0
    nbytes: int = 0
    retries: int = 0
    slow_downs: int = 0
    """Answers that asked for fewer requests: 429, 503."""
    hedges: int = 0
    """Second requests, sent because the first one was late."""
    hedges_won: int = 0
    """Second requests that answered before the first one."""
    wait_seconds: float = 0.0
    """How long readers of elements waited for bytes."""
    cache_hits: int = 0
    cache_misses: int = 0
    cache_evictions: int = 0
    damaged: int = 0
    """Pieces of saved datasets that did not have their checksum, also when read again."""
    remade: int = 0
    """Files of saved datasets that were made again by their pipeline."""

    def minus(self, other: StorageCounts) -> StorageCounts:
        """Return the differences."""
        return StorageCounts(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def plus(self, other: StorageCounts) -> StorageCounts:
        """Return the sums."""
        return StorageCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


_lock = threading.Lock()
_taken = StorageCounts()
_counts = asdict(StorageCounts())


def count(**added: float) -> None:
    """Add to the counts of this process, by their names."""
    with _lock:
        for name, number in added.items():
            _counts[name] += number


def take_counts() -> StorageCounts:
    """Return what this process has counted since this was called last."""
    global _taken
    with _lock:
        now = StorageCounts(**_counts)
        new, _taken = now.minus(_taken), now
    return new


def counted() -> StorageCounts:
    """Return the counts of this process."""
    with _lock:
        return StorageCounts(**_counts)
