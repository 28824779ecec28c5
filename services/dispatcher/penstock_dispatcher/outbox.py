"""`Outbox`: what waits to be sent on one stream."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """An async iterator over what is put in.

    Of items of the types *levels* only the newest waits: it says all that the older one said. So
    a peer that reads slowly costs no memory.
    """

    def __init__(self, *levels: type[T]) -> None:
        self._levels = levels
        self._items: deque[T] = deque()
        self._stirred = asyncio.Event()
        self._closed = False
        self._error: BaseException | None = None

    def put(self, item: T) -> None:
        """Send *item* when its turn comes; behind the end, drop it."""
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
