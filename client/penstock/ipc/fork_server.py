"""A process that has modules loaded, and forks processes that need them: these load nothing.

It has one thread, and what it loaded has begun nothing: no threads, no loops, no connections. So a
fork of it is sound, and is what a process is that was just started: it has a session, a
directory, an environment, output, arguments and a name in ``ps`` of its own. What a program
may read before its first line, or while its modules load, is as it was when this process started:
a process that is to have another environment than it had is refused, but for `LATER`.

Whoever has the door (`fork_door`) sends a packet there for each process that it wants. With it come
one end of a line, the output, and the files that the process is to have. On the line goes `Start`,
and back come `Started` with a pidfd, and in the end `Ended`; or `NotStarted`. The server ends
when its client is gone, whatever ended that, and then all that it forked.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from penstock.ipc.child import ProcessEnvironment, ignore_interrupts
from penstock.ipc.command_line import show_as
from penstock.ipc.framing import FramedSocket

LATER = (b"PENSTOCK_", b"PYTEST_CURRENT_TEST")
"""What begins the names of variables that are read when a process is at work, if at all."""

FILES = 16
"""The most files that may come with one packet."""

STANDARD = 3
"""The line, stdout and stderr: the files that come first."""

PATIENCE = 5.0
"""Seconds within which a client that knocked must have said what it wants."""

Main = Callable[[], None]


class ForkMessage(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all."""


class Start(ForkMessage, frozen=True):
    """Be *module*, as ``python -m`` is.

    *flags* and *arguments* stand before and behind it in the command line. *files* are names of
    variables: each gets the number of one of the files that came, in order.
    """

    module: str
    flags: list[str]
    arguments: list[str]
    directory: bytes
    environment: dict[bytes, bytes]
    files: list[str]


class Started(ForkMessage, frozen=True):
    """It is process *pid*."""

    pid: int


class NotStarted(ForkMessage, frozen=True):
    """There is no such process."""

    reason: str


class Ended(ForkMessage, frozen=True):
    """The process is gone: as `subprocess.Popen.returncode` says how."""

    returncode: int


Reply = Started | NotStarted | Ended


class Outset:
    """What a server does before it loads anything: make it first.

    It notes the environment, and is the last to be called when this process, or a fork of it,
    exits. To take all modules apart in order, which the system takes back as a whole, would be half
    of the time that a fork which does little has in its life.
    """

    def __init__(self) -> None:
        self.environment = dict(os.environb)
        self._returned = False
        atexit.register(self._end)

    def call(self, main: Main) -> None:
        """Call *main*, the last that this process does."""
        main()
        self._returned = True

    def _end(self) -> None:
        if self._returned:  # else there is an exit code, or an error to show
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # as it is where the file was closed at the start
                    stream.flush()
            os._exit(0)


