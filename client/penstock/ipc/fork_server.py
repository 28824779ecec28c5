"""A process that loads modules once and forks processes that need them, so that they start fast.

It has one thread, and the modules that it loaded started no threads, loops or connections. So
forking it is safe. A fork looks like a new process: it has its own session, directory, environment,
output, arguments and name in ``ps``. Modules may have read the environment while they loaded. So
the server refuses to start a process whose environment differs from its own, except for variables
that `LATER` names.

The client sends a packet to the server's socket (the door, see `fork_door`) for each process that
it wants. The packet carries one end of a line, the output files, and the files for the process. The
client sends `Start` on the line. The server answers with `Started` and a pidfd, and finally with
`Ended`; or with `NotStarted`. However its client ends, the server then waits for its forks
and ends.
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
"""Prefixes of the variables that no module reads while it loads."""

FILES = 16
"""The most files that may come with one packet."""

STANDARD = 3
"""How many standard files come first: the line, stdout and stderr."""

PATIENCE = 5.0
"""Seconds that a client has to send `Start` after its packet."""

Main = Callable[[], None]


class ForkMessage(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The base of all messages."""


class Start(ForkMessage, frozen=True):
    """Asks for a process that runs *module*, as ``python -m`` does.

    *flags* and *arguments* stand before and after the module in the command line. *files* names
    environment variables: each gets the number of one of the files that came, in order.
    """

    module: str
    flags: list[str]
    arguments: list[str]
    directory: bytes
    environment: dict[bytes, bytes]
    files: list[str]


class Started(ForkMessage, frozen=True):
    """The process runs; its number is *pid*."""

    pid: int


class NotStarted(ForkMessage, frozen=True):
    """The server started no process, because of *reason*."""

    reason: str


class Ended(ForkMessage, frozen=True):
    """The process ended; *returncode* is as in `subprocess.Popen.returncode`."""

    returncode: int


Reply = Started | NotStarted | Ended


class Outset:
    """The first object that a server makes, before it loads any other module.

    It notes the environment, and ends this process and its forks without Python's teardown of
    modules. For a fork with little to do, that teardown would take half of its time.
    """

    def __init__(self) -> None:
        self.environment = dict(os.environb)
        self._returned = False
        atexit.register(self._end)

    def call(self, main: Main) -> None:
        """Call *main*, the last function that this process runs."""
        main()
        self._returned = True

    def _end(self) -> None:
        if self._returned:  # otherwise Python has an exit code or an error to show
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # it is None if the file was closed at the start
                    stream.flush()
            os._exit(0)


class ForkServer:
    """Forks processes that run one of *mains*, which maps names of modules to functions.

    *environment* is the environment of this process before it loaded them. No module reads a
    variable whose name begins with one of *later* while it loads.
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
        """Return None when the client and all forks have ended; in a fork, return its main."""
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
        except OSError:  # the client notices that the line has ended
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
        """Return the variables of *environment* that modules may read while they load."""
        # The modules may set a variable here that the client does not have, or the client has now.
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
        except OSError:  # it cannot be watched, or the client has given up and started another
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
            os.set_inheritable(fd, True)  # a process that uses TLS may have to exec itself again
        named = {os.fsencode(k): b"%d" % v for k, v in zip(start.files, kept, strict=True)}
        self._settle(start, named)
        sys.argv = [start.module, *start.arguments]
        sys.orig_argv[1:] = [*start.flags, "-m", start.module, *start.arguments]
        show_as([sys.executable, *sys.orig_argv[1:]])
        gc.enable()

    def _settle(self, start: Start, files: Mapping[bytes, bytes]) -> None:
        if sys.path[0] == self._directory:  # ``python -m`` looks for modules in its directory
            sys.path[0] = os.fsdecode(start.directory)
        with suppress(OSError):  # the directory may no longer exist
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
    """Run the server that this process's arguments describe; each fork runs its main.

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
    """Do nothing: the server itself has no main."""
