"""Errors of a run on their way to the worker: whatever was raised becomes one of our tree."""

from __future__ import annotations

from penstock.errors import DefinitionError, PenstockError, TransformError, describe
from penstock.protocol.types import Failure
from penstock.runtime.tracebacks import shortened, told
from penstock_worker.runner.confinement import memory_bound, why_denied

LONGEST = 1 << 16
"""Characters of an error's text that travel; the middle of a longer one is left out."""


def in_engine(error: BaseException, number: int) -> Failure:
    """Return the failure of a run at its element *number*, with where it was raised."""
    if isinstance(error, TransformError):
        trace = error.remote_traceback or told(error)
        detail = f"{error.detail}{_bound_of(error.__cause__)}"
        return _pack(error.but(detail=detail, remote_traceback=trace))
    if isinstance(error, PenstockError):
        return _pack(error)
    detail = f"{describe(error)}{_bound_of(error)}"
    return _pack(TransformError("the pipeline", number, detail, None, told(error)))


def in_loading(error: BaseException) -> Failure:
    """Return the failure to make a pipeline of a definition."""
    if isinstance(error, PenstockError):
        return _pack(error)
    text = f"the pipeline cannot be loaded on a worker: {describe(error)}\n\n{told(error)}"
    return _pack(DefinitionError(text))


def _bound_of(error: BaseException | None) -> str:
    """Return which bound a lack of memory met, or which rule a lack of rights, if there is one."""
    if isinstance(error, PermissionError) and (why := why_denied(error)):
        return f" ({why})"
    bound = memory_bound() if isinstance(error, MemoryError) else None
    if bound is None:
        return ""
    return (
        f" (a runner of this worker may have {bound} bytes of memory for itself: make less at a "
        "time, or raise runner_memory_bytes there)"
    )


def _pack(error: PenstockError) -> Failure:
    failure = Failure.of(error)
    return Failure(failure.kind, tuple(map(_field, failure.fields)))


def _field(value: object) -> str | int | None:
    if value is None or type(value) is int:
        return value
    text = shortened(str(value), LONGEST)
    # Text that is no UTF-8 (file names) does not travel as it is.
    return text.encode("utf-8", "backslashreplace").decode()
