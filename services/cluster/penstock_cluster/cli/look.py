"""The state of a cluster at one time, as commands show it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from penstock.explanation.looks import MeshLook
from penstock_dispatcher.core.stats import DispatcherStats, IterationStats


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the cluster of *target*: *at* in monotonic seconds, *date* since 1970."""

    target: str
    at: float
    date: float
    stats: DispatcherStats
    mesh: MeshLook = field(default_factory=MeshLook)
    """The facts about running passes that explain why they are slow or fail."""


def state_of(it: IterationStats, now: Look) -> str:
    """Return the state of a pass in a few words."""
    if it.finished:
        return "finished"
    state = "failed" if any(task.failure for task in it.tasks) else "running"
    if it.unread is None:
        return f"restored, {state}" if it.restored else state
    since = time.strftime("%H:%M:%S", time.localtime(now.date - it.unread))
    unread = f"no reader since {since}"
    return f"failed, {unread}" if state == "failed" else unread
