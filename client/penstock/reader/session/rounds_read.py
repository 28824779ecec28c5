"""The rounds of coordinated reads, as a session's loop asks for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.reader.core.session_core import NoElement, SessionCore
from penstock.reader.session import open_sessions
from penstock.runtime import clock
from penstock.runtime.interrupts import SingleEntry

T = TypeVar("T")


class RoundsRead(ABC):
    """What `Session` answers of rounds."""

    core: SessionCore
    _closed: bool
    _process: int
    _changed: SingleEntry

    @abstractmethod
    def _wait(self, ask: Callable[[float], T | NoElement], *, waiting: bool = False) -> T | None:
        """Wait until *ask* has an answer."""

    @abstractmethod
    def _apply_change(self, change: Callable[..., T], *args: Any) -> T:
        """Call *change*, a method of the core, and have its effects performed."""

    @property
    def round(self) -> int:
        """The round of coordinated reads that comes next; 0 without any."""
        return self.core.round if self._closed else self.locate()

    def locate(self) -> int:
        """Return `round`; waits until it is known with which one this reader begins.

        Raises:
            PenstockError, WaitedTooLong: as `pull`.
        """
        open_sessions.check_process(self._process)
        return self._wait(self.core.locate) or 0

    @property
    def padding(self) -> bool:
        """Whether the newest element delivered fills a group that was too short."""
        open_sessions.check_process(self._process)
        with self._changed:
            self.core.acks.collect_acks(clock.now(), at_once=True)
            return self.core.filler

    def skip_to(self, number: int, /) -> None:
        """Deliver no round below *number*; what is unacked of these is skipped, if requeued.

        Raises:
            DatasetError: when the loop has had that round.
        """
        self.locate()
        self._apply_change(self.core.skip_to, number)
