"""Which task, and which worker, makes least: where others of the same job make more."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.explanation.looks import TaskLook


@dataclass(frozen=True, slots=True)
class Slowest:
    """The *task* that makes least, on *on*, and the *worker* whose tasks do, on average.

    Speeds are in elements a second while somebody takes them; *usual* ones are medians of all.
    """

    task: int
    on: str
    speed: float
    usual: float
    worker: str
    worker_speed: float
    worker_usual: float
    name: str
    """The name of the task in sentences."""

    def __str__(self) -> str:
        task = f"slowest {self.name} on {self.on}, {self.speed:,.0f} elements a second"
        if self.usual > self.speed:
            task += f" (median {self.usual:,.0f})"
        if self.worker_usual <= self.worker_speed:
            return task
        return (
            f"{task}; slowest worker {self.worker}, {self.worker_speed:,.0f} a task "
            f"(median {self.worker_usual:,.0f})"
        )


def slowest(tasks: Sequence[TaskLook]) -> Slowest | None:
    """Return the slowest of *tasks* and of their workers; None if nothing was made yet."""
    known = [task for task in tasks if task.speed > 0]
    if not known:
        return None
    task = min(known, key=_speed)
    by_worker: dict[str, list[float]] = {}
    for one in known:
        by_worker.setdefault(one.worker, []).append(one.speed)
    means = {worker: statistics.fmean(speeds) for worker, speeds in by_worker.items()}
    worker = min(means, key=means.__getitem__)
    usual = statistics.median(map(_speed, known))
    usual_mean = statistics.median(means.values())
    return Slowest(
        task.task, task.worker, task.speed, usual, worker, means[worker], usual_mean, task.name
    )


def _speed(task: TaskLook) -> float:
    return task.speed
