"""A pass that is read in rounds, for one consumer that is a TensorFlow client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from penstock.errors import DatasetError
from penstock_worker.tensorflow.pass_reader import PassReader


class ConsumerReader:
    """Replies to one consumer, which asks for rounds by its client's own numbers.

    *open_at* begins to read at a round, which for the first is *start*; None is where the other
    consumers are. *note* tells the dispatcher which round a number of the client's is: so another
    worker can go on with the right one.
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
        """What was read for a request that has not been answered."""

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
        """End; a request that waits is answered that it be tried again."""
        await self._reader.close()

    async def _read(self, asked: int) -> bytes:
        try:
            return await self._reader.next()
        except DatasetError:
            if asked or self._start is None or self._asked is not None:
                raise
        # A client begins anew, in the place of one that counted on from its start: others took the
        # rounds of then, so that they cannot be had.
        await self._reader.close()
        self._start, self._reader = None, self._open_at(None)
        return await self._reader.next()
