"""One HTTP server, on the event loop of a service; guarded by the same table as its calls."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import AsyncIterator, Sequence
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
from penstock.runtime.accepted import most_files
from penstock.web.door import BACKLOG, Door

log = logging.getLogger("penstock.http")

MOST_BODY = 1 << 10
"""Bytes of a request behind its headers: nothing here is sent any."""

KEPT_IDLE = 75.0
"""Seconds that a connection without a request is kept: longer than scrapers wait between two."""

CLOSE_WITHIN = 0.3
"""Seconds that answers under way get at the stop."""

ABSENT = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""An address that this host does not have, as `::1` where IPv6 is disabled."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@asynccontextmanager
async def serving(
    routes: Sequence[web.RouteDef], host: str, port: int, entrance: Entrance
) -> AsyncIterator[int]:
    """Answer requests for *routes* while the block lasts; yield the port that is bound.

    Who asks is admitted by the rows of ``credentials.access`` that begin with ``GET``; a path
    without a row is for nobody. With credentials it is TLS.

    Args:
        routes: what is answered. A route is asked for by its own path in the table.
        host: the interface to listen on.
        port: the port; 0 takes any free one.
        entrance: of the service.

    Raises:
        ConfigError: when the port cannot be had, or the certificate cannot be used.
    """
    folder = entrance.folder
    tls = None if folder is None else http.server_context(folder)
    # Each is a file of this process, most of which are for its calls and its own work.
    door = Door(min(entrance.max_http_connections, max(most_files() // 8, 1)), tls)
    runner = _runner(routes, [_heard(door), _admission(entrance)])
    await runner.setup()
    try:
        with ExitStack() as held:
            socks = [held.enter_context(one) for one in await _listening(host, port)]
            async with door.open_at(socks, runner.server):
                yield socks[0].getsockname()[1]
    finally:
        await runner.cleanup()  # answers under way get a moment
        door.hang_up()


def _runner(routes: Sequence[web.RouteDef], middlewares: Sequence[Middleware]) -> web.AppRunner:
    app = web.Application(middlewares=middlewares, client_max_size=MOST_BODY)
    app.add_routes(routes)
    return web.AppRunner(
        app,
        access_log=None,
        logger=_faults_of_servers(),
        handle_signals=False,
        handler_cancellation=True,  # a page that is closed costs nothing further
        keepalive_timeout=KEPT_IDLE,
        shutdown_timeout=CLOSE_WITHIN,
    )


def _faults_of_servers() -> logging.Logger:
    """Return the logger of aiohttp's server, without the traceback for each malformed request.

    Anybody who reaches the port can send such requests without end. Each one is answered with 400.
    """
    log = logging.getLogger("penstock.http.server")
    log.addFilter(_is_fault_of_server)
    return log


def _is_fault_of_server(record: logging.LogRecord) -> bool:
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


async def _listening(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen there: one for each address of this host that *host* stands for.

    Raises:
        ConfigError: when the port cannot be had.
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
    """Refuse what a page of another site asks for, where nothing but the way here says who asks.

    A name that such a page is loaded from may be made to stand for loopback; it is what the
    request names as its host.
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
