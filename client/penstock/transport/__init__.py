"""How frames come from a worker to a reader: today by a stream of gRPC.

A transport is chosen for each worker when a reader first reads from it. They have one interface,
`Transport`, so that memory shared with a worker on this machine, or a worker in this process, can
be had beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from penstock.messages import ReadReply, ReadRequest


class Transport(Protocol):
    """A way to one worker."""

    def read(
        self, requests: AsyncIterator[ReadRequest], greeted: Callable[[], None] | None = None
    ) -> AsyncIterator[tuple[ReadReply, memoryview]]:
        """Read a task: the first request opens it; payloads are views of what arrived.

        *greeted* is called when the worker is known to be there, before it has anything to send.
        """
        ...

    async def answer(self, timeout: float) -> None:
        """Return when the worker said that it is there.

        Raises:
            Unavailable: when it did not, for *timeout* seconds.
        """
        ...
