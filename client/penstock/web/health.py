"""Answers container probes: is the process alive, and is it ready to work?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiohttp import web


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
