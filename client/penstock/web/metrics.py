"""Metrics of a service, in the format that a scraper asks for: Prometheus or OpenMetrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

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

from penstock.credentials.entrance import Entrance
from penstock.credentials.folder import ServiceCredentials
from penstock.credentials.per_identity import CallCounts
from penstock.protocol.types import Versions
from penstock.runtime.clock import BOUNDS, Durations

_EDGES = (*map(str, BOUNDS), "+Inf")


def metrics_route(families: Callable[[], Iterable[Metric]]) -> web.RouteDef:
    """Return the route ``/metrics`` of a service; *families* returns the service's own metrics.

    The route adds the metrics of the process, under their usual names.
    """
    registry = CollectorRegistry()
    of_process = (ProcessCollector(registry=registry), GCCollector(registry=registry))

    async def metrics(request: web.Request) -> web.StreamResponse:
        content_type = content_type_for(request.headers.get("Accept", ""))
        write = openmetrics_text if "openmetrics" in content_type else prometheus_text
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


# --- as text ---
#
# As `prometheus_client` writes them, in a fifth of its time, which is most of the time of a scrape:
# a scrape runs on the event loop of a service. Names of metrics here are the classic ones, so none
# is escaped.

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_OF_HELP: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def prometheus_text(families: Iterable[Metric]) -> bytes:
    """Return *families* in the text format of Prometheus."""
    lines = list[str]()
    for family in families:
        name, kind = family.name, family.type
        match kind:
            case "counter":
                name += "_total"
            case "info":
                name, kind = f"{name}_info", "gauge"
            case "unknown":
                kind = "untyped"
        lines.append(f"# HELP {name} {family.documentation.translate(_OF_HELP)}")
        lines.append(f"# TYPE {name} {kind}")
        _samples(family, lines)
    return "".join(f"{line}\n" for line in lines).encode()


def openmetrics_text(families: Iterable[Metric]) -> bytes:
    """Return *families* in the format of OpenMetrics."""
    lines = list[str]()
    for family in families:
        words = family.documentation.translate(_ESCAPES)
        lines.append(f"# HELP {family.name} {words}")
        lines.append(f"# TYPE {family.name} {family.type}")
        _samples(family, lines)
    lines.append("# EOF")
    return "".join(f"{line}\n" for line in lines).encode()


def _samples(family: Metric, lines: list[str]) -> None:
    for sample in family.samples:
        labels = ",".join(
            f'{key}="{value.translate(_ESCAPES)}"' for key, value in sample.labels.items()
        )
        inside = f"{{{labels}}}" if labels else ""
        lines.append(f"{sample.name}{inside} {_number(sample.value)}")


def _number(value: float) -> str:
    value = float(value)
    if value != value:  # noqa: PLR0124  only this is not itself
        return "NaN"
    return repr(value).replace("inf", "Inf") if value < float("inf") else "+Inf"


def certificate_end(entrance: Entrance) -> Iterable[Metric]:
    """Yield when the certificate that is shown now ends; nothing where there is none."""
    found = None if entrance.folder is None else entrance.folder.current()
    if isinstance(found, ServiceCredentials):
        yield gauge(
            "penstock_certificate_expiry_timestamp_seconds",
            "Expiry of the service's certificate, in seconds of Unix time",
            _end(found.client.tls.certificate),
        )


@lru_cache(maxsize=2)
def _end(certificate: bytes) -> float:
    from cryptography import x509  # noqa: PLC0415  loaded where there are credentials

    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
