"""The zygote: a process that has everything loaded, has one thread, and forks runners.

The worker starts it (`fork_client`) and talks to it in `fork_protocol`. It ends when the worker
does, however that ends, and kills all runners. It never loads gRPC and never runs users' code, so
a fork of it is always sound.
"""

from __future__ import annotations

import argparse
import errno
import functools
import gc
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import assert_never

from penstock.ipc.child import ignore_interrupts
from penstock_worker.runner import capacity, fork_protocol
from penstock_worker.runner.fork_protocol import (
    Exited,
    Forked,
    ForkRunner,
    KillRunner,
    NotForked,
    Unfit,
)
from penstock_worker.runner.zygote_start import FD_VARIABLE

UNFIT_EXIT = ("grpc", "uvloop")
"""Modules with threads and loops of their own: a process that has them must not fork."""

REAP_TIMEOUT = 0.3
"""Reap timeout at shutdown, in seconds; init reaps the rest."""


def main() -> None:
    """Serve the worker at the other end of socket ``--fd`` until it is gone.

    One that was forked is told of the socket by a variable.
    """
    forked = os.environ.pop(FD_VARIABLE, None)
    parser = argparse.ArgumentParser(prog="penstock-zygote")
    parser.add_argument("--fd", type=int, required=forked is None, default=forked)
    parser.add_argument("--worker", type=int, required=True)
    args = parser.parse_args()
    ignore_interrupts()
    gc.disable()
    preload()
    with socket.socket(fileno=args.fd) as sock, suppress(ConnectionError):
        reason = unfit()
        if reason is not None:
            sock.send(fork_protocol.encode(Unfit(reason)))
            return
        zygote = Zygote(sock, args.worker)
        if zygote.watches or os.getppid() == args.worker:  # else it was gone before
            zygote.serve()


def unfit() -> str | None:
    """Return why this process must not fork, if it must not."""
    loaded = [name for name in UNFIT_EXIT if name in sys.modules]
    if loaded:
        return f"something (a .pth file, sitecustomize) loads {' and '.join(loaded)} at start-up"
    threads = sum(1 for _ in Path("/proc/self/task").iterdir())
    return None if threads == 1 else f"something starts threads at start-up: it has {threads}"


class Zygote:
    """Forks runners, reaps them, and reports both to the worker."""

    def __init__(self, sock: socket.socket, worker: int) -> None:
        self._sock = sock
        self._runners: set[int] = set()
        self._wake_fd, bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(bell, warn_on_full_buffer=False)
        self._own = [sock.fileno(), self._wake_fd, bell]
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(self._wake_fd, select.POLLIN)
        self._worker = -1
        # The socket ends when the worker is gone, unless the worker forked and left a copy of
        # its end to another process.
        with suppress(OSError, AttributeError):  # old systems, Pythons built on old systems
            self._worker = os.pidfd_open(worker)
            self._poll.register(self._worker, select.POLLIN)
            self._own.append(self._worker)

    @property
    def watches(self) -> bool:
        """Whether the end of the worker is noticed by itself, whatever becomes of the socket."""
        return self._worker >= 0

    def serve(self) -> None:
        """Serve until the worker is gone; then end all runners."""
        try:
            while self._on_ready({fd for fd, _ in self._poll.poll()}):
                pass
        finally:
            self._kill_all()

    def _on_ready(self, ready: set[int]) -> bool:
        if self._wake_fd in ready:
            os.read(self._wake_fd, 4096)
            self._reap()
        if self._worker in ready:
            return False
        if self._sock.fileno() not in ready:
            return True
        data, fds, _, _ = socket.recv_fds(
            self._sock, fork_protocol.PACKET_NBYTES, 2, socket.MSG_CMSG_CLOEXEC
        )
        if data:
            self._on_request(fork_protocol.decode_request(data), fds)
        return bool(data)

    def _on_request(self, request: fork_protocol.ForkRequest, fds: list[int]) -> None:
        match request:
            case ForkRunner(request_id) if len(fds) < 2:
                for fd in fds:
                    os.close(fd)
                self._reply(NotForked(request_id, capacity.lacking(OSError(errno.EMFILE, ""))))
            case ForkRunner():
                self._fork(request, *fds)
            case KillRunner(pid):
                self._kill(pid)
            case _:
                assert_never(request)

    def _fork(self, request: ForkRunner, sock: int, file: int) -> None:
        try:
            pid = self._start_child(request, sock, file)
        except (OSError, MemoryError) as exc:
            self._reply(NotForked(request.request_id, capacity.lacking(exc)))
            pid = -1
        os.close(sock)
        os.close(file)
        if pid > 0:
            self._runners.add(pid)
            self._reply(Forked(request.request_id, pid))

    def _start_child(self, request: ForkRunner, sock: int, file: int) -> int:
        """Return the process id of a new runner, which itself never returns from here."""
        from penstock_worker.runner import arena, fork_child  # noqa: PLC0415  `preload` has them

        # Mapped before the fork: a runner that is short of memory for that is none, and did not
        # die. This process unmaps it on its way out.
        memory, zygote = arena.Arena(file, request.budget, request.largest), os.getpid()
        pid = os.fork()
        if pid == 0:
            fork_child.run(request, sock, memory, zygote, self._own)
        return pid

    def _kill(self, pid: int) -> None:
        if pid not in self._runners:
            return
        # A group of its own it has from its first instructions on, and with it all that users'
        # code starts; before that it is alone.
        for kill in (os.kill, os.killpg):
            with suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Tell the worker of all runners that ended."""
        kinds = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while self._runners and (dead := os.waitid(os.P_ALL, 0, kinds)) is not None:
            # As long as it is not reaped its number is its own: what it left behind ends here.
            with suppress(ProcessLookupError):
                os.killpg(dead.si_pid, signal.SIGKILL)
            _, status = os.waitpid(dead.si_pid, 0)
            self._runners.discard(dead.si_pid)
            killed = os.WIFSIGNALED(status)
            signum = os.WTERMSIG(status) if killed else 0
            self._reply(Exited(dead.si_pid, signum, 0 if killed else os.WEXITSTATUS(status)))

    def _reply(self, answer: fork_protocol.ForkReply) -> None:
        with suppress(ConnectionError):  # a worker that is gone is noticed in `serve`
            self._sock.send(fork_protocol.encode(answer))

    def _kill_all(self) -> None:
        for pid in self._runners:
            self._kill(pid)
        deadline = time.monotonic() + REAP_TIMEOUT
        while self._runners and (left := deadline - time.monotonic()) > 0:
            if select.select([self._wake_fd], [], [], left)[0]:
                os.read(self._wake_fd, 4096)
                self._reap()


@functools.cache
def preload() -> None:
    """Load all that a runner needs, so that it starts with it; once."""
    from penstock.runtime import malloc  # noqa: PLC0415
    from penstock_worker.runner import fork_child  # noqa: PLC0415  `unfit` judges what this loads

    malloc.tune()
    fork_child.warm_up()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
