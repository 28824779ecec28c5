"""The connection to a dispatcher that a pass is opened by, and then read by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from penstock.reader.session.idle_lines import IDLE_LINES, OpenLine
from penstock.wire.connection import Channel, connect


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
