"""The worker's access to its zygote: started when a runner is needed, and asked for forks."""

from __future__ import annotations

import asyncio
import itertools
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import assert_never

from penstock.errors import Closed, ConfigError, Overloaded, PenstockError, Unavailable
from penstock.ipc.child import ONE_THREAD, ProcessEnvironment
from penstock.ipc.fork_door import ChildProcess
from penstock.runtime.usage import count_out
from penstock_worker.runner import capacity, fork_protocol
from penstock_worker.runner.confinement import FREE, Confinement
from penstock_worker.runner.fork_protocol import (
    Exited,
    Forked,
    ForkReply,
    ForkRunner,
    KillRunner,
    NotForked,
    Unfit,
)
from penstock_worker.runner.zygote_start import FIRST_WITHIN, FORK_WITHIN, start_zygote

log = logging.getLogger("penstock.worker.runner")

FORK_TIMEOUT = 60.0
"""Seconds that a fork may take; before the first, NumPy and everything else is loaded."""

CLOSE_TIMEOUT = 0.6
"""Seconds that a zygote gets to end its runners and itself."""

QUICK_DEATH = 0.05
"""Seconds that a process may take to exit when it has closed its files."""

MAX_FORKS = 8

NEVER = b"\0"
"""What no variable can be."""

OnExit = Callable[[Exited], None]


@dataclass(slots=True)
class _Zygote:
    process: ChildProcess
    sock: socket.socket
    environment: dict[bytes, bytes]
    pending: dict[int, tuple[asyncio.Future[int], OnExit]] = field(default_factory=dict)
    alive: dict[int, OnExit] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    unfit: str | None = None


