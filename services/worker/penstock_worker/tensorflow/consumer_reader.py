"""Reads a pass in rounds as one consumer, on behalf of a TensorFlow client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.errors import DatasetError
from penstock_worker.tensorflow.pass_reader import PassReader


class ConsumerReader:
    """Replies to one consumer, which asks for rounds by its client's own numbers.

    *open_at* begins to read at a round, first at *start*; None means the other consumers' round.
    *note* tells the dispatcher which round a client's number means, so that another worker can
    continue with the right round.
    """

    def __init__(
        self,
        open_at: Callable[[int | None], PassReader],
        start: int | None,
        note: Callable[[int, int], Awaitable[object]],
    ) -> None:
        self._open_at, self._start, self._note = open_at, start, note
        self._reader = open_at(start)
        self._turn = asyncio.Lock()
        self._asked: int | None = None
        self._reply = b""
        self._coming: bytes | None = None
        """The reply that was read for a request not yet answered."""

    async def next(self, asked: int) -> bytes:
        """Return the reply to a request for the round that the client counts as *asked*.

        The same number again gets the same reply, which may have been lost on its way.

        Raises:
            PenstockError: as `PassReader.next`.
        """
        async with self._turn:
            if asked == self._asked:
                return self._reply
            if self._coming is None:
                self._coming = await self._read(asked)
            if self._asked is None or asked != self._asked + 1:
                await self._note(asked, self._reader.round)
            self._asked, self._reply, self._coming = asked, self._coming, None
            return self._reply

    async def close(self) -> None:
        """End; a waiting request is told to try again."""
        await self._reader.close()

    async def _read(self, asked: int) -> bytes:
        try:
            return await self._reader.next()
        except DatasetError:
            if asked or self._start is None or self._asked is not None:
                raise
        # A restarted client counts from its own start again. Other consumers have taken the rounds
        # of that time, so they cannot be read again.
        await self._reader.close()
        self._start, self._reader = None, self._open_at(None)
        return await self._reader.next()
