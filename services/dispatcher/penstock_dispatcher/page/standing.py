"""In one word: how a worker is, and how a pass is."""

from __future__ import annotations

from enum import Enum

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
