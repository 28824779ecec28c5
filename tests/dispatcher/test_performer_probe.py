import asyncio
import socket
import time

import pytest

from penstock.protocol.types import WorkerId
from penstock_dispatcher import performer
from penstock_dispatcher.calls import PendingCalls
from penstock_dispatcher.core.events import ProbeWorker
from penstock_dispatcher.performer import is_refused


@pytest.mark.parametrize("host, name", [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost")])
async def test_a_port_without_a_listener_is_refused(host, name):
    with socket.socket() as bound:
        bound.bind((host, 0))

        assert await is_refused(f"{name}:{bound.getsockname()[1]}")


@pytest.mark.slow
async def test_a_port_with_a_listener_is_not():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert not await is_refused(f"127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.slow
async def test_silence_is_no_proof_and_ends():
    began = time.monotonic()

    # A full backlog lets nobody in and refuses nobody.
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        assert not await is_refused(f"127.0.0.1:{listener.getsockname()[1]}", timeout=0.1)

    assert time.monotonic() - began < 10


@pytest.mark.quick(1)
@pytest.mark.parametrize("address", ["here", "here:", "127.0.0.1:x", "no.such.host.invalid:1", ""])
async def test_an_address_that_means_nothing_is_no_proof(address):
    assert not await is_refused(address, timeout=0.5)


async def test_a_probe_that_fails_is_logged_and_proves_nothing(monkeypatch, caplog):
    async def broken(_worker):
        raise RuntimeError("no sense")

    heard = []
    monkeypatch.setattr(performer, "is_refused", broken)
    outside = performer.Performer(PendingCalls(), heard.append)
    outside.perform(ProbeWorker(WorkerId("127.0.0.1:9"), 1))
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(others, timeout=20)

    assert heard == []
    assert "worker 127.0.0.1:9 is there could not be found out: RuntimeError" in caplog.text
