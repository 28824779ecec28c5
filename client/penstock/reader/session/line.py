"""The connection to a dispatcher that a pass is opened by, and then read by."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from penstock.wire.connection import Channel, connect


class Line:
    """Connections to the dispatcher at *address*, one after the other.

    One that was fine is kept for who wants the next: to make one costs more than most calls. All
    of it runs in the event loop; `close` what may be left.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._kept: tuple[Channel, AsyncExitStack] | None = None

    @asynccontextmanager
    async def channel(self) -> AsyncIterator[Channel]:
        """Lend a connection; it is kept behind that, unless an exception ends it."""
        kept, self._kept = self._kept, None
        if kept is None:
            stack = AsyncExitStack()
            kept = await stack.enter_async_context(connect(self.address)), stack
        try:
            yield kept[0]
        except BaseException:
            await kept[1].aclose()
            raise
        await self.close()  # of two that were lent at once one is enough
        self._kept = kept

    async def close(self) -> None:
        """Close what is kept. Idempotent."""
        kept, self._kept = self._kept, None
        if kept is not None:
            await kept[1].aclose()
