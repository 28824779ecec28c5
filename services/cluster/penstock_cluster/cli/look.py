"""What was seen of a cluster, once."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from penstock.explanation.looks import MeshLook
from penstock_dispatcher.core.stats import DispatcherStats, IterationStats


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of the cluster of *target*: *at* in monotonic seconds, *date* since 1970."""

    target: str
    at: float
    date: float
    stats: DispatcherStats
    mesh: MeshLook = field(default_factory=MeshLook)
    """What is known of the passes that run, as far as it says what is slow or wrong."""


def state_of(it: IterationStats, now: Look) -> str:
    """Return how a pass is doing, in a few words."""
    if it.finished:
        return "finished"
    state = "failed" if any(task.failure for task in it.tasks) else "running"
    if it.unread is None:
        return f"restored, {state}" if it.restored else state
    since = time.strftime("%H:%M:%S", time.localtime(now.date - it.unread))
    unread = f"no reader since {since}"
    return f"failed, {unread}" if state == "failed" else unread
