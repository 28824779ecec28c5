"""Calling a service from the command line: addresses, timeouts, and errors as exit codes."""

from __future__ import annotations

import asyncio
import functools
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Annotated, Any, NoReturn, ParamSpec, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from penstock.credentials.caller import OPERATOR, caller_of
from penstock.errors import PenstockError, explained_at
from penstock.protocol.names import printable_lines
from penstock.reader.arguments import service_of
from penstock.runtime.signals import exit_code
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
    """Make *command* print an error of Penstock as one line, and exit with its code."""

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


TARGET = "PENSTOCK_TARGET"

DISPATCHER = "the dispatcher, as host:port or grpc://host:port; by default PENSTOCK_TARGET"

Target = Annotated[
    str, typer.Argument(envvar=TARGET, help="the dispatcher, as host:port or grpc://host:port")
]
"""The argument of commands that have no other."""


def split_places(
    ctx: typer.Context, places: Sequence[str] | None, within: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Return the dispatcher in *places* and the remaining words; see *within*.

    Args:
        ctx: of the command.
        places: arguments, of which the first is the dispatcher, unless it is left out.
        within: the words that may follow it. They cannot be a dispatcher.

    Raises:
        UsageError: when no dispatcher is given, here or in the environment, or a word is unknown.
    """
    given = list(places or ())
    target = os.environ.get(TARGET, "")
    if given and given[0] not in within:
        target = given.pop(0)
    if not target:
        ctx.fail(f"give TARGET, the dispatcher's host:port, or set {TARGET}")
    for word in given:
        if word not in within:
            known = f": it is none of {', '.join(within)}" if within else ""
            ctx.fail(f"unexpected {word!r}{known}")
    return target, given
