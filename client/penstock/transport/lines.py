"""The transports that a reader holds: one to each worker, for all tasks that it reads there."""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from penstock.numbers import WorkerId
from penstock.transport import Transport
from penstock.wire.line import connect
from penstock.wire.worker import WorkerClient


class Lines:
    """Transports by worker; all are closed on the way out."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._made: dict[WorkerId, Transport] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # gRPC's own thread ends with the last channel: nothing here may keep one alive.
        self._made.clear()
        await self._stack.aclose()

    async def to(self, worker: WorkerId) -> Transport:
        """Return the transport to *worker*; the connection is made with the first read."""
        if worker not in self._made:
            channel = await self._stack.enter_async_context(connect(worker))
            self._made[worker] = WorkerClient(channel)
        return self._made[worker]
