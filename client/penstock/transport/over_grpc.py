"""The transport that leads to every worker: frames in messages, over a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.credentials.caller import Caller
from penstock.credentials.roles import certified_name
from penstock.protocol.nearness import KnownWorker
from penstock.wire.connection import connect
from penstock.wire.worker import WorkerClient

SERVER = certified_name("worker")
"""Whose certificate a worker shows, on whatever host it is: the dispatcher says where that is."""


@asynccontextmanager
async def to_worker(worker: KnownWorker, caller: Caller) -> AsyncIterator[WorkerClient]:
    """Lead to *worker* as *caller*; the connection is made with the first read."""
    async with connect(worker.address, caller=caller, server=SERVER) as channel:
        yield WorkerClient(channel)
