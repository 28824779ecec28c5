"""Services answer the gRPC health protocol."""

import asyncio
import socket

from penstock.wire.connection import listening
from penstock_health.probe import probe
from tests.wire.foreign_servers import stranger_that_says


async def test_a_service_that_listens_says_that_it_serves():
    async with listening(host="127.0.0.1", port=0, drain=0.1) as port:
        health = await asyncio.to_thread(probe, f"127.0.0.1:{port}", 5)

    assert (health.serves, health.text) == (True, "serving")


def test_nobody_at_the_address_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

    health = probe(address, 2)

    assert not health.serves
    assert address in health.text


def test_a_stranger_at_the_address_is_named():
    with stranger_that_says(b"") as address:
        health = probe(address, 1)

    assert not health.serves
    assert address in health.text
