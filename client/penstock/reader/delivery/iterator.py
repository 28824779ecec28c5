"""A session as an operator: its elements are unacked until the loop has them.

In an inner dataset, and in a pipeline on a worker, acks are not tracked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from penstock.element import Element
from penstock.engine.iterator import Mark, OpIterator
from penstock.engine.op_times import begin_wait, waited
from penstock.engine.unacked import unacked_from
from penstock.errors import StateError
from penstock.reader.delivery.sessions import PassSession, PassSessions
from penstock.runtime.interrupts import uninterrupted

if TYPE_CHECKING:
    from penstock.reader.session.session import Session


class SessionIterator(OpIterator):
    """The elements of one pass, and late ones of earlier passes. State: see `engine.unacked`."""

    def __init__(self, sessions: PassSessions, session: PassSession) -> None:
        self._sessions, self._session, self._run = sessions, session, sessions.run
        self._tags = {session.key: session.delivered} | {
            other.key: other.delivered
            for other in sessions.at(session.path)
            if other.session is not None
        }
        """For each session that may still be read: the delivery tag behind the last element."""
        self._last = session.key
        """The session that the last block is from."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. It ends when other readers have all that is left."""
        return uninterrupted(partial(self._block, n))

    def _block(self, n: int) -> list[Element]:
        for late in self._late():
            if late.session is not None and late.session.ready and (block := self._pull(late, n)):
                return block
        return self._pull(self._session, n)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        last, tags = self._last, tuple(self._tags.items())
        if len(tags) == 1:
            tag = tags[0][1]
            return lambda back: unacked_from(last, tag - back)
        return lambda back: [
            unacked_from(key, at - back if key == last else at) for key, at in tags
        ]

    def close(self) -> None:
        """See `OpIterator.close`. The session stays while elements of it are unacked."""
        if self._session.run == self._run:
            self._session.in_use = False

    def _pull(self, session: PassSession, n: int) -> list[Element]:
        began = begin_wait()
        block, tag = session.pull(self._run, n)
        waited(began)
        self._last, self._tags[session.key] = session.key, tag
        return block

    def _late(self) -> Sequence[PassSession]:
        """Return earlier passes to which something may still come."""
        sessions = self._sessions.at(self._session.path)
        if len(sessions) == 1:
            return ()
        return [session for session in sessions if session is not self._session and session.ended]


class UntrackedIterator(OpIterator):
    """The elements of one iteration, acked as they are pulled. It has no state."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._over = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        elements = [] if self._over else self._session.pull(n)
        if not elements:
            self._over = True
            self._session.close()  # at the end there is nothing left to wait for
        return elements

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        return no_state

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._session.close()


def no_state(_back: int = 0) -> NoReturn:
    """Refuse to say where a shared pass stands."""
    raise StateError(
        "an element that is a whole pass of another job, or a pipeline on a worker that reads one, "
        "has no state: put distribute(...) outside of interleave and flat_map, on the training side"
    )
