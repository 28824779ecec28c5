"""The paths that a worker answers by HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiohttp import web

from penstock.web.health import health_routes
from penstock_worker.service import WorkerService


def routes(worker: WorkerService, registered: asyncio.Event) -> Sequence[web.RouteDef]:
    """Return what *worker* answers; it is ready while *registered* is set and it does not drain."""

    def unready() -> str:
        if worker.draining.is_set():
            return "draining: its tasks go on elsewhere"
        return "" if registered.is_set() else "not registered with the dispatcher"

    return health_routes(unready)
