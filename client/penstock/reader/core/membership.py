"""A reader's id at the dispatcher, and its lease: until when it may deliver."""

from __future__ import annotations

from penstock.protocol.control import ReaderView
from penstock.protocol.types import ReaderId
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
        """Take the id in *view*, and renew the lease from the heartbeat that it answers."""
        self.reader = view.reader
        sent = self._sent.get(view.seq or 0)
        if sent is not None:
            self.lease_until = max(self.lease_until, sent + self.lease)
            self._sent = {n: at for n, at in self._sent.items() if n > (view.seq or 0)}
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
