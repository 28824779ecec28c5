"""The client's side of a fork server: the socket to it (the door), and its forked processes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from penstock.errors import Unavailable
from penstock.ipc.child import ProcessEnvironment
from penstock.ipc.fork_server import Ended, NotStarted, Reply, Start, Started
from penstock.ipc.framing import FramedSocket
from penstock.ipc.standard_files import fill_standard_files

UNKNOWN = 255
"""The exit code of a process whose server ended before it."""

END_WITHIN = 2.0
"""Seconds that a server has to end after its last process; then it is killed."""

KEPT_FROM_ALL = b"PENSTOCK_CREDENTIALS"
"""A variable that no server gets, because some of its forks run users' code."""


class ChildProcess(Protocol):
    """The part of `subprocess.Popen` that started and forked processes have in common."""

    @property
    def pid(self) -> int: ...  # noqa: D102
    @property
    def returncode(self) -> int | None: ...  # noqa: D102
    def poll(self) -> int | None: ...  # noqa: D102
    def wait(self, timeout: float | None = None) -> int: ...  # noqa: D102
    def kill(self) -> None: ...  # noqa: D102
    def terminate(self) -> None: ...  # noqa: D102


class ForkedProcess:
    """A process that a fork server forked, with methods as in `Popen`; any thread may use it."""

    def __init__(self, pid: int, line: int, watch: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._line, self._watch = line, watch
        self._lock = threading.Lock()
        self._orphan = False
        """Whether the server ended before it could report how this process ended."""

    def __del__(self) -> None:
        # Not before: another thread may wait for these.
        os.close(self._line)
        os.close(self._watch)

    def poll(self) -> int | None:
        """Return the process's exit code, or None if it still runs."""
        with self._lock:
            if self.returncode is None and _readable(self._waited_for, 0):
                self._on_end()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the process has ended; return its exit code.

        Raises:
            subprocess.TimeoutExpired: when that takes more than *timeout* seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            _readable(self._waited_for, left)
        return code

    def kill(self) -> None:
        """Kill the process (SIGKILL), if it lives."""
        self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Tell the process to end (SIGTERM), if it lives."""
        self._send(signal.SIGTERM)

    @property
    def _waited_for(self) -> int:
        return self._watch if self._orphan else self._line

    def _on_end(self) -> None:
        if self._orphan:
            self.returncode = UNKNOWN
        else:
            sock = socket.socket(fileno=self._line)
            try:
                match _line(sock).receive():
                    case Ended(code):
                        self.returncode = code
                    case _:
                        self._orphan = True
            finally:
                sock.detach()

    def _send(self, signum: signal.Signals) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self.returncode is None:
                signal.pidfd_send_signal(self._watch, signum)


class ForkDoor:
    """Asks a fork server to fork processes. Any thread and any number of processes may use it.

    *server* is the server's process, if this process started it.
    """

    def __init__(self, sock: socket.socket, server: subprocess.Popen[bytes] | None = None) -> None:
        self._sock, self._server = sock, server

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[bytes, bytes]) -> ForkDoor:
        """Start the server ``python COMMAND``; it loads its modules while the caller continues.

        Its forks must have this *environment*, except for variables that `LATER` names.

        Raises:
            OSError: when there is no room for it, or the system has no pidfds.
        """
        fill_standard_files()
        os.close(os.pidfd_open(os.getpid()))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        numbers = ["--door", str(theirs.fileno()), "--client", str(os.getpid())]
        with theirs:
            try:
                server = subprocess.Popen(  # noqa: S603  our own module
                    [sys.executable, *command, *numbers],
                    env={k: v for k, v in environment.items() if k != KEPT_FROM_ALL},
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        return cls(ours, server)

    @property
    def server_pid(self) -> int:
        """The number of the server's process if this process started it; otherwise 0."""
        return 0 if self._server is None else self._server.pid

    @property
    def served(self) -> bool:
        """Whether the server lives, as far as this process knows."""
        return self._server is None or self._server.poll() is None

    def fileno(self) -> int:
        """Return the door's file descriptor, which `fork` can pass to another process."""
        return self._sock.fileno()

    def fork(
        self,
        module: str,
        environment: Mapping[bytes, bytes],
        files: Mapping[str, int],
        *,
        flags: Sequence[str] = (),
        arguments: Sequence[str] = (),
        within: float,
    ) -> ForkedProcess:
        """Fork a process that runs *module*; see `Start`. It shares this process's output.

        *files* maps names of variables to open files. The new process gets the files, and their
        numbers in these variables.

        Raises:
            Unavailable: when the server has ended, refuses, or does not answer *within* seconds.
            OSError: when there is no room for more files.
        """
        directory = ProcessEnvironment.here().directory
        start = Start(module, [*flags], [*arguments], directory, dict(environment), [*files])
        ours, theirs = socket.socketpair()
        line = _line(ours)
        with ExitStack() as undo:
            undo.callback(ours.close)
            try:
                with theirs:
                    self._knock(theirs, files)
                ours.settimeout(within)
                line.send(start)
                pid, watch = _started(line.receive()), line.receive_file()
            except Unavailable:
                raise
            except (ConnectionError, TimeoutError) as exc:
                raise Unavailable(f"the fork server does not answer: {exc}") from exc
            ours.settimeout(None)
            undo.pop_all()
        return ForkedProcess(pid, ours.detach(), watch)

    def _knock(self, line: socket.socket, files: Mapping[str, int]) -> None:
        with Path(os.devnull).open("wb") as nothing:
            output = [fd if _is_open(fd) else nothing.fileno() for fd in (1, 2)]
            socket.send_fds(self._sock, [b"f"], [line.fileno(), *output, *files.values()])

    def close(self) -> None:
        """Let the server end; it first waits for its forks. Idempotent."""
        self._sock.close()
        if self._server is not None:
            try:
                self._server.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()


def _line(sock: socket.socket) -> FramedSocket[Reply]:
    return FramedSocket(sock, Reply)  # type: ignore[arg-type]  # a union is a type, too


def _started(reply: Reply | None) -> int:
    """Return the number of the process that was forked.

    Raises:
        Unavailable: when the server forked none.
    """
    match reply:
        case Started(pid):
            return pid
        case NotStarted(reason):
            raise Unavailable(reason)
        case _:
            raise Unavailable("the fork server has ended")


def _readable(fd: int, timeout: float | None) -> bool:
    """Wait until *fd* can be read, or *timeout* seconds."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if timeout is None else max(0.0, timeout) * 1000))


def _is_open(fd: int) -> bool:
    with suppress(OSError):
        os.fstat(fd)
        return True
    return False
