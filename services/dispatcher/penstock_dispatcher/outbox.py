"""Messages that wait on one stream (`Outbox`), and the stream of each peer (`Outboxes`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Generic, Self, TypeVar

from penstock.errors import Unavailable

T = TypeVar("T")
K = TypeVar("K")


TOOK_OVER = "a newer stream of the same peer took over"


class Outbox(Generic[T]):
    """An async iterator over the items that are put in.

    Of items of the types *levels* only the newest waits: it replaces the older one. So a peer that
    reads slowly costs no memory.
    """

    def __init__(self, *levels: type[T]) -> None:
        self._levels = levels
        self._items: deque[T] = deque()
        self._stirred = asyncio.Event()
        self._closed = False
        self._error: BaseException | None = None

    @property
    def closed(self) -> bool:
        """Whether nothing more is sent."""
        return self._closed

    def put(self, item: T) -> None:
        """Send *item* when its turn comes; after the end, drop it."""
        if self._closed:
            return
        if isinstance(item, self._levels):
            for i, other in enumerate(self._items):
                if type(other) is type(item):
                    self._items[i] = item
                    return
        self._items.append(item)
        self._stirred.set()

    def close(self, error: BaseException | None = None) -> None:
        """End the stream behind what waits, with *error* if there is one. Idempotent."""
        if not self._closed:
            self._closed, self._error = True, error
            self._stirred.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._closed:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._stirred.clear()
            await self._stirred.wait()
        return self._items.popleft()


class Outboxes(Generic[K, T]):
    """The newest stream of each peer."""

    def __init__(self) -> None:
        self._ways: dict[K, Outbox[T]] = {}

    def lead(self, peer: K, outbox: Outbox[T]) -> None:
        """Send to *peer* through *outbox* from now on; the older stream is over.

        Raises:
            Unavailable: when *outbox* is the older one: its late messages are out of date.
        """
        if outbox.closed:
            raise Unavailable(TOOK_OVER)
        older = self._ways.get(peer)
        if older is not outbox:
            self._ways[peer] = outbox
            if older is not None:
                older.close(Unavailable(TOOK_OVER))

    def forget(self, peers: Iterable[K], outbox: Outbox[T]) -> list[K]:
        """Forget *outbox*; return the peers that it was the way to."""
        gone = [peer for peer in peers if self._ways.get(peer) is outbox]
        for peer in gone:
            del self._ways[peer]
        return gone

    def put(self, peer: K, item: T) -> None:
        """Send *item* to *peer*, if there is a way."""
        if (outbox := self._ways.get(peer)) is not None:
            outbox.put(item)

    def close(self, peer: K, error: BaseException | None = None) -> None:
        """End the stream to *peer* behind what waits."""
        if (outbox := self._ways.get(peer)) is not None:
            outbox.close(error)

    def close_all(self, error: BaseException) -> None:
        """End all streams behind what waits."""
        for outbox in self._ways.values():
            outbox.close(error)
