"""A process that loads modules once and forks processes that need them, so that they start fast.

It has one thread, and the modules that it loaded started no threads, loops or connections. So
forking it is safe. It serves members of a local cluster, a worker's runners, and
``map(executor="process")``: each has a module whose `fork_plan` says what can be forked. A fork
looks like a new process: it has its own directory, environment, output, arguments and name in
``ps``.

The client (`fork_client`) sends a packet for each process that it wants. The packet carries one end
of a line, the output files, and the files for the process. The client sends `Start` on the line.
The server answers with `Started`, and finally with `Ended`; or with `ForkRefused` or `NoRoom`. A
bound process ends with its server, with the server's client, and when its own line ends. However
its client ends, the server waits for its forks and ends. If forking is unsound, the server starts a
process that loads everything itself, if the program has a command for that.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from errno import EMFILE
from pathlib import Path

import msgspec

from penstock.ipc.child import ProcessEnvironment, die_with, pidfd, show_as
from penstock.ipc.framing import FramedSocket, receive_files

LATER = (b"PENSTOCK_", b"PYTEST_CURRENT_TEST")
"""Prefixes of the variables that no module reads while it loads."""

FILES = 16
"""The most files that may come with one packet."""

STANDARD = 3
"""How many standard files come first: the line, stdout and stderr."""

PATIENCE = 5.0
"""Seconds that a client has to send `Start` after its packet."""

WATCH_EACH = 1000
"""Milliseconds after which a server looks for its parent, on a system that has no pidfds."""

Main = Callable[[], None]


class ForkMessage(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """The base of all messages."""


class Start(ForkMessage, frozen=True):
    """Asks for a process that runs *program*; ``ps`` shows *arguments* after its name.

    With *exact*, the server refuses to fork a process whose environment differs from its own: its
    modules may have read the environment while they loaded. If the module search path is empty,
    the process keeps the server's. The packet carried so many *files* for the process. The
    variables *names* get the numbers of the first ones. *details* are for the program.
    """

    program: str
    surroundings: ProcessEnvironment
    files: int
    names: list[str] = []
    arguments: list[str] = []
    exact: bool = True
    details: bytes = b""


class Started(ForkMessage, frozen=True):
    """The process runs; its number is *pid*. If it is not *bound*, its pidfd follows."""

    pid: int
    bound: bool


class ForkRefused(ForkMessage, frozen=True):
    """The server cannot soundly fork this process, because of *reason*."""

    reason: str


class NoRoom(ForkMessage, frozen=True):
    """The system has no room for the process, because of *reason*."""

    reason: str


class Ended(ForkMessage, frozen=True):
    """The process ended; *returncode* is as in `subprocess.Popen.returncode`."""

    returncode: int


Reply = Started | ForkRefused | NoRoom | Ended


@dataclass(frozen=True, slots=True)
class Program:
    """What a fork runs.

    Attributes:
        prepare: called in the server with `Start` and the files that came; returns the function
            that the fork calls. If it raises OSError or MemoryError, there is no room.
        bound_as: the name of a bound process in ``ps``; empty for a process that may outlive its
            server and its client, and that Ctrl-C ends.
        command: the module that runs the program in a new interpreter, and flags before it. Its
            arguments are the server's process number and the files that came.
        session: whether the process has a session of its own. A bound process has a group instead:
            everything that it started in its group ends with it.
    """

    prepare: Callable[[Start, Sequence[int]], Main]
    bound_as: bytes = b""
    command: tuple[str, ...] = ()
    session: bool = True


@dataclass(frozen=True, slots=True)
class ForkPlan:
    """What a server forks, by name, and when it must not.

    Attributes:
        later: more prefixes as in `LATER`.
        unfit: modules with threads and loops of their own: a server that has them must not fork.
        explain: says in text why the system had no room.
    """

    programs: Mapping[str, Program]
    later: tuple[bytes, ...] = ()
    unfit: tuple[str, ...] = ()
    explain: Callable[[OSError | MemoryError], str] = str


class ForkServer:
    """Forks what *plan* has for the clients of the socket *requests*, while *client* lives.

    *environment* is the environment of this process before it loaded the plan.
    """

    def __init__(
        self,
        requests: socket.socket,
        client: int,
        plan: ForkPlan,
        environment: Mapping[bytes, bytes],
    ) -> None:
        self._requests, self._client, self._plan = requests, client, plan
        self._later = LATER + plan.later
        self._environment = dict(environment)
        self._directory = os.fsdecode(ProcessEnvironment.here().directory)
        self._added = {k: v for k, v in os.environb.items() if k not in environment}
        self._lines: dict[int, FramedSocket[Start]] = {}
        self._bound: dict[int, int] = {}
        """The bound processes, by the file descriptors of their lines."""
        self._wake_fd, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        self._watch = pidfd(client)
        self._poll = select.poll()
        for fd in (requests.fileno(), self._wake_fd, self._watch):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        self._open, self._pid = True, os.getpid()

    def serve(self) -> Main | None:
        """Return None when the client and all forks have ended; in a fork, return its main."""
        while self._open or self._lines:
            ready = {fd for fd, _ in self._poll.poll(None if self._watch >= 0 else WATCH_EACH)}
            if self._wake_fd in ready:
                os.read(self._wake_fd, 4096)
                self._reap()
            for fd in ready & self._bound.keys():  # its client sends nothing more: the line ended
                self._kill(self._bound[fd])
            if self._watch in ready or (self._watch < 0 and os.getppid() != self._client):
                self._shut()
                self._end_bound()
            elif self._requests.fileno() in ready:
                main = self._on_packet()
                if main is not None:
                    return main
        return None

    def _on_packet(self) -> Main | None:
        data, files = receive_files(self._requests, FILES)
        if not data:
            self._shut()
        if not files:
            return None
        line, main = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=files[0]), None
        try:
            line.settimeout(PATIENCE)
            main = self._answer(FramedSocket(line, Start), files)
        except Exception as exc:
            if os.getpid() != self._pid:  # a fork that fails must end: it must not serve
                raise
            if not isinstance(exc, OSError):  # one bad request must not end the other forks
                traceback.print_exc()
            line.close()  # the client notices it
        for fd in files[1:] if main is None else files[1:STANDARD]:
            os.close(fd)
        return main

    def _answer(self, line: FramedSocket[Start], files: list[int]) -> Main | None:
        start = line.receive()
        if start is None:
            raise ConnectionError("the client has ended")
        server = os.getpid()
        try:
            pid, program, main = self._new(start, files)
        except _RefusedError as exc:
            line.send(ForkRefused(str(exc)))
            raise ConnectionError(str(exc)) from exc
        except (OSError, MemoryError) as exc:
            line.send(NoRoom(self._plan.explain(exc)))
            raise ConnectionError("no room") from exc
        if pid == 0:
            self._become(start, program, server, line, files)
            return main
        del main  # and with it memory that was mapped for the fork alone
        self._lines[pid] = line
        if program.bound_as:
            self._bound[line.sock.fileno()] = pid
            self._poll.register(line.sock, select.POLLIN)
        self._tell(pid, line, bound=bool(program.bound_as))
        return None

    def _new(self, start: Start, files: list[int]) -> tuple[int, Program, Main]:
        """Fork or start a process; return its number (0 in the fork), its program and its main."""
        if len(files) < STANDARD + start.files:
            raise OSError(EMFILE, os.strerror(EMFILE))  # the system dropped some
        program = self._plan.programs.get(start.program)
        if program is None:
            raise _RefusedError(f"{start.program} is not loaded here")
        reason = self._why_not(start)
        if reason is None:
            main = program.prepare(start, files[STANDARD:])
            return os.fork(), program, main
        if not program.command:
            raise _RefusedError(reason)
        return self._spawn(start, program, files), program, _nothing

    def _tell(self, pid: int, line: FramedSocket[Start], *, bound: bool) -> None:
        watch = -1 if bound else pidfd(pid)
        try:
            if watch < 0 and not bound:
                line.send(ForkRefused("this system has no pidfds"))
                self._kill(pid)
                return
            line.send(Started(pid, bound))
            if watch >= 0:
                line.send_file(watch)
        except OSError:  # the client has given up, and perhaps started another process
            self._kill(pid)
        finally:
            if watch >= 0:
                os.close(watch)

    def _why_not(self, start: Start) -> str | None:
        environment = start.surroundings.environment
        if start.exact and self._read_early(environment) != self._read_early(self._environment):
            return "its environment differs from that of this process at its start"
        loaded = [name for name in self._plan.unfit if name in sys.modules]
        if loaded:
            return (
                f"something (a .pth file, sitecustomize) loads {' and '.join(loaded)} at start-up"
            )
        threads = sum(1 for _ in Path("/proc/self/task").iterdir())
        return None if threads == 1 else f"something starts threads at start-up: it has {threads}"

    def _read_early(self, environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the variables of *environment* that modules may read while they load."""
        # The modules may set a variable here that the client does not have, or the client has now.
        whole = {**self._added, **environment}
        return {name: value for name, value in whole.items() if not name.startswith(self._later)}

    def _spawn(self, start: Start, program: Program, files: Sequence[int]) -> int:
        given = files[STANDARD:]
        process = subprocess.Popen(  # noqa: S603  our own module, in our own interpreter
            [sys.executable, *program.command, str(os.getpid()), *map(str, given)],
            cwd=start.surroundings.directory or None,
            env=start.surroundings.environment,
            pass_fds=given,
            stdout=files[1],
            stderr=files[2],
            start_new_session=program.session,
        )
        process.returncode = 0  # this server reaps it, as it does its forks
        return process.pid

    def _become(
        self,
        start: Start,
        program: Program,
        server: int,
        line: FramedSocket[Start],
        files: list[int],
    ) -> None:
        if program.session and program.bound_as:
            os.setpgid(0, 0)  # which takes less time: a session of its own has its own scheduling
        elif program.session:
            os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if program.bound_as:
            die_with(server, program.bound_as)
        else:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for fd in (self._watch, self._wake_fd, self._bell):
            if fd >= 0:
                os.close(fd)
        for sock in (self._requests, line.sock, *(other.sock for other in self._lines.values())):
            sock.close()
        self._lines.clear()
        os.dup2(files[1], 1)
        os.dup2(files[2], 2)
        self._settle(start, files[STANDARD:])
        sys.argv = [start.program, *start.arguments]
        sys.orig_argv[1:] = ["-m", start.program, *start.arguments]
        show_as([sys.executable, *sys.orig_argv[1:]])
        gc.enable()

    def _settle(self, start: Start, files: Sequence[int]) -> None:
        there = start.surroundings
        path = there.path or [os.fsencode(entry) for entry in sys.path]
        if not there.path and sys.path[0] == self._directory:
            path[0] = there.directory  # ``python -m`` looks for modules in its directory
        named = dict(zip(start.names, files, strict=False))
        for fd in named.values():
            os.set_inheritable(fd, True)  # a process that uses TLS may have to exec itself again
        numbers = {os.fsencode(name): b"%d" % fd for name, fd in named.items()}
        environment = {**self._added, **there.environment, **numbers}
        ProcessEnvironment(there.directory, path, environment).settle()

    def _kill(self, pid: int) -> None:
        with suppress(KeyError):  # it is not bound, or was killed before
            self._poll.unregister(self._lines[pid].sock)
        # Until it has a group of its own, it has started nothing.
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for pid in list(self._lines):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            if self._bound.pop(self._lines[pid].sock.fileno(), 0):
                # Until it is reaped, its number is its own: the processes that it left end here.
                self._kill(pid)
            _, status = os.waitpid(pid, 0)
            line = self._lines.pop(pid)
            with suppress(OSError):
                line.send(Ended(os.waitstatus_to_exitcode(status)))
            line.sock.close()

    def _shut(self) -> None:
        if self._open:
            self._open = False
            self._poll.unregister(self._requests)

    def _end_bound(self) -> None:
        if self._watch >= 0:
            self._poll.unregister(self._watch)
        for pid in self._bound.values():
            self._kill(pid)


class _RefusedError(Exception):
    """A process cannot soundly be forked, and has no command that starts it."""


def _nothing() -> None:
    """Stand for the main of a process that was started, not forked."""
