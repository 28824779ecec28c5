"""What a worker says of itself."""

import json

from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect
from penstock.wire.worker import WorkerClient


def status_of(address):
    async def ask():
        async with connect(address) as channel:
            return json.loads(await WorkerClient(channel).status())

    with LoopThread.shared() as loop:
        return loop.run(ask(), 10)


def kept_bytes(address):
    buffers = status_of(address)["buffers"]
    return next(b["nbytes"] for b in buffers if b["name"] == "frames that readers keep")
