"""Metrics in the format that a scraper asks for: Prometheus or OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from penstock.credentials.call_counts import CallCounts
from penstock.protocol.types import Versions
from penstock.runtime.histogram import BOUNDS, Durations
from penstock.web import exposition

_EDGES = (*map(str, BOUNDS), "+Inf")


def metrics_route(families: Callable[[], Iterable[Metric]]) -> web.RouteDef:
    """Return the route ``/metrics`` of a service; *families* returns the service's own metrics.

    The route adds the metrics of the process, under their usual names.
    """
    registry = CollectorRegistry()
    of_process = (ProcessCollector(registry=registry), GCCollector(registry=registry))

    async def metrics(request: web.Request) -> web.StreamResponse:
        content_type = content_type_for(request.headers.get("Accept", ""))
        write = exposition.openmetrics if "openmetrics" in content_type else exposition.text
        found = chain(families(), *(one.collect() for one in of_process))
        return web.Response(body=write(found), headers={"Content-Type": content_type})

    return web.get("/metrics", metrics)


def content_type_for(accept: str) -> str:
    """Return the content type for a request with this ``Accept`` header.

    The Prometheus library knows the formats and their names. It raises various errors for a
    malformed version, such as ``version=a.b``; the answer then has the plain format.
    """
    try:
        return str(choose_encoder(accept)[1])
    except (TypeError, ValueError, AttributeError):
        return str(choose_encoder("")[1])


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge, which goes up and down, without labels."""
    return GaugeMetricFamily(name, text, value=value)


def gauges(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    """Return the same by *labels*."""
    family = GaugeMetricFamily(name, text, labels=labels)
    for label, value in values:
        family.add_metric(label, value)
    return family


def counter(name: str, text: str, value: float) -> Metric:
    """Return a counter, which only goes up, without labels; *name* has no ``_total``."""
    return CounterMetricFamily(name, text, value=value)


def counters(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    """Return the same by *labels*."""
    family = CounterMetricFamily(name, text, labels=labels)
    for label, value in values:
        family.add_metric(label, value)
    return family


def histograms(
    name: str, text: str, labels: Sequence[str], values: Iterable[tuple[tuple[str, ...], Durations]]
) -> Metric:
    """Return durations in seconds, by *labels*."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for label, found in values:
        buckets = list(zip(_EDGES, found.cumulative(), strict=True))
        family.add_metric(label, buckets, found.sum)
    return family


def of_every_service(versions: Versions, security: str, calls: CallCounts) -> Iterable[Metric]:
    """Yield the metrics that every service has: about itself and its callers."""
    info = {
        "version": versions.penstock,
        "python": versions.python,
        "protocol": str(versions.protocol),
        "security": security,
    }
    yield InfoMetricFamily("penstock_build", "Versions of this service", value=info)
    yield counters(
        "penstock_calls",
        "gRPC calls, including streams",
        ["method"],
        (((_method(path),), count) for path, count in calls.opened.items()),
    )
    yield counters(
        "penstock_calls_failed",
        "gRPC calls that were refused or failed, by error",
        ["method", "error"],
        (((_method(path), error), count) for (path, error), count in calls.failed.items()),
    )


def _method(path: str) -> str:
    """Return the method of a gRPC *path*, without its package: ``Dispatcher/Status``."""
    return path.rpartition(".")[2]
