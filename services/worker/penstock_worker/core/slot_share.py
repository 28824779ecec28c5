"""How many processes a task may have its functions called in: its job's part of the worker's slots.

A task that fills a slot has that one; others are alone of their job, and spread over as many slots
as the job may have. Jobs have equal parts, and what is over goes to the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.runner.messages import SetProcesses

if TYPE_CHECKING:
    from penstock_worker.core.attempt import Attempt


class SlotShare:
    """How many slots are for one attempt, and what its runner knows of that: it begins with one."""

    def __init__(self) -> None:
        self.slots = self._told = 1

    def on_runner_started(self) -> None:
        """Record that a runner begins."""
        self._told = 1

    def tell(self, run: int | None, out: list[Effect]) -> None:
        """Tell the runner of *run* what has changed."""
        if run is not None and self.slots != self._told:
            self._told = self.slots
            out.append(SendToRunner(SetProcesses(run, self.slots)))


def divide(attempts: Collection[Attempt], slots: int, out: list[Effect]) -> None:
    """Divide so many *slots* among all *attempts* of a worker."""
    at_work = [each for each in attempts if each.delivery.total is None and each.failure is None]
    tasks = Counter(each.assignment.iteration for each in at_work)
    each_has, over = divmod(slots, len(tasks) or 1)
    parts = {job: each_has + (i < over) for i, job in enumerate(sorted(tasks))}
    for attempt in at_work:
        job = attempt.assignment.iteration
        spreads = not attempt.assignment.fills_slot
        attempt.share.slots = max(1, parts[job] // tasks[job]) if spreads else 1
        attempt.share.tell(attempt.run, out)
