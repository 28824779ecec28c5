"""Trace spans of calls if OpenTelemetry's variables ask for them; otherwise imports nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import grpc.aio

    from penstock.wire.spans import Spans, TracedCall

log = logging.getLogger("penstock.wire")

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


Metadata: TypeAlias = tuple[tuple[str, str], ...]


class CallSpan:
    """A call without a trace span; `penstock.wire.spans.TracedCall` has one."""

    metadata: Metadata = ()
    """Metadata of the call that make the other side's span a child of this one."""

    def replied(self, reply: Any) -> None:
        """Record the job, task and other names in *reply*."""


_NONE = nullcontext(CallSpan())


def asked(env: Mapping[str, str]) -> bool:
    """Return whether *env* asks for traces.

    >>> asked({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"})
    True
    >>> asked({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", "OTEL_SDK_DISABLED": "true"})
    False
    """
    if env.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if exporters := env.get(_EXPORTER, "").strip().lower():
        return "otlp" in [each.strip() for each in exporters.split(",")]
    return any(env.get(name) for name in _ENDPOINTS)


def tracing() -> Spans | None:
    """Return the maker of spans in this process; None if tracing is off."""
    with _LOCK:  # two threads would each start an exporter
        return _found()


_LOCK = Lock()


@cache
def _found() -> Spans | None:
    if not asked(os.environ):
        return None
    try:
        from penstock.wire.spans import Spans  # noqa: PLC0415  it loads OpenTelemetry

        return Spans()
    except ModuleNotFoundError as exc:
        log.warning(
            "there will be no traces: %s is not installed here, and variables (OTEL_*) ask for "
            "them: pip install 'penstock[otel]'",
            exc.name,
        )
    except Exception:
        # A mistake in OpenTelemetry's variables is no reason to stop training.
        log.warning("there will be no traces: OpenTelemetry cannot be set up", exc_info=True)
    return None


def calling(path: str, request: Any) -> AbstractContextManager[CallSpan | TracedCall]:
    """Record a call of *path* while the block runs, and any error that it raises."""
    spans = tracing()
    return _NONE if spans is None else spans.calling(path, request)


def serving(
    path: str, request: Any, context: grpc.aio.ServicerContext
) -> AbstractContextManager[CallSpan | TracedCall]:
    """Record the answer to a call of *path* while the block runs, and any error that it raises."""
    spans = tracing()
    return _NONE if spans is None else spans.serving(path, request, context.invocation_metadata())
