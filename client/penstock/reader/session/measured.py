"""What a session tells of itself: how its loop waits, for what, and what came to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.protocol.loop_time import LinkTraffic, PassRead
from penstock.reader.core.session_core import SessionCore
from penstock.reader.core.task_stream import held_by_worker
from penstock.reader.session.deadlines import wait_reason
from penstock.reader.session.network import SessionConfig, SessionNetwork
from penstock.runtime import clock
from penstock.runtime.interrupts import SingleEntry

if TYPE_CHECKING:
    from penstock.engine.loop_time import LoopClock

WAKE_EVERY = 1.0
"""Seconds after which a wait looks again, even if nothing happened."""


class MeasuredSession:
    """What `Session` answers of its measures."""

    core: SessionCore
    _config: SessionConfig
    _network: SessionNetwork
    _changed: SingleEntry
    _slept_at: float
    """When a thread last began to sleep here: while one waits it does so again and again."""

    @property
    def pass_read(self) -> PassRead:
        """The pass that it reads, and where."""
        return PassRead(self._config.dispatcher, self.core.iteration)

    @property
    def transport(self) -> Mapping[str, str]:
        """The name of the transport by which each worker is read."""
        return self._network.transport

    @property
    def links(self) -> tuple[LinkTraffic, ...]:
        """What came from each worker, and how much of it is here."""
        with self._changed:
            return self._network.links(held_by_worker(self.core.tasks.values()))

    @property
    def awaited(self) -> str:
        """What a thread waits for here, in words; nothing if none does."""
        with self._changed:
            now = clock.now()
            if now > self._slept_at + 2 * WAKE_EVERY:
                return ""
            return wait_reason(self.core, self._config.dispatcher, self._network.reason, now).what

    def measured_by(self, loop: LoopClock | None) -> None:
        """Tell the dispatcher what *loop* measures."""
        self._network.loop_clock = loop
