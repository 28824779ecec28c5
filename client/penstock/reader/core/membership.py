"""A reader at the dispatcher: its id, its lease, and the tasks that it was told of."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.types import ReaderId, TaskId
from penstock.reader.core.task_stream import LONG_AGO


class Membership:
    """Who this reader is. The lease runs from the sending of a heartbeat that was answered."""

    def __init__(self, session_id: str, lease: float) -> None:
        self.session, self.lease = session_id, lease
        self.reader: ReaderId | None = None
        self.revision = -1
        self.lease_until = LONG_AGO
        self.leaving = self.left = False
        self.known = False
        """Whether the dispatcher may list this reader: it sent a heartbeat and did not expire."""
        self.seq = 0
        """The sequence number of the last heartbeat."""
        self._sent: dict[int, float] = {}

    def next_seq(self, now: float) -> int:
        """Return the sequence number of the heartbeat that is being sent now."""
        self.seq += 1
        self.known = True
        self._sent = {n: at for n, at in self._sent.items() if now < at + self.lease}
        self._sent[self.seq] = now
        return self.seq

    def concerns(self, view: ReaderView) -> bool:
        """Return whether *view* is for this reader, and not older than the last."""
        ours = view.session == self.session and self.reader in (None, view.reader)
        return ours and view.revision >= self.revision

    def renew(self, view: ReaderView) -> None:
        """Take the id in *view*, and renew the lease from the heartbeat that it answers.

        A reader that leaves delivers no more: its lease is not renewed.
        """
        self.reader = view.reader
        if self.leaving:
            return
        sent = self._sent.get(view.seq or 0)
        if sent is not None:
            self.lease_until = max(self.lease_until, sent + self.lease)
            self._sent = {n: at for n, at in self._sent.items() if n > (view.seq or 0)}

    def remove(self) -> None:
        """Forget the id, which expired: the next heartbeat asks for another."""
        self.reader, self.known = None, False
        self.revoke()
        self._sent.clear()

    def leave(self) -> bool:
        """Leave; return whether the dispatcher must be told."""
        self.leaving, self.left = True, not self.known
        return self.known

    def revoke(self) -> None:
        """End the lease now: nothing more is handed out."""
        self.lease_until = LONG_AGO


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
