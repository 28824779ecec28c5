"""Connections of HTTP: half-open ones, slow ones and floods of them keep nobody else out."""

import asyncio
import contextlib
import gc
import select
import socket
import ssl

import pytest
from aiohttp import web

from penstock.credentials.entrance import Entrance, Security, entrance_of
from penstock.credentials.guard import OpenGuard
from penstock.credentials.limits import limits_of
from penstock.web import door, server
from penstock.web.server import serving
from tests.credentials.keyring import made

LARGE = b"x" * (4 << 20)


async def look(_):
    return web.Response(text="looked")


async def large(_):
    return web.Response(body=LARGE)


ROUTES = [web.get("/metrics", look), web.get("/api/page", large)]


def at(entrance=None, **bounds):
    entrance = entrance or Entrance(Security.INSECURE, OpenGuard(), limits_of("dispatcher", bounds))
    return serving(ROUTES, "127.0.0.1", 0, entrance)


@pytest.fixture
async def connected():
    """Yield what connects to a port from a *source*: each of 127.0.0.0/8 is an address here."""
    pairs = []

    async def connect(port, source="127.0.0.1", **tls):
        where = "localhost" if tls else "127.0.0.1"
        pair = await asyncio.open_connection(where, port, local_addr=(source, 0), **tls)
        pairs.append(pair)
        return pair

    yield connect
    for _, writer in pairs:
        writer.transport.abort()
    for _, writer in pairs:
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def asks(pair, path="/metrics"):
    """Ask for *path*; return the first line of the answer."""
    reader, writer = pair
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async with asyncio.timeout(20):
        line = await reader.readline()
        if path == "/metrics":
            await reader.readuntil(b"looked")
    return line


async def ended(pair):
    """Return once the server has hung up on *pair*."""
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionError):
            while await pair[0].read(1 << 16):
                pass


async def test_one_that_says_nothing_is_closed(monkeypatch, connected):
    monkeypatch.setattr(door, "FIRST_WITHIN", 0.05)
    async with at() as port:
        await ended(await connected(port))
        assert b"200" in await asks(await connected(port))


async def test_one_that_never_ends_its_handshake_is_closed(monkeypatch, tmp_path, connected):
    keys = made(tmp_path / "keys")
    trusted = ssl.create_default_context(cafile=str(keys / "dispatcher" / "ca.crt"))
    async with at(entrance_of("0.0.0.0", str(keys / "dispatcher"), insecure=False)) as port:
        monkeypatch.setattr(door, "FIRST_WITHIN", 0.05)
        half = await connected(port)
        half[1].write(b"\x16\x03\x01")  # how a handshake begins
        await ended(half)
        monkeypatch.setattr(door, "FIRST_WITHIN", 20.0)
        reader, writer = await connected(port, ssl=trusted)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"401" in await reader.readline()


async def test_where_it_is_full_one_that_asks_nothing_makes_room_of_those_who_have_most(
    caplog, connected
):
    async with at(max_http_connections=8) as port:
        kept = await connected(port, "127.0.0.9")
        assert b"200" in await asks(kept)
        flood = [await connected(port, "127.0.0.6") for _ in range(200)]
        for _ in range(3):  # the honest one stays, and new ones come in
            assert b"200" in await asks(kept)
            assert b"200" in await asks(await connected(port, "127.0.0.8"))
        await ended(flood[0])

    (told,) = caplog.records
    assert "127.0.0.6" in told.getMessage()
    assert "max_http_connections" in told.getMessage()


async def test_one_that_is_being_answered_is_not_closed_for_a_new_one(connected):
    began, go = asyncio.Event(), asyncio.Event()

    async def waits(_):
        began.set()
        await go.wait()
        return web.Response(text="looked")

    entrance = Entrance(
        Security.INSECURE, OpenGuard(), limits_of("dispatcher", {"max_http_connections": 1})
    )
    async with serving([web.get("/metrics", waits)], "127.0.0.1", 0, entrance) as port:
        first = await connected(port)
        asking = asyncio.create_task(asks(first))
        await began.wait()
        await ended(await connected(port))
        go.set()
        assert b"200" in await asking


