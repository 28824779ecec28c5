"""The client's side of a fork server: starts the server, asks for processes, and watches them."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from penstock.errors import Overloaded, Unavailable
from penstock.ipc.child import ProcessEnvironment, fill_standard_files
from penstock.ipc.fork_server import PATIENCE, Ended, ForkRefused, NoRoom, Reply, Start, Started
from penstock.ipc.framing import FramedSocket

UNKNOWN = 255
"""The exit code of a process whose server ended before it."""

END_WITHIN = 2.0
"""Seconds that a server has to end after its last process; then it is killed."""

LOST_WITHIN = 0.05
"""Seconds that a server takes at most to end after it has closed its files."""

KEPT_FROM_ALL = b"PENSTOCK_CREDENTIALS"
"""A variable that no server gets, because some of its forks run users' code."""


class CannotForkError(Exception):
    """The server cannot soundly fork this process: another server may. Users never see it."""


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
    """A process that a fork server forks, with methods as in `Popen`; any thread may use it.

    In a fork of the process that asked for it, its methods send no signals.
    """

    def __init__(self, line: int) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self._fd, self._watch = line, -1
        """The line, and a pidfd unless the process is bound: then its end follows the line's."""
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._orphan = False
        """Whether the server ended before it could report how this process ended."""

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Forget the process, which no thread may wait for: it ends if it is bound. Idempotent."""
        if self._fd >= 0:
            self._hang_up(socket.SHUT_RDWR)
            for fd in (self._fd, self._watch):
                if fd >= 0:
                    os.close(fd)
            self._fd = self._watch = -1

    def fileno(self) -> int:
        """Return the file that can be read when the server has answered, and again at the end."""
        return self._fd

    def answered(self, within: float) -> None:
        """Wait at most *within* seconds until the process is forked.

        Raises:
            CannotForkError: when the server refuses.
            Unavailable: when the server has ended or does not answer.
            Overloaded: when the system has no room for the process.
        """
        try:
            with self.line(within) as line:
                match line.receive():
                    case Started(pid, bound):
                        self._watch = -1 if bound else line.receive_file()
                        self.pid = pid
                    case ForkRefused(reason):
                        raise CannotForkError(reason)
                    case NoRoom(reason):
                        raise Overloaded(reason)
                    case _:
                        reason = "the fork server has ended, or may open no more files"
                        raise Unavailable(reason)  # noqa: TRY301
        except Unavailable:
            raise
        except (ConnectionError, TimeoutError) as exc:
            raise Unavailable(f"the fork server does not answer: {exc}") from exc

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
        if self._watch < 0:
            self._hang_up(socket.SHUT_WR)
        else:
            self._send(signal.SIGKILL)

    def terminate(self) -> None:
        """Tell the process to end (SIGTERM), if it lives; a bound process is killed."""
        if self._watch < 0:
            self.kill()
        else:
            self._send(signal.SIGTERM)

    @property
    def _waited_for(self) -> int:
        return self._watch if self._orphan else self._fd

    def _on_end(self) -> None:
        if self._orphan:
            self.returncode = UNKNOWN
            return
        with self.line() as line:
            match line.receive():
                case Ended(code):
                    self.returncode = code
                case _ if self._watch >= 0:
                    self._orphan = True
                case _:
                    self.returncode = -signal.SIGKILL  # it ended with its server

    @contextmanager
    def line(self, within: float | None = None) -> Iterator[FramedSocket[Reply]]:
        """Yield the line to the server, which waits at most *within* seconds."""
        # This keeps the number alone: a socket in a circle of objects may be closed too early.
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=self._fd)
        try:
            sock.settimeout(within)
            yield FramedSocket(sock, Reply)  # type: ignore[arg-type]  # a union is a type, too
        finally:
            sock.detach()

    def _hang_up(self, how: int) -> None:
        if os.getpid() == self._owner and self._fd >= 0:
            with suppress(OSError), self.line() as line:
                line.sock.shutdown(how)

    def _send(self, signum: signal.Signals) -> None:
        with self._lock, suppress(ProcessLookupError):
            if self.returncode is None and os.getpid() == self._owner:
                signal.pidfd_send_signal(self._watch, signum)


class ForkClient:
    """Asks a fork server for processes. Any thread may use it.

    `start` starts the server, with the `fork_plan` of *module*, and *flags* for Python. With
    *sock*, the client asks the server of another process, which started it. With *session*, the
    server has a session of its own, and signals to this process's group do not reach it.
    """

    def __init__(
        self,
        module: str,
        flags: Sequence[str] = (),
        *,
        sock: socket.socket | None = None,
        session: bool = True,
    ) -> None:
        self._module, self._flags, self._session = module, flags, session
        self._sock = sock
        self._server: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def server_pid(self) -> int:
        """The number of the server's process if this process started it; otherwise 0."""
        return 0 if self._server is None else self._server.pid

    @property
    def returncode(self) -> int | None:
        """The exit code of the server that this process started, if it has ended."""
        return None if self._server is None else self._server.poll()

    @property
    def running(self) -> bool:
        """Whether the server was started and has not ended, as far as this process knows."""
        return self._sock is not None and self.returncode is None

    def start(self, environment: Mapping[bytes, bytes]) -> bool:
        """Start the server unless it runs; it loads its modules while the caller continues.

        Its forks must have this *environment*, except for variables that `LATER` names. Returns
        whether the server was started now.

        Raises:
            OSError: when there is no room for it.
        """
        with self._lock:
            if self.running:
                return False
            self._drop()
            fill_standard_files()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with theirs, _interrupts_blocked():
                    numbers = ["--requests", str(theirs.fileno()), "--client", str(os.getpid())]
                    command = [*self._flags, "-m", "penstock.ipc.fork_main", self._module]
                    self._server = subprocess.Popen(  # noqa: S603  our own module
                        [sys.executable, *command, *numbers],
                        env={k: v for k, v in environment.items() if k != KEPT_FROM_ALL},
                        pass_fds=[theirs.fileno()],
                        stdin=subprocess.DEVNULL,
                        start_new_session=self._session,
                    )
            except BaseException:
                ours.close()
                raise
            self._sock = ours
            return True

    def fileno(self) -> int:
        """Return the file of the socket to the server, which `fork` can pass to a process."""
        return -1 if self._sock is None else self._sock.fileno()

    def ask(
        self,
        program: str,
        surroundings: ProcessEnvironment,
        files: Sequence[int] = (),
        *,
        names: Sequence[str] = (),
        arguments: Sequence[str] = (),
        exact: bool = True,
        details: bytes = b"",
        within: float = PATIENCE,
    ) -> ForkedProcess:
        """Ask for a process; see `Start`. It gets *files*, and shares this process's output.

        If the environment does not fit into the socket's buffer, this waits at most *within*
        seconds until the server reads it. The caller waits with `ForkedProcess.answered`.

        Raises:
            Unavailable: when the server has ended or takes no more requests.
            OSError: when there is no room for more files.
        """
        count = len(files)
        start = Start(program, surroundings, count, [*names], [*arguments], exact, details)
        ours, theirs = socket.socketpair()
        process = ForkedProcess(ours.detach())
        try:
            with theirs:
                self._send(theirs, files)
            with process.line(within) as line:
                line.send(start)
        except (ConnectionError, BlockingIOError, TimeoutError) as exc:
            raise Unavailable(f"the fork server does not answer: {exc}") from exc
        return process

    def fork(
        self,
        program: str,
        surroundings: ProcessEnvironment,
        files: Mapping[str, int],
        *,
        within: float,
        arguments: Sequence[str] = (),
    ) -> ForkedProcess:
        """Ask for a process, and wait for it at most *within* seconds.

        *files* maps names of variables to open files. The new process gets the files, and their
        numbers in these variables.

        Raises:
            CannotForkError, Unavailable, Overloaded: see `ForkedProcess.answered`.
            OSError: when there is no room for more files.
        """
        given = [*files.values()]
        process = self.ask(
            program, surroundings, given, names=[*files], arguments=arguments, within=within
        )
        process.answered(within)
        return process

    def lost(self, pid: int) -> bool:
        """Return whether the server with process number *pid* has ended, or ends just now.

        If several threads ask for processes when it ends, one of them starts the next server.
        After `close`, this is False.
        """
        with self._lock:  # it is not free while another thread starts a server
            if self._server is None or self._server.pid != pid:
                return self._server is not None
            with suppress(subprocess.TimeoutExpired):
                self._server.wait(LOST_WITHIN)
            return self._server.returncode is not None

    def close(self, within: float = END_WITHIN) -> None:
        """Let the server end within so many seconds; it first waits for its forks. Idempotent."""
        with self._lock:
            self._drop(within)

    def _send(self, line: socket.socket, files: Sequence[int]) -> None:
        sock = self._sock
        if sock is None:
            raise ConnectionError("it was not started")
        with Path(os.devnull).open("wb") as nothing:
            output = [fd if _is_open(fd) else nothing.fileno() for fd in (1, 2)]
            everything = [line.fileno(), *output, *files]
            socket.send_fds(sock, [b"f"], everything, socket.MSG_DONTWAIT)

    def _drop(self, within: float = END_WITHIN) -> None:
        sock, server = self._sock, self._server
        self._sock = self._server = None
        if sock is not None:
            if server is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)  # a fork of this process may have a copy
            sock.close()
        if server is not None:
            try:
                server.wait(within)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Have a new process begin deaf to Ctrl-C, which it later ignores."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
