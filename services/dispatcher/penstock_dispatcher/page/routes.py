"""The page over HTTP: its files, its contents, and server-sent events for changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib import resources

import msgspec
from aiohttp import web

from penstock.errors import Overloaded
from penstock_dispatcher.page import details
from penstock_dispatcher.page.feed import PageFeed
from penstock_dispatcher.page.history import Moment

SEND_WITHIN = 10.0
"""Seconds that one who looks on may take to receive a message."""

LARGEST_ID = 1 << 62

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The sources that the page may load from: its own files, and nothing from elsewhere."""

_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".json": "application/json",
}

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def page_routes(feed: PageFeed, status: Callable[[], Awaitable[bytes]]) -> Sequence[web.RouteDef]:
    """Return the routes of the page, and of its requests.

    Args:
        feed: the contents of the page.
        status: returns all counters as JSON, as ``penstock status --json`` prints them.
    """
    files = _files()

    async def counters(_: web.Request) -> web.StreamResponse:
        return _json(await status())

    return [
        web.get("/", partial(_file, files, "index.html")),
        web.get("/assets/{name:.+}", partial(_asset, files)),
        web.get("/api/status", counters),
        web.get("/api/page", partial(_shown, feed)),
        web.get("/events", partial(_events, feed)),
    ]


def _files() -> dict[str, bytes]:
    """Return the files of the page by their names, which are all that can be asked for."""
    top = resources.files("penstock_dispatcher.page") / "assets"
    found = {one.name: one.read_bytes() for one in top.iterdir() if one.is_file()}
    vendored = (one for one in (top / "vendor").iterdir() if one.is_file())
    return found | {f"vendor/{one.name}": one.read_bytes() for one in vendored}


async def _asset(files: dict[str, bytes], request: web.Request) -> web.StreamResponse:
    return await _file(files, request.match_info["name"], request)


async def _file(files: dict[str, bytes], name: str, _: web.Request) -> web.StreamResponse:
    kind = _KINDS.get(name[name.rfind(".") :])
    if name not in files or kind is None:
        raise web.HTTPNotFound(text="there is no such file\n")
    headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
    return web.Response(body=files[name], content_type=kind, charset="utf-8", headers=headers)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def _shown(feed: PageFeed, request: web.Request) -> web.StreamResponse:
    """Answer with all that the page shows, or with the one thing that the query names."""
    if not request.query:
        return _json(feed.snapshot())
    (name, value), *more = request.query.items()
    if more or name not in _ASKED:
        names = ", ".join(_ASKED)
        raise web.HTTPBadRequest(text=f"ask for one of {names}, as ?{name[:80]} is none of them\n")
    try:
        found = _ASKED[name](feed.moment(), value)
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name} must be a number\n") from None
    if found is None:
        raise web.HTTPNotFound(text=f"there is no {name} of this name now\n")
    return _json(msgspec.json.encode(found))


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(LARGEST_ID)):
        raise ValueError
    return int(text)


_ASKED: dict[str, Callable[[Moment, str], object]] = {
    "worker": details.worker_detail,
    "workers": details.workers_listed,
    "task": lambda moment, text: details.task_detail(moment, _number(text)),
    "tasks": lambda moment, text: details.tasks_listed(moment, _number(text)),
    "readers": lambda moment, text: details.readers_listed(moment, _number(text)),
}


async def _events(feed: PageFeed, request: web.Request) -> web.StreamResponse:
    """Send events until one who looks on goes, or takes too long to receive."""
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",  # a proxy is to pass each event on as it comes
        }
    )
    events = feed.events()
    try:
        first = await anext(events)
    except Overloaded as exc:
        raise web.HTTPServiceUnavailable(
            text=f"{exc}\n", headers={"Retry-After": str(round(exc.retry_after))}
        ) from None
    try:
        await response.prepare(request)
        await _send(response, first)
        async for message in events:
            await _send(response, message)
    except (ConnectionError, TimeoutError):
        pass  # it went, or is too slow: it asks again if it likes
    finally:
        await events.aclose()
    return response


async def _send(response: web.StreamResponse, message: bytes) -> None:
    async with asyncio.timeout(SEND_WITHIN):
        await response.write(message)
