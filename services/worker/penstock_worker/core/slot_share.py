"""How many processes may call a task's functions: its job's part of the worker's slots.

A task that fills a slot has one slot. Any other task is the only one of its job here, and gets all
slots of the job. Active jobs have equal parts, and the first of them gets the remainder. A job is
active if it has not ended, and has readers or has not had any yet.
"""

from __future__ import annotations

from penstock_worker.core.events import Effect, SendToRunner
from penstock_worker.runner.messages import SetProcesses


class SlotShare:
    """The slots of one attempt, and the number that its runner knows; a runner begins with one."""

    def __init__(self) -> None:
        self.slots = self._told = 1
        self._was_read = False

    def is_left(self, *, read: bool) -> bool:
        """Return whether all its readers have left; *read* says whether it has readers now."""
        self._was_read = self._was_read or read
        return self._was_read and not read

    def on_runner_started(self, run: int, out: list[Effect]) -> None:
        """Tell a new runner, which begins with one slot, its slots."""
        self._told = 1
        self.tell(run, out)

    def tell(self, run: int | None, out: list[Effect]) -> None:
        """Tell the runner of *run* its slots, if they have changed."""
        if run is not None and self.slots != self._told:
            self._told = self.slots
            out.append(SendToRunner(SetProcesses(run, self.slots)))
