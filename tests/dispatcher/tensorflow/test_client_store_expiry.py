"""A dispatcher looks by itself for TensorFlow's clients that are silent."""

import asyncio
import time

import pytest

from penstock.errors import UnknownIteration
from penstock_dispatcher.tensorflow.client_store import clients_at, expiring
from tests.dispatcher.tensorflow.test_client_store import entered, tasks

LEASE = 0.2


async def test_a_silent_client_is_gone_after_its_lease_though_nobody_asks():
    clients = clients_at(None, LEASE)
    async with expiring(clients, LEASE, time.monotonic), asyncio.timeout(20):
        client = entered(clients)
        while clients.facts():
            await asyncio.sleep(LEASE / 10)

    with pytest.raises(UnknownIteration):
        tasks(clients, client)
