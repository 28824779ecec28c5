"""Looks for TensorFlow's clients that are silent: a killed process never says that it is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from penstock_dispatcher.tensorflow.clients import TensorFlowClients

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