class ForkServer:
    """Forks processes at work on one of *mains*, by the names of their modules.

    *environment* is what this process had before it loaded them. Variables whose names begin with
    one of *later* are read by nothing that is loaded before it is at work.
    """

    def __init__(
        self,
        door: socket.socket,
        client: int,
        mains: Mapping[str, Main],
        environment: Mapping[bytes, bytes],
        later: tuple[bytes, ...] = (),
    ) -> None:
        self._later = LATER + later
        self._door, self._client, self._mains = door, client, mains
        self._environment = dict(environment)
        self._directory = os.fsdecode(ProcessEnvironment.here().directory)
        self._added = {k: v for k, v in os.environb.items() if k not in environment}
        self._lines: dict[int, FramedSocket[Start]] = {}
        self._wake_fd, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        self._poll = select.poll()
        for fd in (door.fileno(), client, self._wake_fd):
            self._poll.register(fd, select.POLLIN)
        self._open = True

    def serve(self) -> Main | None:
        """Return when the client is gone, and all that was forked; in each fork, what it is."""
        while self._open or self._lines:
            ready = {fd for fd, _ in self._poll.poll()}
            if self._wake_fd in ready:
                os.read(self._wake_fd, 4096)
                self._reap()
            if self._client in ready:
                self._shut()
            elif self._door.fileno() in ready:
                main = self._on_knock()
                if main is not None:
                    return main
        return None

    def _on_knock(self) -> Main | None:
        data, files, _, _ = socket.recv_fds(self._door, 1, FILES, socket.MSG_CMSG_CLOEXEC)
        if not data:
            self._shut()
        if not files:
            return None
        sock = socket.socket(fileno=files[0])
        sock.settimeout(PATIENCE)
        line = FramedSocket(sock, Start)
        try:
            start = line.receive()
            if start is None:
                raise ConnectionError("it is gone")
            reason = self._why_not(start, len(files))
            if reason is not None:
                line.send(NotStarted(reason))
                raise ConnectionError(reason)
            return self._fork(start, line, files)
        except OSError:  # the client goes its way, too, when the line ends
            sock.close()
            return None
        finally:
            for fd in files[1:]:
                os.close(fd)

    def _why_not(self, start: Start, files: int) -> str | None:
        if files < STANDARD + len(start.files):
            return "too few files came: this process may have no more"
        if start.module not in self._mains:
            return f"{start.module} is not loaded here"
        if self._read_early(start.environment) != self._read_early(self._environment):
            return "its environment differs from that of this process at its start"
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
        return None if threads == 1 else f"something started threads here: there are {threads}"

    def _read_early(self, environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return those of *environment* that may be read before a process is at work."""
        # What the modules set where it is not set may be set at the client by now.
        whole = {**self._added, **environment}
        return {name: value for name, value in whole.items() if not name.startswith(self._later)}

    def _fork(self, start: Start, line: FramedSocket[Start], files: list[int]) -> Main | None:
        try:
            pid = os.fork()
        except OSError as exc:
            line.send(NotStarted(str(exc)))
            raise
        if pid == 0:
            self._become(start, line, files)
            return self._mains[start.module]
        self._lines[pid] = line
        try:
            watch = os.pidfd_open(pid)
            try:
                line.send(Started(pid))
                line.send_file(watch)
            finally:
                os.close(watch)
        except OSError:  # it cannot be watched, or the client that gave it up has another by now
            os.kill(pid, signal.SIGKILL)
        return None

    def _become(self, start: Start, line: FramedSocket[Start], files: list[int]) -> None:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for fd in (self._client, self._wake_fd, self._bell):
            os.close(fd)
        for sock in (self._door, line.sock, *(other.sock for other in self._lines.values())):
            sock.close()
        self._lines.clear()
        os.dup2(files[1], 1)
        os.dup2(files[2], 2)
        kept = [os.dup(fd) for fd in files[STANDARD:]]
        for fd in kept:
            os.set_inheritable(fd, True)  # a process that speaks TLS may have to begin again
        named = {os.fsencode(k): b"%d" % v for k, v in zip(start.files, kept, strict=True)}
        self._settle(start, named)
        sys.argv = [start.module, *start.arguments]
        sys.orig_argv[1:] = [*start.flags, "-m", start.module, *start.arguments]
        show_as([sys.executable, *sys.orig_argv[1:]])
        gc.enable()

    def _settle(self, start: Start, files: Mapping[bytes, bytes]) -> None:
        if sys.path[0] == self._directory:  # ``python -m`` looks for modules where it is
            sys.path[0] = os.fsdecode(start.directory)
        with suppress(OSError):  # a directory that is gone
            os.chdir(start.directory)
        os.environb.clear()
        os.environb.update({**self._added, **start.environment, **files})

    def _reap(self) -> None:
        for pid in list(self._lines):
            gone, status = os.waitpid(pid, os.WNOHANG)
            if gone:
                line = self._lines.pop(pid)
                with suppress(OSError):
                    line.send(Ended(os.waitstatus_to_exitcode(status)))
                line.sock.close()

    def _shut(self) -> None:
        if self._open:
            self._open = False
            self._poll.unregister(self._door)
            self._poll.unregister(self._client)


def run(mains: Mapping[str, Main], outset: Outset, later: tuple[bytes, ...] = ()) -> None:
    """Be the server that the arguments of this process ask for; a fork of it runs its main.

    *mains* and *later* are those of `ForkServer`.
    """
    parser = argparse.ArgumentParser(prog="penstock-fork-server")
    parser.add_argument("--door", type=int, required=True)
    parser.add_argument("--client", type=int, required=True)
    args = parser.parse_args()
    ignore_interrupts()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=args.door) as door:
        try:
            client = os.pidfd_open(args.client)
        except ProcessLookupError:
            return
        main = ForkServer(door, client, mains, outset.environment, later).serve()
    outset.call(main or _nothing)


def _nothing() -> None:
    """Do what is left to do for a server."""
