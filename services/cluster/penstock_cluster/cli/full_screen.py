"""A view of a cluster that fills the screen until a key or Ctrl-C ends it."""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from penstock.errors import PenstockError
from penstock_cluster.cli.client import screen
from penstock_cluster.cli.status import look
from penstock_dispatcher.page.history import History, Moment

EVERY = 1.0
"""Seconds between two looks."""

_SEQUENCE = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z~]|O.)")
"""The characters that a terminal sends for a special key, such as an arrow."""

QUIT = "qQ\x1b"
"""Keys that end the view: q and Escape."""

Draw = Callable[[History, Moment, int], RenderableType]
"""Draws the cluster's history and present state, in a given number of lines."""


def show_until_quit(target: str, draw: Draw) -> None:
    """Draw the cluster of *target* with *draw* every second, until a key ends the view.

    If the dispatcher does not answer, the last picture stays on the screen until it does.
    """
    history = History(hears_facts=False)
    with (
        Live(console=screen, screen=screen.is_terminal, auto_refresh=False) as live,
        _keys() as next_key,
    ):
        while True:
            live.update(_seen(target, history, draw), refresh=True)
            if next_key(EVERY):
                return


def _seen(target: str, history: History, draw: Draw) -> RenderableType:
    lines = screen.size.height
    try:
        now = look(target)
        return draw(history, history.look(now.stats, now.mesh, now.date), lines)
    except PenstockError as exc:
        trouble = Text(f"{exc}; asking again", "red", no_wrap=False)
        if history.moment is None:
            return trouble
        since = time.strftime("%H:%M:%S", time.localtime(history.moment.at))
        words = Text(f"The figures below are from {since}.", "yellow")
        return Group(trouble, words, draw(history, history.moment, lines - 3))


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits some seconds and returns whether a key ended the view."""
    try:
        import termios  # noqa: PLC0415  elsewhere than on Unix there is none, and all else works
        import tty  # noqa: PLC0415  as above
    except ImportError:
        yield _only_wait
        return
    if not sys.stdin.isatty():
        yield _only_wait
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)  # keys come one by one; Ctrl-C stays a signal
        yield lambda seconds: _pressed(fd, seconds)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _only_wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _pressed(fd: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([fd], [], [], left)
        if ready and ends(os.read(fd, 64).decode(errors="replace")):
            return True
    return False


def ends(typed: str) -> bool:
    r"""Return whether *typed* ends the view. Arrow keys begin with Escape too, and do not.

    >>> ends("q"), ends("\x1b"), ends("\x1b[A")
    (True, True, False)
    """
    return any(key in QUIT for key in _SEQUENCE.sub("", typed))
