"""Services answer the gRPC health protocol."""

import asyncio
import socket
from functools import partial

import pytest

from penstock.credentials.entrance import entrance_of
from penstock.wire.connection import listening
from penstock_health.probe import probe, tls_in
from tests.credentials.keyring import made
from tests.wire.foreign_servers import stranger_that_says


async def test_a_service_that_listens_says_that_it_serves():
    async with listening(host="127.0.0.1", port=0, drain=0.1) as port:
        health = await asyncio.to_thread(probe, f"127.0.0.1:{port}", 5)

    assert (health.serves, health.text) == (True, "serving")


async def test_a_service_with_tls_answers_by_it_and_without_a_token(tmp_path):
    keys = made(tmp_path / "keys")
    entrance = entrance_of("127.0.0.1", str(keys / "worker"), insecure=False)
    async with listening(host="127.0.0.1", port=0, drain=0.1, entrance=entrance) as port:
        ask = partial(asyncio.to_thread, probe, f"127.0.0.1:{port}", 5)
        for folder in (keys, keys / "reader"):
            assert (await ask(tls_in(str(folder)))).serves
        assert not (await ask()).serves


def test_where_no_credentials_are_named_there_is_no_tls(tmp_path):
    assert tls_in("") is None
    with pytest.raises(OSError):
        tls_in(str(tmp_path))


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
