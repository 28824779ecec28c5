"""Looks at the mesh about once a second, and tells those who look on what changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import msgspec

from penstock.errors import Overloaded
from penstock.explanation import mesh
from penstock_dispatcher.core.stats import DispatcherStats
from penstock_dispatcher.fact_log import FactLog, Notice
from penstock_dispatcher.page.history import History, Moment
from penstock_dispatcher.page.snapshot import PageSnapshot, applied, change, whole

log = logging.getLogger("penstock.dispatcher")

EVERY = 1.0
"""Seconds between two looks: workers and readers report as often."""

UNSEEN, SEEN = 200, 10
"""A pause is at least this many times as long as a look took, without and with listeners: so
looking takes at most half a per cent of the dispatcher's time, or 10 %. Looks for metrics take at
most as much: together they take one per cent while nobody looks on."""

LISTENERS = 64
"""The most that look on at a time."""

QUEUED = 4
"""Messages that wait for one who looks on; who is further behind is dropped, and comes again."""

AGAIN = 2000
"""Milliseconds after which a browser whose stream ended asks again."""


class _Listener:
    """One who looks on: messages wait here until they are sent."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[bytes] = asyncio.Queue(QUEUED)
        self.dropped = asyncio.Event()

    def put(self, message: bytes) -> None:
        """Queue *message*, or drop this listener if it is behind."""
        if self.messages.full():
            self.dropped.set()
        else:
            self.messages.put_nowait(message)

    async def get(self) -> bytes | None:
        """Return the next message, or None once this listener is dropped."""
        if self.dropped.is_set():
            return None
        message = asyncio.ensure_future(self.messages.get())
        dropped = asyncio.ensure_future(self.dropped.wait())
        try:
            await asyncio.wait({message, dropped}, return_when=asyncio.FIRST_COMPLETED)
            return message.result() if message.done() and not dropped.done() else None
        finally:
            message.cancel()
            dropped.cancel()


class PageFeed:
    """The contents of the page, kept up to date for listeners; time lines also without listeners.

    Args:
        look: returns all counters, as a status call does.
        clock: returns the time in seconds since 1970.
        history: the memory of earlier looks; by default one that hears of facts.
    """

    def __init__(
        self,
        look: Callable[[], DispatcherStats],
        clock: Callable[[], float] = time.time,
        history: History | None = None,
    ) -> None:
        self._look, self._clock = look, clock
        self._history = history or History()
        self._listeners: set[_Listener] = set()
        self._life = uuid4().hex[:8]
        """Tells numbers of this process from those of one before."""
        self._before: PageSnapshot | None = None
        self._wanted = asyncio.Event()

    def close(self) -> None:
        """End the streams of all who look on."""
        for listener in self._listeners:
            listener.dropped.set()

    @property
    def listening(self) -> int:
        """How many look on."""
        return len(self._listeners)

    def tell(self, notice: Notice) -> None:
        """Record that something happened now."""
        self._history.tell(notice, self._clock())

    async def look_forever(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            began = time.perf_counter()
            try:
                self.look()
            except Exception:  # an error here must not end the dispatcher
                log.exception("the page could not be brought up to date")
            cost = time.perf_counter() - began
            often = SEEN if self._listeners else UNSEEN
            self._wanted.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), max(EVERY, often * cost))

    def look(self) -> Moment:
        """Look now, and tell those who look on."""
        stats = self._look()
        seen = mesh.look(msgspec.json.encode(stats))
        moment = self._history.look(stats, seen, self._clock())
        if self._listeners:
            self._tell_listeners(moment)
        return moment

    def moment(self) -> Moment:
        """Return the last look, or look now if that is older than it should be."""
        known = self._history.moment
        if known is None or self._clock() - known.at > 2 * EVERY:
            return self.look()
        return known

    def snapshot(self) -> bytes:
        """Return all that the page shows, as JSON."""
        return msgspec.json.encode(whole(self._history, self.moment()))

    async def events(self) -> AsyncGenerator[bytes]:
        """Yield server-sent events: all that the page shows, then what changes, each second.

        The stream ends for one who takes messages too slowly.

        Raises:
            Overloaded: when too many look on.
        """
        if len(self._listeners) >= LISTENERS:
            raise Overloaded(f"{LISTENERS} look on already, the most there may be", 5000)
        listener = _Listener()
        self._listeners.add(listener)
        try:
            self._wanted.set()
            now = whole(self._history, self.moment())
            if self._before is None or self._before.number != now.number:
                self._before = now
            yield f"retry: {AGAIN}\n\n".encode()
            yield self._event("snapshot", now)
            while (message := await listener.get()) is not None:
                yield message
        finally:
            self._listeners.discard(listener)
            if not self._listeners:
                self._before = None

    def _tell_listeners(self, moment: Moment) -> None:
        if self._before is None:
            self._before = whole(self._history, moment)
            return
        made = change(self._before, self._history, moment)
        self._before = applied(self._before, made)
        message = self._event("change", made)
        for listener in self._listeners:
            listener.put(message)

    def _event(self, kind: str, made: PageSnapshot) -> bytes:
        head = f"event: {kind}\nid: {self._life}-{made.number}\ndata: "
        return head.encode() + msgspec.json.encode(made) + b"\n\n"


@asynccontextmanager
async def looking(feed: PageFeed, facts: FactLog) -> AsyncIterator[None]:
    """Keep *feed* up to date while the block lasts, also with *facts* of the dispatcher."""
    facts.hear = feed.tell
    task = asyncio.create_task(feed.look_forever(), name="look for the page")
    try:
        yield
    finally:
        facts.hear = None
        feed.close()
        task.cancel()
        await asyncio.wait({task})
