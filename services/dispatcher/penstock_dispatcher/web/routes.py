"""The paths that a dispatcher answers by HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from penstock.web.health import health_routes
from penstock_dispatcher.service import DispatcherService


def routes(dispatcher: DispatcherService) -> Sequence[web.RouteDef]:
    """Return what *dispatcher* answers."""
    return health_routes(dispatcher.unready)
