"""Starts a service's HTTP server if its settings ask for one; otherwise loads nothing of HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock.credentials.entrance import Entrance
from penstock.runtime.address import advertised
from penstock.runtime.settings import ServiceSettings

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

log = logging.getLogger("penstock.http")


@asynccontextmanager
async def answering(
    config: ServiceSettings, entrance: Entrance, routes: Callable[[], Sequence[RouteDef]]
) -> AsyncIterator[str]:
    """Answer HTTP while the block runs, if *config* has a port for it.

    Yield the address: ``http://host:port``, or ``https://`` with TLS; empty without a port.

    Args:
        config: the service's settings.
        entrance: the service's entrance.
        routes: returns the routes to answer; called only if there is a port.

    Raises:
        ConfigError: when the server cannot listen on the port.
    """
    if config.http_port is None:
        yield ""
        return
    from penstock.web.server import serving  # noqa: PLC0415  it loads aiohttp

    scheme = "http" if entrance.folder is None else "https"
    async with serving(routes(), config.http_host, config.http_port, entrance) as port:
        address = f"{scheme}://{advertised(config.http_host, port)}"
        log.info("HTTP is answered at %s", address)
        yield address
