"""What operators have unacked of a session, and what they had at a save."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from penstock.reader.core.replay import Run
from penstock.reader.core.session_core import SessionCore
from penstock.runtime.interrupts import SingleEntry

if TYPE_CHECKING:
    from penstock.engine.unacked import AckTracker


class UnackedRead:
    """What `Session` is told and tells of elements that were delivered and are unacked."""

    core: SessionCore
    _changed: SingleEntry

    def follow(self, tracker: AckTracker) -> None:
        """Let *tracker* say which of the elements pulled are unacked.

        It is called from any thread, under this session's lock: it must be quick, and take no lock
        that is held while this session is called.
        """
        with self._changed:
            self.core.acks.deliveries.tracker = tracker

    def expect(self, held: Iterable[Run]) -> None:
        """Ask for *held*, unacked when a state was saved, before anything is pulled."""
        with self._changed:
            first = self.core.iteration + 1  # so a restored iteration's tasks are named
            self.core.replay.expect((first + place, start, stop) for place, start, stop in held)

    def held(self) -> tuple[Run, ...]:
        """Return what was delivered and is unacked, and what is still expected, in their order."""
        with self._changed:
            return (*self.core.acks.deliveries.runs(), *self.core.replay.left)
