"""TensorFlow clients, kept in a file of the work directory and expired after their lease."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from penstock_dispatcher.tensorflow.client_facts import Fact
from penstock_dispatcher.tensorflow.clients import TensorFlowClients
from penstock_dispatcher.work_dir.fact_file import FactFile

NAME = "tensorflow-clients.jsonl"

LOST = "after a restart TensorFlow's clients must begin again"


def clients_at(work_dir: str | None, lease: float) -> TensorFlowClients:
    """Return the clients that are known in a folder, or none; decisions are written there.

    Each start leaves out facts that nobody needs any more. A client may be silent for *lease*
    seconds.
    """
    # Numbers of another life, of which nothing was kept, must not come again.
    first = int(time.time()) << 10
    file = FactFile[Fact](None if work_dir is None else Path(work_dir) / NAME, Fact, LOST)
    needed = TensorFlowClients(list(file.read()), first, lambda _: None, lease).facts()
    file.rewrite(needed)
    return TensorFlowClients(needed, first, file.keep, lease)


LOOKS = 8
"""How many looks there are within a lease."""


@asynccontextmanager
async def expiring(
    clients: TensorFlowClients, lease: float, clock: Callable[[], float]
) -> AsyncIterator[None]:
    """Forget silent clients while the block lasts: see `TensorFlowClients.forget_silent`."""
    task = asyncio.create_task(_look_forever(clients, lease / LOOKS, clock), name="tf expiry")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _look_forever(
    clients: TensorFlowClients, pause: float, clock: Callable[[], float]
) -> None:
    while True:
        clients.forget_silent(clock())
        await asyncio.sleep(pause)
