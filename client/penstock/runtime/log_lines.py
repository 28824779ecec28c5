"""The format of Penstock's log lines: text, or JSON with ``PENSTOCK_LOG_FORMAT=json``.

With JSON, Penstock's own processes write everything as JSON: Python's warnings and tracebacks, and
the lines for the person who starts them. If a program configures `logging` itself, this module
changes nothing of that.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

import msgspec

from penstock.errors import ConfigError

LEVEL, FORMAT = "PENSTOCK_LOG", "PENSTOCK_LOG_FORMAT"
TEXT, JSON = "text", "json"

FIELDS: Final = ("job", "iteration", "task", "attempt", "worker", "reader")
"""The subjects of a line: fields of its JSON object, if they are known."""

_process: dict[str, object] = {}
"""Fields of all lines of this process."""


def about(**fields: object) -> dict[str, object]:
    """Return the ``extra`` of a log call with the subjects of its line; None means not known.

    Args:
        fields: values of `FIELDS`, by name.

    >>> about(task=3, worker=None)
    {'task': 3}
    """
    return {name: value for name, value in fields.items() if value is not None}


def identify(**fields: object) -> None:
    """Add *fields* to all later lines of this process that do not set them; None removes one."""
    for name, value in fields.items():
        if value is None:
            _process.pop(name, None)
        else:
            _process[name] = value


def identity(field: str) -> str:
    """Return the value that `identify` set for *field*, or an empty string."""
    return str(_process.get(field, ""))


class JsonLines(logging.Formatter):
    """Formats each record as one line with a JSON object: time, level, logger, message, fields.

    The time is in UTC, in the format of RFC 3339. A traceback is the field ``exception``.
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        told: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in FIELDS:
            value = getattr(record, name, _process.get(name))
            if value is not None:
                told[name] = value
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            told["stack"] = record.stack_info
        return _line(told)


def _line(told: dict[str, Any]) -> str:
    try:
        return msgspec.json.encode(told, enc_hook=str).decode()
    except UnicodeEncodeError:  # a value is not valid text, such as a file's name
        made = {name: str(v).encode(errors="backslashreplace").decode() for name, v in told.items()}
        return msgspec.json.encode(made).decode()


def formatter(env: Mapping[str, str] = os.environ) -> logging.Formatter:
    """Return the formatter that ``PENSTOCK_LOG_FORMAT`` selects; text by default.

    Raises:
        ConfigError: when the variable is neither ``text`` nor ``json``.
    """
    match env.get(FORMAT, "") or TEXT:
        case "json":
            return JsonLines()
        case "text":
            return logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        case other:
            raise ConfigError(f"{FORMAT} must be {TEXT!r} or {JSON!r}, not {other!r}")


def configure(env: Mapping[str, str] = os.environ) -> None:
    """Log to stderr; for Penstock's own processes.

    Raises:
        ConfigError: when ``PENSTOCK_LOG`` or ``PENSTOCK_LOG_FORMAT`` has an unknown value.
    """
    level = (env.get(LEVEL, "") or "WARNING").upper()
    if level not in logging.getLevelNamesMapping():
        raise ConfigError(f"{LEVEL} must be a level, as INFO is, not {env[LEVEL]!r}")
    handler, made = logging.StreamHandler(sys.stderr), formatter(env)
    handler.setFormatter(made)
    logging.basicConfig(level=level, handlers=[handler])
    if isinstance(made, JsonLines):
        _log_what_python_prints()


def say(line: str, env: Mapping[str, str] = os.environ, *, failed: bool = False) -> None:
    """Print a line for the person who starts this process, at any level; as JSON if asked.

    Args:
        line: the text.
        env: the variables; by default those of this process.
        failed: whether the line says why the process ends; it then goes to stderr.
    """
    stream = sys.stderr if failed else sys.stdout
    if env.get(FORMAT, "") == JSON:
        level = logging.ERROR if failed else logging.INFO
        record = logging.LogRecord("penstock", level, "", 0, line, None, None)
        line = JsonLines().format(record)
    print(line, file=stream, flush=True)


def _log_what_python_prints() -> None:
    """Log warnings and the tracebacks of uncaught errors instead of printing them."""
    logging.captureWarnings(capture=True)
    log = logging.getLogger("penstock")

    def ended(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
        log.critical("the process ends with an error", exc_info=(kind, exc, trace))

    def thread_ended(args: threading.ExceptHookArgs) -> None:
        exc = args.exc_value or args.exc_type()
        name = "" if args.thread is None else args.thread.name
        info = (args.exc_type, exc, args.exc_traceback)
        log.critical("the thread %s ends with an error", name, exc_info=info)

    def ignored(args: sys.UnraisableHookArgs) -> None:
        exc = args.exc_value or args.exc_type()
        info = (args.exc_type, exc, args.exc_traceback)
        log.error("%s: %r", args.err_msg or "error ignored in", args.object, exc_info=info)

    sys.excepthook, threading.excepthook, sys.unraisablehook = ended, thread_ended, ignored


class _Unconfigured(logging.StreamHandler[Any]):
    """Writes Penstock's log lines while the program has set up no logging of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.root.handlers:
            super().emit(record)


def configure_within(env: Mapping[str, str] = os.environ) -> None:
    """Write Penstock's log lines as JSON in a user's program that sets up no logging.

    This does nothing if ``PENSTOCK_LOG_FORMAT`` is not ``json``, or if the logger ``penstock``
    already has handlers. Idempotent.

    Raises:
        ConfigError: when ``PENSTOCK_LOG_FORMAT`` has an unknown value.
    """
    made, ours = formatter(env), logging.getLogger("penstock")
    if isinstance(made, JsonLines) and not ours.handlers:
        handler = _Unconfigured(sys.stderr)
        handler.setFormatter(made)
        ours.addHandler(handler)


def configure_runner(env: Mapping[str, str] = os.environ) -> None:
    """Do as `configure_within`, and also log warnings; for a process that runs users' functions.

    Raises:
        ConfigError: when ``PENSTOCK_LOG_FORMAT`` has an unknown value.
    """
    configure_within(env)
    if env.get(FORMAT, "") == JSON:
        logging.getLogger("py.warnings").handlers = logging.getLogger("penstock").handlers[:]
        logging.captureWarnings(capture=True)
