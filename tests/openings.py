"""Requests to open a pass, in one line each."""

from dataclasses import fields, replace
from typing import Any

from penstock.protocol.calls import JobParameters, OnError, OpenIterationRequest
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, Mode, Versions

KINDS = {"target_workers": TargetWorkers, "remainder": Remainder, "on_error": OnError}
"""Parameters that may be given by their values."""


def opening(
    versions: Versions,
    dataset: Any,
    mode: Mode,
    job_name: str | None,
    repetition: int,
    codec: Codec,
    *,
    trainer: str | None = None,
    restore: bytes = b"",
    replaces: tuple[str, ...] = (),
    **parameters: Any,
) -> OpenIterationRequest:
    """Return a request for a pass of a job with *parameters*."""
    if trainer is not None:
        parameters = {"when_full": "skip", **parameters}
    asked = JobParameters(dataset, mode, codec, **_plain(parameters))
    return OpenIterationRequest(versions, asked, job_name, repetition, trainer, restore, replaces)


def changed(request: OpenIterationRequest, **changes: Any) -> OpenIterationRequest:
    """Return *request* with *changes* of its own fields, or of the job's parameters."""
    own = {field.name for field in fields(OpenIterationRequest)}
    if changes.get("trainer") is not None:
        changes = {"when_full": "skip", **changes}
    asked = {name: value for name, value in changes.items() if name not in own}
    mine = {name: value for name, value in changes.items() if name in own}
    return replace(request, parameters=replace(request.parameters, **_plain(asked)), **mine)


def _plain(given: dict[str, Any]) -> dict[str, Any]:
    return {name: KINDS.get(name, _same)(value) for name, value in given.items()}


def _same(value: Any) -> Any:
    return value
