"""One process of a local cluster: started, watched, killed, started again."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from penstock.errors import Closed, ConfigError, WaitedTooLong
from penstock.ipc.child import fill_standard_files
from penstock.ipc.fork_client import ChildProcess
from penstock.runtime.signals import LIFELINE_FD, READY_FD
from penstock_cluster.fork_servers import ForkServers, start_process

GRACE = 2.0
"""Seconds that a process gets to end, beyond those for leaving, until it is killed."""


class Member:
    """A dispatcher or a worker in a process of its own. Methods may be called from any thread.

    `LocalCluster` makes them: see its `dispatcher` and `workers`.

    Args:
        module: what to run, as ``python -m`` does.
        name: what messages call it.
        env: variables beside those of this process.
        start_within: seconds within which `restart` must see it answer.
        drain: seconds within which it leaves when it is told to.
        servers: fork the process; without them, the process is started.

    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=2) as cluster:
    ...     cluster.workers[0].kill()
    ...     [worker.running for worker in cluster.workers]
    [False, True]
    """

    def __init__(
        self,
        module: str,
        name: str,
        env: Mapping[str, str],
        start_within: float,
        drain: float = 0.0,
        servers: ForkServers | None = None,
    ) -> None:
        self.name = name
        self._module, self._env, self._start_within = module, dict(env), start_within
        self._drain, self._servers = drain, servers
        self._lock = threading.RLock()
        """Held while it is started or stopped, however long that takes."""
        self._state = threading.Lock()
        self._process: ChildProcess | None = None
        self._lifeline = -1
        self._closed = False
        self.address: str = ""
        """Where it answers, as ``host:port``; the same after a restart."""

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.running else "not running"
        return f"<{self.name} at {self.address or '?'}, {state}>"

    @property
    def pid(self) -> int | None:
        """The process id, or None when it does not run."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.pid is not None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs, or when it was never started."""
        process = self._process
        return process.poll() if process is not None else None

    def launch(self) -> int:
        """Start the process; return the pipe on which it says that it is ready, for `wait_ready`.

        Raises:
            Closed: when it runs already, or `end` or `close` was called.
        """
        with self._lock, self._state:
            if self._closed:
                raise Closed(f"{self.name}: its cluster was closed")
            if self.running:
                raise Closed(f"{self.name} runs already")
            self._drop_lifeline()
            fill_standard_files()
            ready, ready_far = os.pipe()
            lifeline_far, self._lifeline = os.pipe()
            files = {READY_FD: ready_far, LIFELINE_FD: lifeline_far}
            try:
                if self._servers is not None:
                    self._process = self._servers.process(self._module, self._env, files)
                else:
                    env = {**os.environ, **self._env}
                    self._process = start_process(self._module, env, files)
            except BaseException:
                os.close(ready)
                raise
            finally:
                os.close(ready_far)
                os.close(lifeline_far)
            return ready

    def wait_ready(self, ready: int, deadline: float) -> None:
        """Wait until the process has said where it answers: `address`.

        Args:
            ready: the pipe that `launch` returned, which is closed.
            deadline: until when, in seconds of `time.monotonic`.

        Raises:
            ConfigError: when the process ends instead; its own message is on stderr.
            WaitedTooLong: naming it, when *deadline* passes.

        >>> import time
        >>> member = Member("penstock_dispatcher", "dispatcher", {}, start_within=30)
        >>> member.wait_ready(member.launch(), time.monotonic() + 30)
        >>> member.running, member.address.startswith("127.0.0.1:")
        (True, True)
        >>> member.close()
        """
        try:
            line = _read_line(ready, deadline)
        finally:
            os.close(ready)
        if line is None:
            raise WaitedTooLong(f"{self.name} did not answer within {self._start_within:g} s")
        if not line:
            code = self._process.wait() if self._process else None
            raise ConfigError(f"{self.name} ended at start (exit code {code}); see its log above")
        self.address = line.strip()
        self._env["PENSTOCK_PORT"] = self.address.rpartition(":")[2]

    def kill(self) -> None:
        """Kill the process (SIGKILL) and wait until it is gone. Idempotent."""
        with self._state:
            process = self._process
            if process is not None:
                process.kill()
            self._drop_lifeline()
        if process is not None:
            process.wait()

    def terminate(self) -> None:
        """Tell the process to leave (SIGTERM), and return when it has ended. Idempotent.

        A worker hands its tasks over first, for which it may take `WorkerConfig.drain` seconds. A
        process that takes longer is killed.
        """
        with self._lock:
            if self._process is not None:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(self._drain + GRACE)
            self.kill()

    def restart(self) -> None:
        """Terminate the process if it runs, start it again in its place; return when it answers.

        Raises:
            ConfigError: see `wait_ready`.
            WaitedTooLong: see `wait_ready`.
            Closed: when `end` or `close` was called.
        """
        with self._lock:
            self.terminate()
            ready = self.launch()
            self.wait_ready(ready, time.monotonic() + self._start_within)

    def end(self) -> None:
        """Let the process end at once and for good, and do not wait."""
        with self._state:
            self._closed = True
            self._drop_lifeline()

    def close(self) -> None:
        """End the process for good; return when it has ended."""
        self.end()
        process = self._process
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        self.kill()

    def _drop_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1


def _read_line(fd: int, deadline: float) -> str | None:
    """Read a line from *fd*: None when the deadline passes, empty at the end of file."""
    text = b""
    while not text.endswith(b"\n"):
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return None
        part = os.read(fd, 4096)
        if not part:
            return ""
        text += part
    return text.decode()


LOOK_EVERY = 0.5
"""Seconds between two looks at the processes."""


def look_after(
    dispatcher: Member | None,
    workers: Iterable[Member],
    over: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Start members that end again, until *over* is set; report each with *say*.

    A worker that was drained is not started again.
    """
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
