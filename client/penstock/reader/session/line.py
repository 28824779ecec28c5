"""The connection to a dispatcher, by which a pass is opened and then read, and calls on it.

A connection waits a moment for the next pass of the process, because making one costs more than
most calls do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.credentials.caller import caller_of
from penstock.errors import Overloaded, PenstockError, Untrusted
from penstock.ipc.idle_pool import IdlePool
from penstock.reader.session.deadlines import WaitTimeout, dispatcher_silent
from penstock.runtime import clock
from penstock.runtime.event_loop import LoopStage, LoopThread, at_exit
from penstock.runtime.interrupts import in_own_thread
from penstock.wire.connection import Channel, connect
from penstock.wire.dispatcher import DispatcherClient


class Line:
    """Connections to the dispatcher at *address*, one after the other.

    One that was fine is kept for who wants the next, and behind `close` for the next pass of this
    process: to make one costs more than most calls. All of it runs in the event loop.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._kept: OpenLine | None = None

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[Channel]:
        """Lend a connection; it is kept behind that, unless an error ends it."""
        line, self._kept = self._kept, None
        if line is None:
            line = await IDLE_LINES.take(self.address)
        if line is None:
            stack = AsyncExitStack()
            line = OpenLine(
                self.address, await stack.enter_async_context(connect(self.address)), stack
            )
        try:
            yield line.channel
        except asyncio.CancelledError:  # who borrowed it was told to stop, and it may be fine
            self._kept, other = line, self._kept
            await self._close(other)
            raise
        except BaseException:
            await line.closing.aclose()
            raise
        self._kept, other = line, self._kept
        await self._close(other)

    async def close(self) -> None:
        """Let the next pass have what is kept. Idempotent."""
        kept, self._kept = self._kept, None
        await self._close(kept)

    async def _close(self, line: OpenLine | None) -> None:
        if line is not None:
            await IDLE_LINES.put(line)


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
            # The last user may have left the loop that this is in: to restart it would wait for
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


log = logging.getLogger("penstock.reader")

T = TypeVar("T")

RETRY, MAX_RETRY = 0.05, 1.0
"""Seconds before an absent dispatcher is called again: doubled each time, up to the second."""

REPLACED_WITHIN = 3.0
"""Seconds within which certificates of both sides are replaced, when they are."""


async def call_dispatcher(
    address: str,
    timeout: float,
    call: Callable[[DispatcherClient], Awaitable[T]],
    line: Line | None = None,
) -> T:
    """Call until the dispatcher at *address* answers, or *timeout* seconds are over.

    The connection is one of *line*'s, or one for this call alone.

    Raises:
        WaitedTooLong: when nothing answers there.
        Untrusted: when what answers has not the right certificate, and not for a moment only.
    """
    patience = WaitTimeout(timeout, clock.now(), longest_step=timeout)
    reason, pause, began = "", RETRY, clock.now()
    async with connect(address) if line is None else line.channel() as channel:
        while True:
            why = dispatcher_silent(address, reason)
            if news := patience.spend(why, clock.now()):
                log.warning("%s", news)
            try:
                return await call(DispatcherClient(channel, timeout=patience.left))
            except PenstockError as exc:
                for_good = isinstance(exc, Untrusted) and clock.now() > began + REPLACED_WITHIN
                if for_good or not exc.retryable:
                    raise
                reason, told = str(exc), exc.retry_after if isinstance(exc, Overloaded) else 0.0
            # All that were refused together would come together again.
            await asyncio.sleep(min(max(pause, told * random.uniform(1.0, 1.5)), patience.left))
            pause = min(2 * pause, MAX_RETRY)
