"""Checks for features that need Linux: memory files, process descriptors and file seals.

Other systems can build pipelines, run them in the process, and read from workers.
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
    """Return the id of the running kernel, the same in all its containers; empty off Linux."""
    try:
        return pathlib.Path(BOOT_ID).read_text().strip()
    except OSError:
        return ""


def check_linux(what: str, remedy: str) -> None:
    """Refuse *what* on other systems than Linux; *remedy* says what to do instead.

    Raises:
        ConfigError: when this is not Linux; the message names the system.
    """
    if not sys.platform.startswith("linux"):
        raise ConfigError(f"{what} needs Linux, and this is {sys.platform}: {remedy}")


def check_service(what: str) -> None:
    """Refuse to run *what*, a part of a cluster, on other systems than Linux.

    Raises:
        ConfigError: as `check_linux`.
    """
    check_linux(
        what, "run it on a Linux machine or in a container; pipelines are built and read anywhere"
    )


def end_with_parent() -> Callable[[], None]:
    """Return a function for a child to call before its program, to get SIGTERM if its parent ends.

    This loads the C library now, in the parent, because little is safe between fork and exec.
    """
    libc, die_with_parent = ctypes.CDLL(None), 1  # PR_SET_PDEATHSIG

    def prepare() -> None:
        libc.prctl(die_with_parent, signal.SIGTERM)

    return prepare