class ForkClient:
    """Has the zygote fork and kill runners, and reports their end. For one event loop.

    *budget* and *largest* are those of their arenas.
    """

    def __init__(self, budget: int, largest: int, confinement: Confinement = FREE) -> None:
        self._budget, self._largest, self._confinement = budget, largest, confinement
        self._zygote: _Zygote | None = None
        self._request_ids = itertools.count()
        self._slots = asyncio.Semaphore(MAX_FORKS)
        self._closed = False

    def prepare(self) -> None:
        """Start the zygote now, so that the first fork does not wait for it."""
        if self._zygote is None:
            self._start(FIRST_WITHIN)

    async def fork(self, connection: int, arena: int, on_exit: OnExit) -> int:
        """Fork a runner with the socket *connection* and the file *arena*; return its process id.

        *on_exit* is called once, when the runner is gone; perhaps before this returns.

        Raises:
            ConfigError: when what Python loads at start-up makes forking unsound.
            Overloaded: when the system has no room for another process.
            Unavailable: when the zygote does not live or does not answer.
        """
        async with self._slots:
            while True:
                before = self._zygote
                try:
                    return await self._fork(connection, arena, on_exit)
                except Unavailable as exc:
                    if before is None or not before.ended.is_set():
                        raise
                    log.warning("%s; starting another", exc)

    def kill(self, pid: int) -> None:
        """End runner *pid* at once; nothing if it has ended."""
        zygote = self._zygote
        if zygote is not None and pid in zygote.alive:
            with suppress(OSError):  # a zygote that is gone takes its runners along
                zygote.sock.send(fork_protocol.encode(KillRunner(pid)))

    async def close(self) -> None:
        """End the zygote and all runners; idempotent."""
        self._closed = True
        zygote = self._zygote
        if zygote is None:
            return
        try:
            with suppress(OSError):
                zygote.sock.shutdown(socket.SHUT_WR)
            if zygote.alive:
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await zygote.ended.wait()
        except TimeoutError:
            log.info("zygote %d is killed: it did not end within a moment", zygote.process.pid)
        finally:
            if not zygote.ended.is_set():
                zygote.process.kill()
            self._lost(zygote)

    async def _fork(self, connection: int, arena: int, on_exit: OnExit) -> int:
        zygote = self._zygote or self._start()
        request_id = next(self._request_ids)
        forked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        zygote.pending[request_id] = forked, on_exit
        request = fork_protocol.encode(self._request(request_id, zygote.environment))
        try:
            with suppress(ConnectionError):  # then the end of file follows, with its reason
                _send(zygote.sock, request, [connection, arena])
            async with asyncio.timeout(FORK_TIMEOUT):
                return await forked
        except TimeoutError as exc:
            raise Unavailable(f"no runner was forked within {FORK_TIMEOUT:.0f} s") from exc
        except Overloaded:
            zygote.pending.pop(request_id, None)
            raise

    def _start(self, within: float = FORK_WITHIN) -> _Zygote:
        if self._closed:
            raise Closed("this worker's runners were ended: it is closing")
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as exc:
            raise Overloaded(capacity.lacking(exc)) from exc
        ours.setblocking(False)
        here = ProcessEnvironment.here()
        # The zygote has one thread, whatever the worker's own environment says.
        environment = {**self._confinement.passed_on(here.environment), **ONE_THREAD}
        with theirs:
            try:
                process = start_zygote(theirs, environment, here.first_path, within)
            except (OSError, MemoryError) as exc:
                ours.close()
                text = f"{sys.executable} could not be started: {capacity.lacking(exc)}"
                raise Overloaded(text) from exc
        # One that was forked has another path than one that was started: it is told of its own.
        environment[b"PYTHONPATH"] = NEVER
        zygote = self._zygote = _Zygote(process, ours, environment)
        asyncio.get_running_loop().add_reader(ours.fileno(), self._read, zygote)
        return zygote

    def _read(self, zygote: _Zygote) -> None:
        while not zygote.ended.is_set():
            try:
                data = zygote.sock.recv(fork_protocol.PACKET_NBYTES)
            except BlockingIOError:
                return
            except ConnectionError:
                continue  # raised once, when it left something unread; its replies come behind that
            if data:
                self._take(zygote, fork_protocol.decode_answer(data))
            else:
                self._lost(zygote)

    def _take(self, zygote: _Zygote, answer: ForkReply) -> None:
        match answer:
            case Forked(request_id, pid):
                forked, on_exit = zygote.pending.pop(request_id)
                zygote.alive[pid] = on_exit
                if forked.done():  # the caller has gone
                    self.kill(pid)
                else:
                    forked.set_result(pid)
            case NotForked(request_id, reason):
                forked, _ = zygote.pending.pop(request_id)
                if not forked.done():
                    forked.set_exception(Overloaded(reason))
            case Exited(pid):
                zygote.alive.pop(pid)(answer)
            case Unfit(reason):
                zygote.unfit = reason
            case _:
                assert_never(answer)

    def _lost(self, zygote: _Zygote) -> None:
        """Clear up behind a zygote that is gone, or that must go; idempotent."""
        if zygote.ended.is_set():
            return
        zygote.ended.set()
        count_out(zygote.process.pid)
        self._zygote = None
        asyncio.get_running_loop().remove_reader(zygote.sock.fileno())
        zygote.sock.close()
        _end(zygote.process)
        for forked, _ in zygote.pending.values():
            if not forked.done():
                forked.set_exception(self._why_lost(zygote))
        # What it forked dies with it.
        for pid, on_exit in zygote.alive.items():
            on_exit(Exited(pid, signal.SIGKILL, 0))

    def _why_lost(self, zygote: _Zygote) -> PenstockError:
        if self._closed:
            return Closed("this worker's runners were ended: it is closing")
        if zygote.unfit is not None:
            return ConfigError(f"runners cannot be forked: {zygote.unfit}")
        return Unavailable(
            f"the zygote, which forks runners, ended with status {zygote.process.returncode}; "
            "the worker's stderr says why"
        )

    def _request(self, request_id: int, known: dict[bytes, bytes]) -> ForkRunner:
        here = ProcessEnvironment.here()
        now, confined = self._confinement.passed_on(here.environment), self._confinement
        changes: dict[bytes, bytes | None] = dict.fromkeys(known.keys() - now.keys())
        changes |= {name: value for name, value in now.items() if known.get(name) != value}
        return ForkRunner(
            request_id,
            self._budget,
            self._largest,
            here.directory,
            here.path,
            changes,
            confined.memory,
            confined.uid,
            confined.gid,
            confined.files,
            confined.niceness,
        )


def _send(sock: socket.socket, request: bytes, files: list[int]) -> None:
    try:
        socket.send_fds(sock, [request], files)
    except ConnectionError:
        raise
    except BlockingIOError as exc:
        raise Overloaded("the zygote takes no more requests: it seems to hang") from exc
    except OSError as exc:
        raise Overloaded(capacity.lacking(exc)) from exc


def _end(process: ChildProcess) -> None:
    try:
        process.wait(
            QUICK_DEATH
        )  # it has closed its socket: it is as good as gone, and its status says why
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
