"""The paths that a dispatcher answers by HTTP."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from penstock.credentials.entrance import Entrance
from penstock.web.metrics import metrics_route
from penstock.web.server import health_routes
from penstock_dispatcher.page.feed import PageFeed
from penstock_dispatcher.page.routes import page_routes
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.web.metrics import DispatcherMetrics
from penstock_dispatcher.web.sampler import Sampler


def routes(
    dispatcher: DispatcherService, entrance: Entrance, sampler: Sampler, feed: PageFeed
) -> Sequence[web.RouteDef]:
    """Return what *dispatcher* answers; *sampler* and *feed* look at it while they are."""
    metrics = DispatcherMetrics(dispatcher, entrance, sampler)
    return [
        *health_routes(dispatcher.unready),
        metrics_route(metrics),
        *page_routes(feed, dispatcher.status),
    ]
