"""The paths that a worker answers by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from penstock.credentials.entrance import Entrance
from penstock.web.metrics import metrics_route
from penstock.web.server import health_routes
from penstock_worker.service import WorkerService
from penstock_worker.web.metrics import WorkerMetrics


def routes(
    worker: WorkerService, entrance: Entrance, registered: asyncio.Event
) -> Sequence[web.RouteDef]:
    """Return what *worker* answers; it is ready while *registered* is set and it does not drain."""

    def unready() -> str:
        if worker.draining.is_set():
            return "draining: its tasks run on other workers"
        return "" if registered.is_set() else "not registered with the dispatcher"

    return [*health_routes(unready), metrics_route(WorkerMetrics(worker, entrance))]
