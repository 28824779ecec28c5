"""An HTTP server on a service's event loop, with the same access table as the service's calls."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from penstock.credentials import http
from penstock.credentials.entrance import Entrance, Security
from penstock.credentials.local import is_loopback
from penstock.errors import ConfigError, PenstockError, Refused
from penstock.protocol.malformed import glimpse
from penstock.runtime.descriptors import most_files
from penstock.web.door import BACKLOG, Door

log = logging.getLogger("penstock.http")

MOST_BODY = 1 << 10
"""Most bytes of a request's body; no route here needs one."""

KEPT_IDLE = 75.0
"""Seconds until a connection without requests is closed: longer than the interval of scrapers."""

CLOSE_WITHIN = 0.3
"""Seconds that unfinished answers have when the server stops."""

ABSENT = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""Errors for an address that this host does not have, such as `::1` if IPv6 is disabled."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@asynccontextmanager
async def serving(
    routes: Sequence[web.RouteDef], host: str, port: int, entrance: Entrance
) -> AsyncIterator[int]:
    """Answer requests for *routes* while the block runs; yield the port that the server got.

    The rows of ``credentials.access`` that begin with ``GET`` decide who may request a path; a path
    without a row is refused. With credentials, the server uses TLS.

    Args:
        routes: the routes to answer; the table must have a row for each route's path.
        host: the interface to listen on.
        port: the port; 0 takes any free one.
        entrance: the service's entrance.

    Raises:
        ConfigError: when the server cannot listen on the port or use the certificate.
    """
    folder = entrance.folder
    tls = None if folder is None else http.server_context(folder)
    # Each connection is an open file, and most files are for the service's calls and own work.
    door = Door(min(entrance.limits["max_http_connections"], max(most_files() // 8, 1)), tls)
    runner = _runner(routes, [_heard(door), _admission(entrance)])
    await runner.setup()
    try:
        with ExitStack() as held:
            socks = [held.enter_context(one) for one in await _listening(host, port)]
            async with door.open_at(socks, runner.server):
                yield socks[0].getsockname()[1]
    finally:
        await runner.cleanup()  # unfinished answers have `CLOSE_WITHIN` seconds
        door.hang_up()


def _runner(routes: Sequence[web.RouteDef], middlewares: Sequence[Middleware]) -> web.AppRunner:
    app = web.Application(middlewares=middlewares, client_max_size=MOST_BODY)
    app.add_routes(routes)
    return web.AppRunner(
        app,
        access_log=None,
        logger=_faults_of_servers(),
        handle_signals=False,
        handler_cancellation=True,  # a closed page causes no more work
        keepalive_timeout=KEPT_IDLE,
        shutdown_timeout=CLOSE_WITHIN,
    )


def _faults_of_servers() -> logging.Logger:
    """Return the logger of aiohttp's server, without the traceback for each malformed request.

    Anybody who reaches the port can send malformed requests without end. Each is answered with 400.
    """
    log = logging.getLogger("penstock.http.server")
    log.addFilter(_is_fault_of_server)
    return log


def _is_fault_of_server(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _listening(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets: one for each address of this host that *host* stands for.

    Raises:
        ConfigError: when the server cannot listen on the port.
    """
    socks: list[socket.socket] = []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        absent: OSError | None = None
        for family, _, _, _, (address, *_) in dict.fromkeys(found):
            at = port if not socks else socks[0].getsockname()[1]
            try:
                sock = socket.create_server((address, at), family=family, backlog=BACKLOG)
            except OSError as exc:
                if exc.errno not in ABSENT:
                    raise
                absent = exc
                continue
            socks.append(sock)
            sock.setblocking(False)
        if absent is not None and not socks:
            raise absent
    except OSError as exc:
        for sock in socks:
            sock.close()
        raise ConfigError(
            f"cannot listen for HTTP on {host}:{port}: {exc.strerror or exc}; choose another "
            "http_port (--http-port), 0 for any free one, or another http_host"
        ) from exc
    return socks


def _heard(door: Door) -> Middleware:
    @web.middleware
    async def heard(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await door.heard(request, handler)

    return heard


def _admission(entrance: Entrance) -> Middleware:
    @web.middleware
    async def admitted(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _check_host(request, entrance)
            resource = request.match_info.route.resource
            if resource is None:  # no such path, or not by this method
                return await _answered(request, handler)
            query = f"?{request.query_string}" if request.query_string else ""
            shown = request.headers.get("Authorization", "")
            http.admit(entrance.guard, request.method, resource.canonical + query, shown)
        except PenstockError as exc:
            return _refused(http.refusal(exc))
        return await _answered(request, handler)

    return admitted


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    began = time.perf_counter()
    try:
        response = await handler(request)
    except web.HTTPException as exc:
        exc.headers.update(_HEADERS)
        raise
    except Exception:
        log.exception("%s %s could not be answered", request.method, request.path)
        return web.Response(status=500, text="this could not be answered; the log says why\n")
    if not response.prepared:
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
    log.debug("%s %s: %.4f s", request.method, request.path, time.perf_counter() - began)
    return response


def _check_host(request: web.Request, entrance: Entrance) -> None:
    """Refuse requests from pages of other sites if loopback is the only protection.

    An attacker can make the name of another site resolve to loopback. The request then names that
    site as its host.
    """
    if entrance.security is not Security.LOCAL:
        return
    try:
        named = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:  # no address at all, such as "["
        named = ""
    if not is_loopback(named):
        raise Refused(
            f"{glimpse(request.host)} is not a name of this machine's loopback: ask for "
            "http://localhost, or give the service credentials"
        )


def _refused(refusal: http.HttpRefusal) -> web.Response:
    response = web.Response(status=refusal.status, text=refusal.text + "\n", headers=_HEADERS)
    for name, value in refusal.headers:
        response.headers.add(name, value)
    return response


def health_routes(unready: Callable[[], str]) -> Sequence[web.RouteDef]:
    """Return ``/healthz``, which says that the event loop runs, and ``/readyz``.

    They need no credential.

    Args:
        unready: returns why the service is not ready; empty if it is.
    """

    async def healthz(_: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.StreamResponse:
        why = unready()
        return web.Response(status=503 if why else 200, text=f"{why or 'ok'}\n")

    return [web.get("/healthz", healthz), web.get("/readyz", readyz)]
