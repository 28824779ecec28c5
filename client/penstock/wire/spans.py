"""Makes trace spans and exports them; the one module that uses OpenTelemetry."""

from __future__ import annotations

import asyncio
import atexit
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, use_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

FLUSH = 0.5
"""Seconds to export the last spans when a process ends."""

_LONGEST = 200
"""Most characters of an error's text in a span."""

_FIELDS = (
    ("penstock.job", ("job_name",)),
    ("penstock.dataset", ("dataset", "dataset_id")),
    ("penstock.worker", ("worker",)),
    ("penstock.task", ("task",)),
    ("penstock.attempt", ("attempt",)),
)
"""The attributes of a span, and the fields of requests and replies that hold their values."""


class TracedCall:
    """A call with the trace span *span*; see `penstock.wire.tracing.CallSpan`."""

    def __init__(self, span: Span, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self._span, self.metadata = span, metadata

    def replied(self, reply: Any) -> None:
        """Record what *reply* names."""
        self._span.set_attributes(_named(reply))


class Spans:
    """Makes spans of calls; a thread of OpenTelemetry exports them.

    OpenTelemetry's variables decide where spans go and which calls are sampled.
    """

    def __init__(self) -> None:
        # Its own end at exit may wait for 30 s; `close` does not.
        self._provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("penstock")
        self._propagator = TraceContextTextMapPropagator()
        self._pid = os.getpid()
        self._ending, self._ended = Event(), Event()
        # It is there from the beginning, as none can be started while the interpreter ends.
        Thread(target=self._end, name="opentelemetry-end", daemon=True).start()
        atexit.register(self.close)

    def close(self) -> None:
        """Export the remaining spans, for at most `FLUSH` seconds."""
        atexit.unregister(self.close)
        self._ending.set()
        if os.getpid() == self._pid:  # a forked process has no such thread
            self._ended.wait(FLUSH)

    def _end(self) -> None:
        self._ending.wait()
        self._provider.shutdown()
        self._ended.set()

    @contextmanager
    def calling(self, path: str, request: Any) -> Iterator[TracedCall]:
        """See `penstock.wire.tracing.calling`."""
        with self._span(path, request, SpanKind.CLIENT, None) as span:
            carried: dict[str, str] = {}
            self._propagator.inject(carried)
            yield TracedCall(span, tuple(carried.items()))

    @contextmanager
    def serving(
        self, path: str, request: Any, metadata: Iterable[tuple[str, str | bytes]] | None
    ) -> Iterator[TracedCall]:
        """See `penstock.wire.tracing.serving`: *metadata* came with the call."""
        came = {key: value for key, value in metadata or () if isinstance(value, str)}
        caller = self._propagator.extract(came, Context())
        with self._span(path, request, SpanKind.SERVER, caller) as span:
            yield TracedCall(span)

    @contextmanager
    def _span(
        self, path: str, request: Any, kind: SpanKind, parent: Context | None
    ) -> Iterator[Span]:
        service, _, method = path.lstrip("/").partition("/")
        attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
        span = self._tracer.start_span(
            f"{service}/{method}", parent, kind, {**attributes, **_named(request)}
        )
        with use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield span
            except (Exception, asyncio.CancelledError) as exc:
                span.set_attribute("error.type", type(exc).__name__)
                span.set_status(Status(StatusCode.ERROR, str(exc)[:_LONGEST]))
                raise


def _resource() -> Resource:
    """Return this process's description from OpenTelemetry's variables; "penstock" by default."""
    told = Resource.create()
    if str(told.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        return told.merge(Resource({SERVICE_NAME: "penstock"}))
    return told


def _named(message: Any) -> dict[str, str | int]:
    found = {}
    for attribute, fields in _FIELDS:
        for field in fields:
            holder = message if hasattr(message, field) else getattr(message, "parameters", None)
            value = getattr(holder, field, None)
            if isinstance(value, str | int) and value != "":
                found[attribute] = value
                break
    return found
