"""The paths that a dispatcher answers by HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from penstock.web.health import health_routes
from penstock_dispatcher.page.feed import PageFeed
from penstock_dispatcher.page.routes import page_routes
from penstock_dispatcher.service import DispatcherService


def routes(dispatcher: DispatcherService, feed: PageFeed) -> Sequence[web.RouteDef]:
    """Return what *dispatcher* answers; its page shows what *feed* has."""
    return [*health_routes(dispatcher.unready), *page_routes(feed, dispatcher.status)]
