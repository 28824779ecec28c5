"""Connections to dispatchers that wait for the next pass: to connect costs more than most calls."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, field

from penstock.credentials.caller import caller_of
from penstock.errors import PenstockError
from penstock.ipc.idle_pool import IdlePool
from penstock.runtime import clock
from penstock.runtime.event_loop import LoopStage, LoopThread, at_exit
from penstock.runtime.interrupts import in_own_thread
from penstock.wire.connection import Channel

SECONDS = 1.0
"""For how long one waits: a loop over short passes begins the next one within that. The background
thread waits with it."""

MOST = 4
"""How many wait: as many dispatchers as a process reads from in turn."""

CLOSE_WITHIN = 1.0
"""Seconds that all of them get to close."""


@dataclass(frozen=True, slots=True)
class OpenLine:
    """A connection to the dispatcher at *address*, and what closes it."""

    address: str
    channel: Channel
    closing: AsyncExitStack

    @property
    def key(self) -> str:
        """What it is found by; see `IdlePool`."""
        return self.address

    @property
    def sound(self) -> bool:
        """Whether the next pass may use it: it leads there, and shows what would be shown now."""
        try:
            return self.channel.unused and caller_of(self.address) is self.channel.caller
        except PenstockError:  # the credentials cannot be used: who connects is told
            return False


@dataclass(slots=True)
class IdleLines:
    """A few connections, each for a second. All but `close` and `end` runs in the event loop.

    Before a process forks or ends they are closed, and with them the thread, if nothing else uses
    that: a child has no half of a connection.
    """

    _pool: IdlePool[OpenLine] = field(default_factory=lambda: IdlePool(MOST, SECONDS))
    _loop: LoopThread | None = None
    _held: ExitStack = field(default_factory=ExitStack)
    """The loop, while there are any."""
    _timer: asyncio.TimerHandle | None = None
    _parting: set[asyncio.Task[None]] = field(default_factory=set)
    _ended: bool = False

    async def take(self, address: str) -> OpenLine | None:
        """Take out one that leads to *address*; what leads nowhere by now is closed."""
        while (line := self._pool.take(address, any_key=False)) is not None:
            if line.sound:
                return line
            await line.closing.aclose()
        return None

    async def put(self, line: OpenLine) -> None:
        """Keep *line* for whoever is next, or close it."""
        if self._ended or not line.sound:
            await line.closing.aclose()
            return
        if self._loop is None:
            # The last user may have left the loop that this is in: to start it anew would wait for
            # this to end.
            self._loop = self._held.enter_context(LoopThread.running())
        if self._loop is None:
            await line.closing.aclose()
            return
        surplus = self._pool.put(line, clock.now())
        if self._timer is None:
            self._look()
        for one in surplus:
            await one.closing.aclose()

    def close(self) -> None:
        """Close all, and wait for that; a background thread of this package only begins it."""
        loop = self._loop
        if loop is None:
            return
        with suppress(PenstockError):  # the loop is closed, or does not get to it
            if in_own_thread():
                loop.spawn(self._close())
            else:
                loop.run(self._close(), CLOSE_WITHIN)

    def end(self) -> None:
        """Close all, and keep none from now on: the process ends."""
        self._ended = True
        self.close()

    def _look(self) -> None:
        """Part with those whose time is up, and look again when the next one's is."""
        now = clock.now()
        expired, due = self._pool.expire(now), self._pool.due()
        wait = None if due is None else max(0.0, due - now)
        loop = asyncio.get_running_loop()
        self._timer = None if wait is None else loop.call_later(wait, self._look)
        if expired or due is None:
            task = loop.create_task(self._part(expired), name="idle-lines")
            self._parting.add(task)

    async def _part(self, lines: list[OpenLine]) -> None:
        """Close *lines*, and leave the loop if none are left: else it would end too soon."""
        try:
            for line in lines:
                with suppress(Exception):  # what cannot be closed in order is gone all the same
                    await line.closing.aclose()
        finally:
            others = self._parting - {asyncio.current_task()}
            self._parting = others
            if not (others or self._pool) and self._timer is None:
                self._loop = None
                self._held.close()

    async def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        others = tuple(self._parting)
        if others:
            await asyncio.wait(others)
        await self._part(self._pool.clear())


IDLE_LINES = IdleLines()

at_exit(LoopStage.READERS, IDLE_LINES.end)

if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(before=IDLE_LINES.close)
