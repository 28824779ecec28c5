"""The runner's end of the socket: commands in, reports out, for all threads of the process.

There is no receiver thread: one waiting thread reads the socket, and wakes the others.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import assert_never

import msgspec

from penstock.autotune.budget import ProcessShare
from penstock.errors import StateError
from penstock.frames.codec_choice import FAST_LINK
from penstock.ipc.framing import READ_NBYTES, Unpacker, pack
from penstock.protocol.splits import Split, SplitLog
from penstock_worker.runner.messages import (
    COMMANDS,
    AddSplits,
    Command,
    Flush,
    FreeFrames,
    KeepPlaces,
    LoadDefinition,
    PauseRun,
    ReturnPlaces,
    RunCommand,
    RunnerReport,
    SetLink,
    SetProcesses,
    SetRoom,
    SetWindow,
    StartRun,
    StopRun,
)


class WorkerGoneError(Exception):
    """The worker closed the socket."""


class RunOverError(Exception):
    """The worker wants no more of this run."""


class GrowingSplitLog:
    """A split log that grows at its end, and forgets splits at its start that are not needed.

    Any thread may read; only the connection changes it.
    """

    def __init__(self, log: SplitLog) -> None:
        self._known = log.start, list(log.splits)

    @property
    def start(self) -> int:
        """The first position that is known."""
        return self._known[0]

    @property
    def stop(self) -> int:
        """The position after the last split."""
        start, splits = self._known
        return start + len(splits)

    def grow(self, position: int, splits: tuple[Split, ...]) -> None:
        """Add the splits from *position* on; some of them may be known."""
        known = self.stop - position
        if known >= 0:
            self._known[1].extend(splits[known:])

    def forget(self, position: int) -> None:
        """Forget the splits before *position*."""
        start, splits = self._known
        if position > start:
            self._known = position, splits[position - start :]

    def at(self, position: int) -> Split:
        """Return the split at *position*, which is before `stop`."""
        start, splits = self._known
        if position < start:
            raise StateError(
                f"position {position} of a split log is asked for again, and what lies before "
                f"{start} was forgotten"
            )
        return splits[position - start]


class RunInbox:
    """The worker's commands for one run. Any thread may read; only the connection changes it."""

    def __init__(self, start: StartRun) -> None:
        self.start = start
        self.logs = tuple(map(GrowingSplitLog, start.logs))
        self.freed: deque[int] = deque()
        self.kept: deque[int] = deque()
        """Places that readers still use: they do not count, and cannot be overwritten yet."""
        self.window: tuple[int, int] | None = (
            (start.window, start.elsewhere) if start.window else None
        )
        """The bytes that all frames of a cached task may take, and those that other runs' take."""
        self.room = start.room
        """The bytes that all frames may take where there is no window; 0 is as the arena is."""
        self.link = FAST_LINK
        """Bytes a second that frames travel with."""
        self.processes = ProcessShare()
        """In how many processes functions may be called, together, and in how many they are."""
        self.flush_wanted = True
        """Whether a reader has nothing to read; at first none has."""
        self.paused = False
        self.stopped = False


