"""How a worker comes by its zygote: a process that has all loaded forks it, or it is started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress

from penstock.errors import Unavailable
from penstock.ipc.fork_door import ChildProcess, ForkDoor
from penstock.runtime.usage import count_in

MODULE, FLAGS = "penstock_worker.runner.zygote", ("-P",)

FD_VARIABLE = "PENSTOCK_ZYGOTE_FD"
"""What tells a zygote that was forked which file its socket is."""

FIRST_WITHIN, FORK_WITHIN = 10.0, 1.0
"""Seconds that the one that has all loaded gets: for the first zygote it may load it yet. Later it
takes milliseconds, and a worker's heartbeats wait for it."""

_doors: list[ForkDoor] = []
"""That of this process's fork server of zygotes, if it has one."""


def adopt(door: ForkDoor | None) -> None:
    """Have zygotes of this process forked behind *door* from now on, where that can be."""
    _doors[:] = [] if door is None else [door]


def start_zygote(
    end: socket.socket,
    environment: Mapping[bytes, bytes],
    first_path: bytes,
    within: float = FORK_WITHIN,
) -> ChildProcess:
    """Return a zygote with *end* of a socket and *environment*, behind a door or a new process.

    A door has *within* seconds. A new process looks for modules in *first_path*. One that was
    forked is counted in what this process uses, until `count_out` is called with its number.

    Raises:
        OSError, MemoryError: when the system has no room for it.
    """
    worker = ["--worker", str(os.getpid())]
    for door in _doors:
        with suppress(Unavailable):
            forked = door.fork(
                MODULE,
                environment,
                {FD_VARIABLE: end.fileno()},
                flags=FLAGS,
                arguments=worker,
                within=within,
            )
            count_in(forked.pid)
            return forked
    command = [sys.executable, *FLAGS, "-m", MODULE, *worker, "--fd", str(end.fileno())]
    return subprocess.Popen(  # noqa: S603  our own module, in our own interpreter
        command,
        env={**environment, b"PYTHONPATH": first_path},
        pass_fds=[end.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # no terminal: Ctrl-C is for the worker
    )
