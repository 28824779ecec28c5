"""A session's answers about itself: how its loop waits, its rounds, its unacked elements.

This module also keeps the open sessions of the process. They are closed before the process ends,
and a forked child disowns them.
"""

from __future__ import annotations

import logging
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import Closed
from penstock.protocol.control import SaveResult, describe_save
from penstock.protocol.loop_time import LinkTraffic, PassRead
from penstock.reader.core.deliveries import Run
from penstock.reader.core.membership import Membership
from penstock.reader.core.session_core import NoElement, SessionCore
from penstock.reader.core.task_stream import held_by_worker
from penstock.reader.session.deadlines import wait_reason
from penstock.reader.session.network import SessionConfig, SessionNetwork
from penstock.runtime import clock
from penstock.runtime.event_loop import LoopStage, at_exit
from penstock.runtime.interrupts import SingleEntry

if TYPE_CHECKING:
    from penstock.engine.loop_time import LoopClock
    from penstock.engine.unacked import AckTracker

log = logging.getLogger("penstock.reader")

T = TypeVar("T")

WAKE_EVERY = 1.0
"""Seconds after which a wait looks again, even if nothing happened."""


class SessionAnswers(ABC):
    """The part of `Session` that hands out no elements."""

    core: SessionCore
    _config: SessionConfig
    _network: SessionNetwork
    _process: int
    _closed: bool
    _changed: SingleEntry
    _slept_at: float
    """When a thread last began to sleep here: while one waits it does so again and again."""

    @abstractmethod
    def close(self) -> None:
        """Leave."""

    @abstractmethod
    def _wait(self, ask: Callable[[float], T | NoElement], *, waiting: bool = False) -> T | None:
        """Wait until *ask* has an answer."""

    @abstractmethod
    def _apply_change(self, change: Callable[..., T], *args: Any) -> T:
        """Call *change*, a method of the core, and have its effects performed."""

    def check_process(self) -> None:
        """Refuse to continue in another process than the one in which the session was opened.

        Raises:
            Closed: in a child that was forked.
        """
        if os.getpid() != self._process:  # not with the lock, which another thread may have held
            raise Closed(
                f"this iterator belongs to process {self._process}, and this is a child that was "
                "forked from it: connections do not survive a fork; make the iterator in the "
                "child, and start that with the 'spawn' or 'forkserver' method"
            )

    @property
    def lease(self) -> Membership:
        """The lease alone: a barrier stops the loop by itself."""
        return self.core.membership

    # --- measures ---

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
        """The traffic received from each worker, and how much of it is here."""
        with self._changed:
            return self._network.links(held_by_worker(self.core.tasks.values()))

    @property
    def awaited(self) -> str:
        """In words, why a thread waits here; empty if no thread waits."""
        with self._changed:
            now = clock.now()
            if now > self._slept_at + 2 * WAKE_EVERY:
                return ""
            return wait_reason(self.core, self._config.dispatcher, self._network.reason, now).what

    def measured_by(self, loop: LoopClock | None) -> None:
        """Tell the dispatcher what *loop* measures."""
        self._network.loop_clock = loop

    # --- rounds ---

    @property
    def round(self) -> int:
        """The round of coordinated reads that comes next; 0 without any."""
        return self.core.round if self._closed else self.locate()

    def locate(self) -> int:
        """Return `round`; waits until it is known with which one this reader begins.

        Raises:
            PenstockError, WaitedTooLong: as `pull`.
        """
        self.check_process()
        return self._wait(self.core.locate) or 0

    @property
    def padding(self) -> bool:
        """Whether the newest element delivered fills a group that was too short."""
        self.check_process()
        with self._changed:
            self.core.acks.collect_acks(clock.now(), at_once=True)
            return self.core.filler

    def skip_to(self, number: int, /) -> None:
        """Deliver no round below *number*; skip its unacked elements, and do not requeue them.

        Raises:
            DatasetError: when the loop has had that round.
        """
        self.locate()
        self._apply_change(self.core.skip_to, number)

    # --- unacked elements ---

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
        """Return the unacked elements, and those still expected, in the order of delivery."""
        with self._changed:
            return (*self.core.acks.deliveries.runs(), *self.core.replay.left)


def state_of(result: SaveResult) -> bytes:
    """Return the job's state, and log which readers it goes without.

    Raises:
        PenstockError: when the job was not saved.
    """
    if result.failure is not None:
        raise result.failure.error()
    if result.missing:
        log.warning(
            "%s went without %s: elements that were handed out there and not reported yet may be "
            "delivered twice, to readers that restore the state",
            describe_save(result.label),
            ", ".join(result.missing),
        )
    return result.state


OPEN: weakref.WeakSet[SessionAnswers] = weakref.WeakSet()
"""The sessions of this process that are open."""


def _close_all() -> None:
    """Leave before the process ends, so that the dispatcher need not wait for the lease."""
    for session in list(OPEN):
        session.close()


at_exit(LoopStage.READERS, _close_all)


def _disown() -> None:
    """Revoke leases in a forked child: the parent reads on."""
    for session in list(OPEN):
        session.lease.revoke()


if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(after_in_child=_disown)
