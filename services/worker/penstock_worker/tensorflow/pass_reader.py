"""Reads a pass for TensorFlow's clients, and returns each element as bytes to send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

from penstock.errors import PenstockError, Unavailable
from penstock.protocol.tensorflow import END_OF_SEQUENCE


class ReplySource(Protocol):
    """An iterator over replies that can be closed; see `replies.Replies`."""

    def __next__(self) -> Any:
        """Return the next reply."""

    def at_hand(self, default: None) -> Any:
        """Return the next reply if it is ready, else *default*."""
        ...

    def close(self) -> None:
        """End it, from any thread."""

    @property
    def round(self) -> int:
        """The next round of coordinated reads."""
        ...


class PassReader:
    """Replies to requests for elements, in the order of requests. *opened* begins to read.

    A thread of its own waits for elements. If a request is cancelled, the next request gets its
    element.
    """

    def __init__(self, opened: Callable[[], ReplySource], *, in_rounds: bool = False) -> None:
        self._opened, self._in_rounds = opened, in_rounds
        self.round = 0
        """Which round the newest reply is of; 0 unless it reads *in_rounds*."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-tensorflow")
        self._turn = asyncio.Lock()
        self._coming: asyncio.Future[bytes] | None = None
        self._elements: ReplySource | None = None
        self._over = self._closed = False
        self._failure: PenstockError | None = None

    async def next(self) -> bytes:
        """Return the next reply: an element, or the end of the pass.

        Raises:
            PenstockError: what happened behind the elements before; again with each call, unless
                it may be over with the next.
            Unavailable: after `close`.
        """
        async with self._turn:
            if self._closed:
                raise Unavailable(CLOSED)
            if self._over:
                return END_OF_SEQUENCE
            if self._failure is not None:
                raise self._failure
            try:
                if self._coming is None:
                    if (ready := self._at_hand()) is not None:
                        return ready
                    loop = asyncio.get_running_loop()
                    self._coming = loop.run_in_executor(self._thread, self._next)
                reply = await asyncio.shield(self._coming)
            except asyncio.CancelledError:
                raise
            except PenstockError as exc:
                self._coming = None
                if self._closed:
                    raise Unavailable(CLOSED) from exc
                self._failure = None if exc.retryable else exc
                raise
            self._coming, self._over = None, reply is END_OF_SEQUENCE
            return reply

    async def close(self) -> None:
        """Give back elements that no request took, and end; a waiting request gets an error."""
        self._closed = True
        elements = self._elements
        if elements is None:  # it may be about to be opened
            self._thread.submit(self._close)
        else:
            await asyncio.to_thread(self._close)
        self._thread.shutdown(wait=False)

    def _at_hand(self) -> bytes | None:
        """Return the next reply if it is ready, as most are; then no thread waits for it."""
        elements = self._elements
        if elements is None:
            return None
        reply: bytes | None = elements.at_hand(None)
        if reply is not None and self._in_rounds:
            self.round = elements.round - 1
        return reply

    def _next(self) -> bytes:
        if self._elements is None:
            self._elements = self._opened()
        elements = self._elements
        try:
            reply: bytes = next(elements)
        except StopIteration:
            return END_OF_SEQUENCE
        if self._in_rounds:
            self.round = elements.round - 1
        return reply

    def _close(self) -> None:
        elements, self._elements = self._elements, None
        if elements is not None:
            with suppress(PenstockError):
                elements.close()


CLOSED = "this worker reads the pass for TensorFlow's clients no more"
