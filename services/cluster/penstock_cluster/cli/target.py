"""Where a command's dispatcher is: its argument TARGET, or else ``PENSTOCK_TARGET``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

TARGET = "PENSTOCK_TARGET"

DISPATCHER = "the dispatcher, as host:port or grpc://host:port; by default PENSTOCK_TARGET"

Target = Annotated[
    str, typer.Argument(envvar=TARGET, help="the dispatcher, as host:port or grpc://host:port")
]
"""The argument of commands that have no other."""


def split_places(
    ctx: typer.Context, places: Sequence[str] | None, within: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Return the dispatcher of *places*, and the others behind it; see *within*.

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
