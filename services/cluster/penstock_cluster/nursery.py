"""What members of clusters are forked from: two processes, which all clusters of this one share.

One has loaded what dispatchers and workers are made of, the other what runners are: it has no gRPC.
They are there while a cluster is, or somebody else holds them. Where they cannot be had, or refuse,
members are started one by one, and load everything themselves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from penstock.errors import Unavailable
from penstock.ipc.child import ONE_THREAD
from penstock.ipc.fork_door import ChildProcess, ForkDoor

MEMBERS, ZYGOTES = "members", "zygotes"
"""What is forked from which of the two processes."""

FORK_WITHIN = 20.0
"""Seconds within which a process must be forked; the first waits until everything is loaded."""


ZYGOTES_FD = "PENSTOCK_ZYGOTES_FD"
"""What tells a worker that was forked where its zygote is forked from."""


class Nursery:
    """Makes processes of modules: forks them where that can be, else starts them.

    What they are forked from starts when it is first needed. Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._doors: dict[str, ForkDoor | None] = {}

    def process(
        self, module: str, variables: Mapping[str, str], files: Mapping[str, int]
    ) -> ChildProcess:
        """Return a process that is *module*, with these *variables* beside those of this one.

        The variables that *files* are named by tell it their numbers.

        Raises:
            OSError: when there is no room for it.
        """
        environment = {**os.environ, **variables}
        # Both load at the same time: there is a worker soon.
        members, zygotes = self._door(MEMBERS), self.zygotes
        if members is not None:
            passed = dict(files)
            if zygotes is not None and module == "penstock_worker":
                passed[ZYGOTES_FD] = zygotes.fileno()
            encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
            with suppress(Unavailable):
                return members.fork(module, encoded, passed, within=FORK_WITHIN)
        return start_process(module, environment, files)

    @property
    def zygotes(self) -> ForkDoor | None:
        """Where workers have their zygotes forked, if that can be."""
        return self._door(ZYGOTES)

    def close(self) -> None:
        """Let both processes end, which wait for what they forked. Idempotent."""
        with self._lock:
            doors = [door for door in self._doors.values() if door is not None]
            self._doors.clear()
        for door in doors:
            door.close()

    def _door(self, which: str) -> ForkDoor | None:
        with self._lock:
            door = self._doors.get(which)
            if door is not None and not door.served:
                door.close()
                del self._doors[which]
            if which not in self._doors:
                self._doors[which] = _opened(which)
            return self._doors[which]


def start_process(
    module: str, environment: Mapping[str, str], files: Mapping[str, int]
) -> ChildProcess:
    """Start a process that is *module*, and loads it; see `Nursery.process`."""
    return subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", module],
        env={**environment, **{name: str(fd) for name, fd in files.items()}},
        pass_fds=[*files.values()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the script; it stops its cluster
    )


class _Shared:
    """The nursery of this process, while anybody holds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nursery = Nursery()
        self._holders = 0

    @contextmanager
    def held(self) -> Iterator[Nursery]:
        with self._lock:
            self._holders += 1
        try:
            yield self._nursery
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    self._nursery.close()


_shared = _Shared()


def _forked() -> None:
    """Begin anew in a forked child: the processes are its parent's."""
    global _shared  # noqa: PLW0603  one for each process
    _shared = _Shared()


if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(after_in_child=_forked)


def held() -> AbstractContextManager[Nursery]:
    """Hold the nursery of this process: what it forks from is kept until nobody does."""
    return _shared.held()


def _opened(which: str) -> ForkDoor | None:
    environment = dict(os.environb)
    try:
        if which == MEMBERS:
            return ForkDoor.start(["-m", "penstock_cluster.preloaded"], environment)
        command = ["-P", "-m", "penstock_worker.runner.preloaded"]
        return ForkDoor.start(command, {**environment, **ONE_THREAD})
    except (OSError, AttributeError):  # an old system has no pidfds, a Python built there neither
        return None
