"""What needs Linux says so: memory files, process descriptors and seals are Linux's own.

Building pipelines, running them here and reading from workers need none of that.
"""

from __future__ import annotations

import ctypes
import functools
import pathlib
import signal
import sys
from collections.abc import Callable

from penstock.errors import ConfigError

BOOT_ID = "/proc/sys/kernel/random/boot_id"


@functools.cache
def boot_id() -> str:
    """Return what names the running kernel, to all its containers alike; empty off Linux."""
    try:
        return pathlib.Path(BOOT_ID).read_text().strip()
    except OSError:
        return ""


def check_linux(what: str, remedy: str) -> None:
    """Refuse to go on where this is not Linux; *remedy* is what to do instead of *what*.

    Raises:
        ConfigError: naming the system that this is.
    """
    if not sys.platform.startswith("linux"):
        raise ConfigError(f"{what} needs Linux, and this is {sys.platform}: {remedy}")


def check_service(what: str) -> None:
    """Refuse to run *what*, a part of a cluster, where this is not Linux.

    Raises:
        ConfigError: as `check_linux`.
    """
    check_linux(
        what, "run it on a Linux machine or in a container; pipelines are built and read anywhere"
    )


def end_with_parent() -> Callable[[], None]:
    """Return what a child calls before its program begins, to get SIGTERM when its parent ends.

    What is needed is loaded now, in the parent: between a fork and a program little may be done.
    """
    libc, die_with_parent = ctypes.CDLL(None), 1  # PR_SET_PDEATHSIG

    def prepare() -> None:
        libc.prctl(die_with_parent, signal.SIGTERM)

    return prepare
