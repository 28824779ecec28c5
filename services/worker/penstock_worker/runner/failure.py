"""Errors of a run on their way to the worker: whatever was raised becomes one of our tree."""

from __future__ import annotations

import traceback

from penstock.errors import DefinitionError, PenstockError, TransformError
from penstock.messages import Failure

LONGEST = 1 << 16
"""Characters of an error's text that travel; the middle of a longer one is left out."""


def in_engine(error: BaseException, number: int) -> Failure:
    """Return the failure of a run at its element *number*, with where it was raised."""
    if isinstance(error, TransformError):
        trace = error.remote_traceback or _trace(error)
        return _pack(
            TransformError(error.operator, error.number, error.detail, error.worker, trace)
        )
    if isinstance(error, PenstockError):
        return _pack(error)
    return _pack(TransformError("the pipeline", number, _words(error), None, _trace(error)))


def in_loading(error: BaseException) -> Failure:
    """Return the failure to make a pipeline of a definition."""
    if isinstance(error, PenstockError):
        return _pack(error)
    text = f"the pipeline cannot be loaded on a worker: {_words(error)}\n\n{_trace(error)}"
    return _pack(DefinitionError(text))


def _pack(error: PenstockError) -> Failure:
    failure = Failure.of(error)
    return Failure(failure.kind, tuple(map(_field, failure.fields)))


def _field(value: object) -> str | int | None:
    if value is None or type(value) is int:
        return value
    text = str(value)
    if (less := len(text) - LONGEST) > 0:
        # A traceback says where at its start and what at its end.
        start, end = text[: LONGEST // 2], text[-LONGEST // 2 :]
        text = f"{start}\n[... {less} characters ...]\n{end}"
    # Text that is no UTF-8 (file names) does not travel as it is.
    return text.encode("utf-8", "backslashreplace").decode()


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  an error of the user's that cannot even be shown
        return type(error).__name__


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001  as above
        return "".join(traceback.format_tb(error.__traceback__)) + _words(error)
