"""How many processes a task may have its functions called in: its job's part of the worker's slots.

A task that fills a slot has that one; others are alone of their job, and spread over as many slots
as the job may have. Jobs that are at work have equal parts, and what is over goes to the first of
them: at work is what has not ended, and has readers, or had none yet.
"""

from __future__ import annotations

from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.runner.messages import SetProcesses


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
