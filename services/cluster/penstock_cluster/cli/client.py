"""Calling a service from the command line: addresses, timeouts, and errors as exit codes."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, ParamSpec, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from penstock.credentials.caller import OPERATOR, caller_of
from penstock.errors import PenstockError, explained_at
from penstock.protocol.names import printable_lines
from penstock.reader.arguments import service_of
from penstock.runtime.exit_codes import exit_code
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient

P = ParamSpec("P")
T = TypeVar("T")

JSON_VERSION = 1
"""Of what ``--json`` prints. New fields leave it as it is; to remove or change one raises it."""

PATIENCE = 5.0
"""Seconds that a service gets to answer."""

WIDE = 100_000
"""Columns of a screen that is a file or a pipe: nothing in it is folded."""

screen = Console(
    highlight=False,
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDE,
)
errors = Console(stderr=True, highlight=False)


def explained(command: Callable[P, T]) -> Callable[P, T]:
    """Have *command* print an error of ours as one line, and exit with its code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except PenstockError as exc:
            fail(exc)

    return run


def fail(exc: PenstockError) -> NoReturn:
    """Print *exc*, and exit with the code of its family."""
    words = escape(printable_lines(explained_at(exc)))  # names in it are no markup
    errors.print(f"[red]{type(exc).__name__}:[/red] {words}", soft_wrap=True)
    raise typer.Exit(exit_code(exc)) from exc


def as_json(**fields: Any) -> str:
    """Return what ``--json`` prints: an object of *fields*, with the version of its shape."""
    return msgspec.json.encode({"version": JSON_VERSION, **fields}).decode()


def ask(target: str, call: Callable[[DispatcherClient], Coroutine[Any, Any, T]]) -> T:
    """Call the dispatcher at *target*, once.

    Raises:
        DatasetError: when *target* is no address.
        Unavailable: when no service answers there, or one that is no dispatcher.
    """
    address = service_of(target)
    caller = caller_of(address, role=OPERATOR)

    async def run() -> T:
        async with connect(address, patience=PATIENCE, caller=caller) as channel:
            return await call(DispatcherClient(channel, timeout=PATIENCE))

    return asyncio.run(run())