async def test_one_that_does_not_take_its_answer_is_closed_and_holds_up_nobody(
    monkeypatch, connected
):
    monkeypatch.setattr(door, "TAKEN_WITHIN", 0.2)
    async with at() as port:
        with socket.create_connection(("127.0.0.1", port)) as slow:
            slow.sendall(b"GET /api/page HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" in await asks(await connected(port))
            closed = select.poll()
            closed.register(slow, 0)  # nothing but that it is over
            assert await asyncio.to_thread(closed.poll, 20_000)


async def came_by_tls(where, trusted):
    """Connect by TLS; return the socket, which then does nothing by itself."""
    loop = asyncio.get_running_loop()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
    sock.setblocking(False)
    await loop.sock_connect(sock, ("127.0.0.1", where))
    sock.setblocking(True)

    sock.settimeout(20)
    how = {"server_hostname": "localhost", "suppress_ragged_eofs": False}
    return await asyncio.to_thread(trusted.wrap_socket, sock, **how)


async def asked_last_by_tls(where, trusted):
    """Ask for a large answer as the last one, by TLS; return the socket, which takes nothing."""
    tls = await came_by_tls(where, trusted)
    tls.sendall(b"GET /api/page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b"200" in await asyncio.to_thread(tls.recv, 12)
    return tls


@pytest.fixture
def by_tls(tmp_path):
    """Return what starts a server with TLS for whoever comes, and whom clients are to trust."""
    keys = made(tmp_path / "keys")
    folder = entrance_of("0.0.0.0", str(keys / "dispatcher"), insecure=False).folder
    trusted = ssl.create_default_context(cafile=str(keys / "dispatcher" / "ca.crt"))

    def start(**bounds):
        return at(
            Entrance(Security.INSECURE, OpenGuard(), limits_of("dispatcher", bounds), folder=folder)
        )

    return start, trusted


def over(sock, seen=0):
    closed = select.poll()
    closed.register(sock, seen)  # nothing but that it is over
    return asyncio.to_thread(closed.poll, 20_000)


async def test_by_tls_one_that_is_closing_and_takes_nothing_is_ended(monkeypatch, by_tls):
    start, trusted = by_tls
    async with start() as port:
        monkeypatch.setattr(door, "TAKEN_WITHIN", 0.2)
        with await asked_last_by_tls(port, trusted) as slow:
            assert await over(slow)


async def test_by_tls_one_that_is_closing_is_ended_where_room_is_made(by_tls, connected):
    start, trusted = by_tls
    async with start(max_http_connections=1) as port:
        with await asked_last_by_tls(port, trusted) as slow:
            await connected(port)
            assert await over(slow)


async def test_by_tls_one_that_takes_its_last_answer_slowly_gets_it_whole(by_tls):
    start, trusted = by_tls
    async with start() as port:
        with await asked_last_by_tls(port, trusted) as slow:
            await asyncio.sleep(0.5)

            def rest():
                while took := slow.recv(1 << 16):
                    yield len(took)

            assert await asyncio.to_thread(lambda: sum(rest())) > len(LARGE)


async def test_by_tls_one_that_is_ended_as_its_handshake_ends_is_not_in_the_way_of_the_next(
    by_tls, connected, monkeypatch
):
    loop = asyncio.get_running_loop()
    firsts = []

    async def cancelled(*args, real=loop.connect_accepted_socket, **how):
        transport, protocol = await real(*args, **how)
        if not firsts:  # what asyncio does where it is cancelled in that moment
            firsts.append(transport)
            transport.close()
            raise asyncio.CancelledError
        return transport, protocol

    monkeypatch.setattr(loop, "connect_accepted_socket", cancelled)
    start, trusted = by_tls
    async with start() as port:
        with await came_by_tls(port, trusted) as first:
            assert await over(first, select.POLLRDHUP)
            assert b"200" in await asks(await connected(port, ssl=trusted))


async def test_where_few_files_may_be_open_fewer_come_in(monkeypatch, connected):
    monkeypatch.setattr(server, "most_files", lambda: 16)
    monkeypatch.setattr(door, "FIRST_WITHIN", 60.0)
    async with at() as port:
        first = await connected(port)
        await connected(port)
        await connected(port)
        await ended(first)


@pytest.mark.slow
async def test_requests_of_one_that_reads_no_answers_are_not_read_either(connected):
    def read():
        return sum("RawRequestMessage" in type(one).__name__ for one in gc.get_objects())

    async with at() as port:
        reader, writer = await connected(port)
        reader._transport.pause_reading()
        writer.write(b"GET /api/page HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000)
        most = 0
        for _ in range(20):
            assert b"200" in await asks(await connected(port))
            most = max(most, read())
        assert 0 < most < 1000
