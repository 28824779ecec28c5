"""The transport that leads to every worker: frames in messages, over a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from penstock.credentials.caller import Caller
from penstock.credentials.roles import certified_name
from penstock.errors import PenstockError
from penstock.protocol.malformed import MALFORMED
from penstock.protocol.nearness import KnownWorker
from penstock.wire.connection import connect
from penstock.wire.worker import WorkerClient

SERVER = certified_name("worker")
"""The name in every worker's certificate, whatever its host; the dispatcher tells the address."""


@asynccontextmanager
async def to_worker(worker: KnownWorker, caller: Caller) -> AsyncIterator[WorkerClient]:
    """Open a transport to *worker* as *caller*; the first read opens the connection."""
    async with connect(worker.address, caller=caller, server=SERVER) as channel:
        yield WorkerClient(channel)


class _StatusSeen(msgspec.Struct):
    incarnation: int


async def lives(worker: KnownWorker, caller: Caller, timeout: float) -> bool:
    """Return whether *worker* answers *caller* within *timeout* seconds, in this incarnation.

    Another process that has its address by now does not count.
    """
    try:
        async with connect(worker.address, caller=caller, server=SERVER) as channel:
            stats = await WorkerClient(channel, timeout=timeout).status()
        return msgspec.json.decode(stats, type=_StatusSeen).incarnation == worker.incarnation
    except PenstockError:
        return False
    except MALFORMED:  # it is of another version, and so not what was registered
        return False
