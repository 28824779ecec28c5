"""HTTP beside a service: who is admitted, what is refused, what is bounded."""

import asyncio
import base64
import contextlib
import errno
import socket
import ssl

import aiohttp
import pytest
from aiohttp import web

from penstock.credentials.access import AccessRole
from penstock.credentials.authority import token
from penstock.credentials.entrance import entrance_of
from penstock.errors import ConfigError
from penstock.web import server
from penstock.web.server import health_routes, serving
from tests.credentials.keyring import made


async def look(_):
    return web.Response(text="looked")


async def fails(_):
    raise RuntimeError("within")


ROUTES = [web.get("/metrics", look), web.get("/", fails), *health_routes(lambda: "not yet")]


@contextlib.asynccontextmanager
async def asked(entrance, scheme="http", **options):
    """Yield a function that asks a server with *entrance*: the status, the text, the headers."""
    async with serving(ROUTES, "127.0.0.1", 0, entrance) as port:
        async with aiohttp.ClientSession(**options) as session:

            async def ask(path, method="GET", **how):
                url = f"{scheme}://localhost:{port}{path}"
                async with session.request(method, url, **how) as answer:
                    return answer.status, await answer.text(), answer.headers

            ask.port = port
            yield ask


@pytest.fixture
def local():
    return entrance_of("127.0.0.1", None, insecure=False)


async def test_on_loopback_whoever_is_on_this_machine_may_look(local):
    async with asked(local) as ask:
        status, text, headers = await ask("/metrics")

    assert (status, text) == (200, "looked")
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"


async def test_health_says_that_the_loop_runs_and_why_it_is_not_ready(local):
    async with asked(local) as ask:
        assert (await ask("/healthz"))[:2] == (200, "ok\n")
        assert (await ask("/readyz"))[:2] == (503, "not yet\n")


async def test_a_page_of_another_site_gets_nothing_whatever_its_name_stands_for(local):
    async with asked(local) as ask:
        status, text, _ = await ask("/metrics", headers={"Host": "evil.example"})

    assert status == 403
    assert "evil.example" in text


@pytest.mark.parametrize(
    "header",
    [
        b"Host: [",
        b"Host: []",
        b"Host: a]b",
        b"Host: [::1]x",
        b"Host: [fe80::1%",
        b"Host: a\xe2\x84\x80b",  # a character that a normal form makes into others
        b"Host: \xff\xfe",
        b"Host: localhost:port",
        b"Host: localhost\r\nAuthorization: \xff\xfe",
        b"Host: localhost\r\nAuthorization: Basic !",
        b"Host: localhost\r\nAuthorization: Bearer [",
    ],
)
@pytest.mark.parametrize("target", [b"/healthz", b"/metrics?a=%ff&[", b"http://[/healthz", b"//["])
async def test_a_malformed_request_is_the_callers_fault_and_leaves_no_traceback_in_the_log(
    local, caplog, header, target
):
    async with serving(ROUTES, "127.0.0.1", 0, local) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET %b HTTP/1.1\r\n%b\r\nConnection: close\r\n\r\n" % (target, header))
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()

    status = int(answer.split()[1])
    assert status < 500
    assert all(record.exc_info is None for record in caplog.records)
    assert sum(len(record.getMessage()) for record in caplog.records) < 300


@pytest.mark.parametrize(("path", "method", "status"), [("/no", "GET", 404), ("/", "POST", 405)])
async def test_what_is_not_there_is_said_to_nobody_in_particular(local, path, method, status):
    async with asked(local) as ask:
        assert (await ask(path, method))[0] == status


async def test_a_fault_is_logged_and_not_told(local, caplog):
    async with asked(local) as ask:
        status, text, _ = await ask("/")

    assert status == 500
    assert "within" not in text
    assert "RuntimeError: within" in caplog.text


async def test_with_credentials_it_is_tls_and_a_token_is_shown(tmp_path):
    keys = made(tmp_path / "keys")
    entrance = entrance_of("0.0.0.0", str(keys / "dispatcher"), insecure=False)
    trusted = ssl.create_default_context(cafile=str(keys / "dispatcher" / "ca.crt"))
    shown = token(keys, AccessRole.OPERATOR, "ann", 0, 1e12)

    async with asked(entrance, "https", connector=aiohttp.TCPConnector(ssl=trusted)) as ask:
        assert (await ask("/healthz"))[0] == 200
        status, text, headers = await ask("/metrics")
        assert status == 401
        assert "Bearer" in headers.getall("WWW-Authenticate")
        assert (await ask("/metrics", headers={"Authorization": f"Bearer {shown}"}))[0] == 200
        as_browsers_do = base64.b64encode(f"ann:{shown}".encode()).decode()
        how = {"headers": {"Authorization": f"Basic {as_browsers_do}"}}
        assert (await ask("/metrics", **how))[0] == 200
        status, text, _ = await ask(f"/metrics?token={shown}")
        assert status == 401
        assert "address" in text


async def test_a_port_in_use_is_an_error_that_says_what_to_do(local):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"{port}.*--http-port"):
            async with serving(ROUTES, "127.0.0.1", port, local):
                pass


@pytest.mark.parametrize("why", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
async def test_an_address_that_this_host_does_not_have_is_passed_over(local, monkeypatch, why):
    def create(address, real=socket.create_server, **how):
        if how["family"] == socket.AF_INET6 or address[0] == "127.0.0.9":
            raise OSError(why, "not here")
        return real(address, **how)

    async def found(host, port, **_):
        known = [(socket.AF_INET, 1, 6, "", (host, port))]
        return [(socket.AF_INET6, 1, 6, "", ("::1", port, 0, 0)), *known]

    monkeypatch.setattr(server.socket, "create_server", create)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    async with serving(ROUTES, "127.0.0.1", 0, local) as port:
        assert port
    with pytest.raises(ConfigError, match="127.0.0.9:0: not here"):
        async with serving(ROUTES, "127.0.0.9", 0, local):
            pass


async def test_a_body_is_not_read(local):
    async with asked(local) as ask:
        status, _, _ = await ask("/metrics", data=b"x" * (server.MOST_BODY + 1))

    assert status == 200  # nothing asked for it


async def test_an_answer_under_way_does_not_keep_a_service_from_ending(local):
    began = asyncio.Event()

    async def for_ever(_):
        began.set()
        await asyncio.Event().wait()

    loop = asyncio.get_running_loop()
    async with aiohttp.ClientSession() as session:
        async with serving([web.get("/metrics", for_ever)], "127.0.0.1", 0, local) as port:
            asking = asyncio.create_task(session.get(f"http://localhost:{port}/metrics"))
            await began.wait()
            stopping = loop.time()
        took = loop.time() - stopping
        with contextlib.suppress(aiohttp.ClientError):
            (await asking).close()
    assert took < 6
