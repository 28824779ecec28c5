"""One child process that calls a function, as the thread that uses it sees it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from typing import cast

from penstock.element import Element
from penstock.engine.rows import Block, Rows
from penstock.errors import Overloaded, TransformError, Unavailable
from penstock.executors import transfer
from penstock.executors.batch_memory import BatchMemory, Room
from penstock.executors.messages import (
    PROGRAM,
    REPLIES,
    BeginCalls,
    CallDone,
    CallFunction,
    ExecutorCommand,
    ExecutorReply,
    FunctionReady,
    LoadFunction,
    RowRange,
    UseBatches,
)
from penstock.executors.transfer import HEAD
from penstock.ipc.child import ProcessEnvironment
from penstock.ipc.fork_client import CannotForkError, ForkClient, ForkedProcess
from penstock.ipc.framing import FramedSocket
from penstock.ipc.shared_memory import MemoryFile

START_SECONDS = 60.0
"""Seconds within which a process must be there; the first waits until everything is loaded."""

REAP_SECONDS = 5.0
"""How long a process that was killed may take to be gone; then the system has it."""


class DiedError(Exception):
    """The process ended: *how*. It was at element *at* of the call."""

    def __init__(self, how: str, at: int) -> None:
        super().__init__(how, at)
        self.how, self.at = how, at


class FunctionProcess:
    """A process with a socket, a function, and shared memory for each direction.

    For one thread at a time; `kill` is for any.
    """

    def __init__(
        self,
        process: ForkedProcess,
        connection: FramedSocket[ExecutorReply],
        given: MemoryFile,
        made: MemoryFile,
    ) -> None:
        self._process, self._connection = process, connection
        self._given, self._made = given, made
        """The elements for the process, and the elements that it returns."""
        self.key = ""
        self.pid = process.pid
        self._owner = os.getpid()
        self.resident = 0
        """How many bytes it had for itself after the last call."""
        self.first_resident = 0
        """The same, after the first call for this function."""
        self._batches: BatchMemory | None = None
        """The batches that the process may write rows of."""

    @classmethod
    def start(cls, server: ForkClient) -> FunctionProcess:
        """Have *server* fork a process, which ends when this process ends.

        Raises:
            Unavailable: when the system has no room for it.
        """
        with ExitStack() as undone:
            try:
                given = undone.enter_context(closing(MemoryFile.make("penstock-given")))
                made = undone.enter_context(closing(MemoryFile.make("penstock-made")))
                made.room(HEAD)
                ours, theirs = socket.socketpair()
                undone.enter_context(ours)
                with theirs:
                    process = _forked(server, [theirs.fileno(), given.fd, made.fd])
            except (OSError, Overloaded) as exc:
                raise Unavailable(f"{sys.executable} could not be started: {exc}") from exc
            undone.pop_all()
        return cls(process, FramedSocket(ours, REPLIES), given, made)

    def begin(self, key: str, load: LoadFunction, begin: BeginCalls) -> None:
        """Have the function *key* loaded, and get ready for an operator's calls.

        Raises:
            DefinitionError: when it cannot be loaded there.
            DiedError: when that ends the process.
        """
        if self.key != key:
            self.key, self.first_resident = "", 0
            self._do(load)
            self.key = key
        self._batches = None
        self._do(begin)

    def call(
        self, block: Sequence[Element], number: int, rooms: Sequence[Room] = ()
    ) -> tuple[list[Block], TransformError | None]:
        """Do as `FunctionCaller.call_into`.

        Raises:
            ElementError: when an element of *block* cannot cross; nothing was called then.
            DiedError: when the process ends meanwhile.
        """
        if rooms and self._batches is not rooms[0].rows.memory:
            self._use(rooms[0].rows.memory)
        given = transfer.put(block, self._given)
        self._progress[0] = 0
        places = [RowRange(room.rows.index, room.row, room.count) for room in rooms]
        made = cast("CallDone", self._ask(CallFunction(number, given, places)))
        self.resident = made.memory
        self.first_resident = self.first_resident or made.memory
        out: list[Block] = list(_placed(rooms, made.placed))
        out = out or [transfer.get(made.frames, self._made)]
        if made.failure is None:
            return out, None
        error = made.failure.error()
        if isinstance(error, TransformError):
            error.add_note(f"In the process that called the function:\n{error.remote_traceback}")
            return out, error
        raise error

    def rest(self) -> None:
        """Use no more memory than is needed to wait."""
        self._given.release()
        self._made.release()
        self._batches = None  # the process has it until it begins with others, and no longer

    def kill(self) -> None:
        """End the process at once, which fails what waits for it. Any thread; idempotent.

        In a fork of the process that started it, nothing happens: it is the parent's.
        """
        self._process.kill()

    def leave(self) -> None:
        """Let the process end by itself; `reap` it then."""
        if os.getpid() != self._owner:
            return
        with suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)

    def reap(self, seconds: float) -> None:
        """Give the process this many *seconds* to end, then kill it; close everything."""
        try:
            if os.getpid() == self._owner:
                self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(REAP_SECONDS)
        self._process.close()
        self._connection.sock.close()
        self._given.close()
        self._made.close()

    def _use(self, batches: BatchMemory) -> None:
        """Have the process write rows of *batches*."""
        self._do(UseBatches(batches.layout.to_bytes(), batches.stride), batches.file.fd)
        self._batches = batches

    def _do(self, command: LoadFunction | BeginCalls | UseBatches, file: int = -1) -> None:
        self._progress[0] = 0
        ready = cast("FunctionReady", self._ask(command, file))
        if ready.failure is not None:
            raise ready.failure.error()

    def _ask(self, command: ExecutorCommand, file: int = -1) -> ExecutorReply:
        with suppress(ConnectionError):  # then nothing comes back, either
            self._connection.send(command)
            if file >= 0:
                self._connection.send_file(file)
        answer = self._connection.receive()
        if answer is None:
            raise DiedError(self._how(), self._progress[0])
        return answer

    @property
    def _progress(self) -> memoryview:
        return self._made.view(HEAD)[:8].cast("q")

    def _how(self) -> str:
        """Return how the process ended; its socket is closed."""
        try:
            code = self._process.wait(REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        if code >= 0:
            return f"the process ended with exit code {code}"
        return f"the process died of {signal.Signals(-code).name}"


def _placed(rooms: Sequence[Room], count: int) -> Iterator[Rows]:
    """Give the first *count* of what went into *rooms*."""
    for room in rooms:
        rows = min(room.count, count)
        if rows:
            yield Rows(room.rows, range(room.row, room.row + rows))
        count -= rows


def _forked(server: ForkClient, files: Sequence[int]) -> ForkedProcess:
    here = ProcessEnvironment.here()
    environment = {**here.environment, b"PYTHONPATH": here.first_path}
    while True:
        started = server.start(environment)
        pid = server.server_pid
        try:
            there = replace(here, environment=environment)
            process = server.ask(PROGRAM, there, files, within=START_SECONDS)
            process.answered(START_SECONDS)
        except CannotForkError as exc:
            raise Unavailable(f"a process for functions cannot be started: {exc}") from exc
        except Unavailable:
            if started or not server.lost(pid):
                raise
        else:
            return process
