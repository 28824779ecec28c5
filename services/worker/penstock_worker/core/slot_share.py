"""How many processes a task may have its functions called in: its job's part of the worker's slots.

A task that fills a slot has that one; others are alone of their job, and spread over as many slots
as the job may have. Jobs that are at work have equal parts, and what is over goes to the first of
them: at work is what has not ended, and has readers, or had none yet.
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
        self._was_read = False

    def is_left(self, *, read: bool) -> bool:
        """Return whether its readers have all left, where *read* says whether there are any."""
        self._was_read = self._was_read or read
        return self._was_read and not read

    def on_runner_started(self, run: int, out: list[Effect]) -> None:
        """Tell a new runner, which begins with one."""
        self._told = 1
        self.tell(run, out)

    def tell(self, run: int | None, out: list[Effect]) -> None:
        """Tell the runner of *run* what has changed."""
        if run is not None and self.slots != self._told:
            self._told = self.slots
            out.append(SendToRunner(SetProcesses(run, self.slots)))


def divide(attempts: Collection[Attempt], slots: int, out: list[Effect]) -> None:
    """Divide so many *slots* among all *attempts* of a worker."""
    at_work = [each for each in attempts if _is_at_work(each)]
    tasks = Counter(each.assignment.iteration for each in at_work)
    each_has, over = divmod(slots, len(tasks) or 1)
    parts = {job: each_has + (i < over) for i, job in enumerate(sorted(tasks))}
    for attempt in attempts:
        job, fills = attempt.assignment.iteration, attempt.assignment.fills_slot
        attempt.share.slots = 1 if fills else max(1, parts.get(job, 1) // max(1, tasks[job]))
        attempt.share.tell(attempt.run, out)


def _is_at_work(attempt: Attempt) -> bool:
    delivery = attempt.delivery
    left = attempt.share.is_left(read=bool(delivery.readers))
    return delivery.total is None and attempt.failure is None and not left
