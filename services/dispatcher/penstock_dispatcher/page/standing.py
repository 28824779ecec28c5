"""How a worker is, and how a pass is, each in one word; and the load of workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from penstock.explanation.mesh import AT_WORK
from penstock.explanation.trouble import SILENT
from penstock_dispatcher.core.stats import IterationStats, WorkerSummary


class WorkerStanding(Enum):
    """How a worker is, the worst first."""

    DISCONNECTED = "disconnected"
    UNREACHABLE = "unreachable"
    SILENT = "silent"
    DRAINS = "drains"
    LIVE = "live"


class PassStanding(Enum):
    """How a pass is."""

    FAILED = "failed"
    UNREAD = "no reader"
    RUNNING = "running"
    FINISHED = "finished"


def standing_of_worker(worker: WorkerSummary) -> WorkerStanding:
    """Return how *worker* is."""
    if worker.draining:
        return WorkerStanding.DRAINS
    if not worker.connected:
        return WorkerStanding.DISCONNECTED
    if worker.unreachable:
        return WorkerStanding.UNREACHABLE
    return WorkerStanding.LIVE if worker.silent < SILENT else WorkerStanding.SILENT


LOST, SLOW = "lost", "slow"
"""How a worker is beside `WorkerStanding`: gone since a minute at most; live, and slow."""


def standing_of_pass(it: IterationStats) -> PassStanding:
    """Return how the pass *it* is."""
    if it.finished:
        return PassStanding.FINISHED
    if any(task.failure for task in it.tasks):
        return PassStanding.FAILED
    return PassStanding.RUNNING if it.unread is None else PassStanding.UNREAD


N = TypeVar("N", int, float)

NOT_HEARD = WorkerStanding.DISCONNECTED, WorkerStanding.SILENT
"""Workers whose newest figures are old."""


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """The load of some workers together. A value that any of them has not reported lately is None.

    *busy* is how many of their *cores* worked of late. *running* is the number of *assigned* tasks
    at work: others have ended and are still read, or rest until there is room for them.
    """

    busy: float | None
    cores: int | None
    running: int | None
    assigned: int


NO_LOAD = WorkerLoad(None, None, None, 0)
"""That of a worker that is gone."""


def load_of(workers: Iterable[WorkerSummary]) -> WorkerLoad:
    """Return the load of *workers* together."""
    known = [_load(one) for one in workers]
    return WorkerLoad(
        _whole([one.busy for one in known]),
        _whole([one.cores for one in known]),
        _whole([one.running for one in known]),
        sum(one.assigned for one in known),
    )


def memory_of(worker: WorkerSummary) -> int | None:
    """Return the bytes that the processes of *worker* use; None if it has not said so of late."""
    stats: Mapping[str, Any] | None = worker.stats
    if stats is None or standing_of_worker(worker) in NOT_HEARD:
        return None
    usage: Mapping[str, Any] = stats.get("usage") or {}
    return usage.get("memory") or None


def _whole(parts: Sequence[N | None]) -> N | None:
    known = [one for one in parts if one is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(parts) else None


def _load(worker: WorkerSummary) -> WorkerLoad:
    stats: Mapping[str, Any] | None = worker.stats
    if stats is None or standing_of_worker(worker) in NOT_HEARD:
        return WorkerLoad(None, None, None, len(worker.tasks))
    usage: Mapping[str, Any] = stats.get("usage") or {}
    mine = set(worker.tasks)
    at_work = [one["task"] for one in stats.get("tasks", ()) if one.get("state") in AT_WORK]
    running = len(mine & set(at_work))
    return WorkerLoad(usage.get("busy"), usage.get("cores") or None, running, len(worker.tasks))
