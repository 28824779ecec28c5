"""Members that end by themselves are started again, but for workers that were drained."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from penstock.errors import Closed
from penstock_cluster.member import Member

LOOK_EVERY = 0.5
"""Seconds between two looks at the processes."""


def look_after(
    dispatcher: Member | None,
    workers: Iterable[Member],
    over: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Start members again that end, until it is *over*; *say* is told of each."""
    watched = [*([] if dispatcher is None else [dispatcher]), *workers]
    while not over.wait(LOOK_EVERY):
        for member in [member for member in watched if not member.running]:
            if member is not dispatcher and member.exit_code == 0:
                watched.remove(member)
                say(f"{member.name} at {member.address} has left, as it was told to")
                continue
            code = member.exit_code
            try:
                member.restart()
            except Closed:
                return
            say(f"[yellow]{member.name} ended ({code}), and was started again")
