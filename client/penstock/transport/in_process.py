"""Workers in this process, and the transport to them: calls in one event loop, and no socket.

A worker that starts in a training process registers itself here, so this library does not need to
import the services. The worker hands over headers and payloads without a copy. Payloads stay valid
forever.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import Unavailable
from penstock.protocol.data import ReadRequest, StreamEnd
from penstock.protocol.nearness import KnownWorker
from penstock.protocol.types import WorkerId

if TYPE_CHECKING:
    from penstock.wire.worker import Replies


class InProcessWorker(Protocol):
    """The methods of a worker for readers in its own process."""

    def hand_over(self, requests: AsyncIterator[ReadRequest]) -> AsyncIterator[Replies]:
        """Deliver a task's elements to one reader, as `WorkerApi.read` does in bytes."""
        ...


@dataclass(frozen=True, slots=True)
class _Entry:
    worker: InProcessWorker
    incarnation: int
    loop: asyncio.AbstractEventLoop
    process: int


_workers: dict[WorkerId, _Entry] = {}


@contextmanager
def offered(address: WorkerId, incarnation: int, worker: InProcessWorker) -> Iterator[None]:
    """Let readers in this process read *worker* directly, on the event loop that runs here."""
    entry = _Entry(worker, incarnation, asyncio.get_running_loop(), os.getpid())
    _workers[address] = entry
    try:
        yield
    finally:
        if _workers.get(address) is entry:
            del _workers[address]


def here() -> dict[WorkerId, int]:
    """Return the workers in this process, with their incarnations; any thread may call this."""
    mine = os.getpid()  # a forked process has a copy of the table, but no worker
    known = tuple(_workers.items())
    return {address: entry.incarnation for address, entry in known if entry.process == mine}


def in_this_loop(address: WorkerId, incarnation: int) -> bool:
    """Return whether a worker runs in this process, in the event loop that runs here."""
    entry, loop = _workers.get(address), asyncio.get_running_loop()
    same = entry is not None and entry.loop is loop and entry.process == os.getpid()
    return same and entry is not None and entry.incarnation == incarnation


@asynccontextmanager
async def to_worker(worker: KnownWorker) -> AsyncIterator[InProcessTransport]:
    """Open a transport to *worker*.

    Raises:
        Unavailable: when the worker is not in this process, or runs in another event loop.
    """
    yield InProcessTransport(worker.address, _entry(worker.address, worker.incarnation))


class InProcessTransport:
    """The transport to a worker in this process."""

    def __init__(self, address: WorkerId, entry: _Entry) -> None:
        self._address, self._incarnation, self._worker = address, entry.incarnation, entry.worker

    async def read(
        self, requests: AsyncIterator[ReadRequest], greeted: Callable[[], None] | None = None
    ) -> AsyncGenerator[Replies, None]:
        """See `Transport.read`."""
        _entry(self._address, self._incarnation)
        if greeted is not None:
            greeted()
        async with aclosing(self._worker.hand_over(requests)) as messages:  # type: ignore[type-var]
            async for replies in messages:
                over = isinstance(replies[-1][0], StreamEnd)
                if over:
                    await asyncio.sleep(0)  # the worker hears what this reader acked before
                yield replies
                if over:
                    return

    async def answer(self, timeout: float) -> None:  # noqa: ARG002  # it is there or not
        """See `Transport.answer`."""
        _entry(self._address, self._incarnation)

    @property
    def broken(self) -> bool:
        """See `Transport.broken`: a worker that left this process does not come back."""
        return here().get(self._address) != self._incarnation


def _entry(address: WorkerId, incarnation: int) -> _Entry:
    entry = _workers.get(address)
    if entry is None or entry.incarnation != incarnation or entry.process != os.getpid():
        raise Unavailable(f"worker {address} is not in this process")
    if entry.loop is not asyncio.get_running_loop():
        raise Unavailable(f"worker {address} is in this process, in another event loop")
    return entry
