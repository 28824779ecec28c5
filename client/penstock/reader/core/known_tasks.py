"""The tasks that a reader was told of: all of them, by views that have what changed."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.types import TaskId


class KnownTasks:
    """Where each task can be read, as of a revision; heartbeats name it, and views build on it."""

    def __init__(self) -> None:
        self.as_of = 0
        """The revision; 0 before anything is known."""
        self._tasks: dict[TaskId, TaskView] = {}

    def take(self, view: ReaderView) -> Mapping[TaskId, TaskView]:
        """Take over what *view* says, which is not older than the last; return all tasks.

        Of one that builds on more than is known here nothing is taken: the next heartbeat names
        what is known.
        """
        since = view.changes_since
        if since is None:
            self._tasks = dict(view.tasks)
        elif since > self.as_of:
            return self._tasks
        else:
            for task in view.over:
                self._tasks.pop(task, None)
            self._tasks.update(view.tasks)
        self.as_of = view.revision
        return self._tasks