class WorkerConnection:
    """Receives commands and sends reports."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake_fd, select.POLLIN)
        self._unpacker = Unpacker[Command](msgspec.msgpack.Decoder(COMMANDS))
        self._commands: deque[LoadDefinition | RunInbox | ReturnPlaces | StopRun] = deque()
        self._kept: set[int] = set()
        self.returned: deque[int] = deque()
        """Places that were kept, and may be written again."""
        self._inbox: RunInbox | None = None
        self._changed = threading.Condition(threading.Lock())
        self._sending = threading.Lock()
        self._reading = False
        self._gone = False

    def post(self, *reports: RunnerReport) -> None:
        """Send *reports*; waits while the worker has too much to read."""
        try:
            with self._sending:
                self._sock.sendall(b"".join(map(pack, reports)))
        except OSError as exc:
            raise WorkerGoneError from exc

    def next_command(
        self, timeout: float | None = None
    ) -> LoadDefinition | RunInbox | ReturnPlaces | StopRun | None:
        """Return the next command to load, start (as that run's inbox) or stop; else None.

        Without a run it may be one that returns places, which are not in `returned` then.
        """
        return (
            self._commands.popleft() if self.wait(lambda: bool(self._commands), timeout) else None
        )

    def poll(self) -> None:
        """Dispatch the commands that have arrived; never waits."""
        with self._changed:
            if not self._reading and (came := self._poll.poll(0)):
                self._feed(came)
                self._changed.notify_all()

    def wait(self, ready: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until *ready* is true; return False if it was not within *timeout* seconds.

        Raises:
            WorkerGoneError: when nothing can come any more.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not ready():
                if self._gone:
                    raise WorkerGoneError
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return False
                if self._reading:
                    self._changed.wait(left)
                else:
                    self._read(left)
        return True

    def take_kept(self) -> frozenset[int]:
        """Return the places that are kept now; all others are free, and `returned` is empty."""
        with self._changed:
            self.returned.clear()
            return frozenset(self._kept)

    def forget(self, inbox: RunInbox, positions: tuple[int, ...]) -> None:
        """Forget what the logs of *inbox* have before *positions*."""
        with self._changed:
            for log, position in zip(inbox.logs, positions, strict=True):
                log.forget(position)

    def end(self, inbox: RunInbox) -> None:
        """End the run of *inbox* from this side, and wake its waiting threads."""
        with self._changed:
            inbox.stopped = True
            self._changed.notify_all()
            if self._reading:
                os.eventfd_write(self._wake_fd, 1)

    def _read(self, timeout: float | None) -> None:
        """Wait for commands without the lock, and dispatch them for all waiting threads."""
        self._reading = True
        self._changed.release()
        try:
            came = self._poll.poll(None if timeout is None else timeout * 1000)
        finally:
            self._changed.acquire()
            self._reading = False
            self._changed.notify_all()
        self._feed(came)

    def _feed(self, came: list[tuple[int, int]]) -> None:
        for fd, _ in came:
            if fd == self._wake_fd:
                os.eventfd_read(self._wake_fd)
                continue
            try:
                data = self._sock.recv(READ_NBYTES)
            except OSError:
                data = b""
            self._gone = not data
            for command in self._unpacker.feed(data):
                self._dispatch(command)

    def _dispatch(self, command: Command) -> None:
        match command:
            case LoadDefinition():
                self._commands.append(command)
            case StartRun():
                self._stop_inbox()
                self._inbox = RunInbox(command)
                self._commands.append(self._inbox)
            case StopRun(run):
                if self._inbox is not None and self._inbox.start.run == run:
                    self._stop_inbox()
                self._commands.append(command)
            case ReturnPlaces(offsets):
                self._kept.difference_update(offsets)
                if self._inbox is None:
                    self._commands.append(command)
                else:
                    self.returned.extend(offsets)
            case _ if isinstance(command, RunCommand):
                if isinstance(command, KeepPlaces):
                    self._kept.update(command.offsets)
                if self._inbox is not None and self._inbox.start.run == command.run:
                    _note(self._inbox, command)
            case _:
                raise AssertionError(f"{command!r} is no command")

    def _stop_inbox(self) -> None:
        if self._inbox is not None:
            self._inbox.stopped = True
            self._inbox = None


def _note(inbox: RunInbox, command: RunCommand) -> None:
    match command:
        case AddSplits(_, provider, position, splits):
            inbox.logs[provider].grow(position, splits)
        case FreeFrames(_, offsets):
            inbox.freed.extend(offsets)
        case KeepPlaces(_, offsets):
            inbox.kept.extend(offsets)
        case SetWindow(_, nbytes, elsewhere):
            inbox.window = nbytes, elsewhere
        case SetRoom(_, nbytes):
            inbox.room = nbytes
        case SetLink(_, speed):
            inbox.link = speed
        case SetProcesses(_, processes):
            inbox.processes.most = processes
        case Flush():
            inbox.flush_wanted = True
        case PauseRun():
            inbox.paused = True
        case _:
            assert_never(command)
