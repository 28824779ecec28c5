"""The fork servers of local clusters: all clusters of this process share two of them.

One server has loaded what dispatchers and workers need, and forks these members. The other has
loaded what runners need, without gRPC; workers have their runners forked there. The servers run
while a cluster runs, or another caller holds them. If there is no server, or it refuses, members
are started one by one, and load everything themselves.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress

from penstock.errors import Overloaded, Unavailable
from penstock.ipc.child import ONE_THREAD, ProcessEnvironment, pidfd
from penstock.ipc.fork_client import CannotForkError, ChildProcess, ForkClient
from penstock.ipc.fork_server import ForkPlan, Program

FORK_WITHIN = 20.0
"""Seconds within which a process must be forked; the first waits until everything is loaded."""

RUNNERS_FD = "PENSTOCK_RUNNERS_FD"
"""The variable that tells a forked worker the socket of the server of runners."""


def fork_plan() -> ForkPlan:
    """Load what a dispatcher and a worker load; return how the server forks them."""
    # These add variables that gRPC reads.
    from penstock.runtime.versions import versions  # noqa: PLC0415
    from penstock_dispatcher import process as dispatcher  # noqa: PLC0415
    from penstock_worker import process as worker  # noqa: PLC0415

    with suppress(ImportError):  # not everywhere
        import uvloop  # noqa: F401, PLC0415
    versions()  # each worker needs what this loads

    def work() -> None:
        _share_runners()
        worker.run()

    return ForkPlan(
        {
            "penstock_dispatcher": Program(lambda *_: dispatcher.run),
            "penstock_worker": Program(lambda *_: work),
        }
    )


def _share_runners() -> None:
    from penstock_worker.runner import fork  # noqa: PLC0415

    fd = os.environ.pop(RUNNERS_FD, None)
    if fd is not None:
        fork.share(ForkClient("", sock=socket.socket(fileno=int(fd))))


class ForkServers:
    """Makes processes of modules: forks them if that is possible, else starts them.

    A server starts when it is first needed. Any thread may use this.
    """

    def __init__(self) -> None:
        self.members = ForkClient("penstock_cluster.fork_servers")
        self.runners = ForkClient("penstock_worker.runner.fork_child", ["-P"])
        """The server that forks runners."""

    def start(self) -> None:
        """Start both servers unless they run. They load their modules at the same time.

        Raises:
            OSError: when there is no room for them.
        """
        self.members.start(os.environb)
        self.runners.start({**os.environb, **ONE_THREAD})

    def start_and_load_reader(self) -> None:
        """Start both servers; while they load, load what `distribute` needs in this process.

        A process without datasets reads no elements, and loads nothing.
        """
        with suppress(OSError):  # then each member is started by itself
            self.start()
        if "penstock.dataset.dataset" in sys.modules:
            import penstock.reader.job_run  # noqa: PLC0415
            import penstock.reader.session.open  # noqa: PLC0415
            import penstock.transport.shared_memory  # noqa: F401, PLC0415

    def process(
        self, module: str, variables: Mapping[str, str], files: Mapping[str, int]
    ) -> ChildProcess:
        """Return a process that runs *module*, with *variables* and those of this process.

        *files* maps names of variables to open files. The new process gets the files, and their
        numbers in these variables.

        Raises:
            OSError: when there is no room for it.
        """
        environment = {**os.environ, **variables}
        with suppress(CannotForkError, Unavailable, Overloaded, OSError):
            if _has_pidfds():
                return self._fork(module, environment, files)
        return start_process(module, environment, files)

    def close(self) -> None:
        """End both servers after all members and runners that they forked. Idempotent."""
        self.members.close()
        self.runners.close()

    def _fork(
        self, module: str, environment: Mapping[str, str], files: Mapping[str, int]
    ) -> ChildProcess:
        self.start()
        passed = dict(files)
        if module == "penstock_worker":
            passed[RUNNERS_FD] = self.runners.fileno()
        encoded = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
        there = ProcessEnvironment(ProcessEnvironment.here().directory, [], encoded)
        return self.members.fork(module, there, passed, within=FORK_WITHIN)


def start_process(
    module: str, environment: Mapping[str, str], files: Mapping[str, int]
) -> ChildProcess:
    """Start a process that loads *module* and runs it; see `ForkServers.process`."""
    return subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-m", module],
        env={**environment, **{name: str(fd) for name, fd in files.items()}},
        pass_fds=[*files.values()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the script; it stops its cluster
    )


class _Shared:
    """The fork servers of this process, while anybody holds them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers = ForkServers()
        self._holders = 0

    @contextmanager
    def held(self) -> Iterator[ForkServers]:
        with self._lock:
            self._holders += 1
        try:
            yield self._servers
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    self._servers.close()


_shared = _Shared()


def _forked() -> None:
    """Start again in a forked child: the servers are its parent's."""
    global _shared  # noqa: PLW0603  one for each process
    _shared = _Shared()


if hasattr(os, "register_at_fork"):  # nothing forks on Windows
    os.register_at_fork(after_in_child=_forked)


def held() -> AbstractContextManager[ForkServers]:
    """Hold the fork servers of this process: they run until nobody holds them."""
    return _shared.held()


def _has_pidfds() -> bool:
    fd = pidfd(os.getpid())
    if fd >= 0:
        os.close(fd)
    return fd >= 0
