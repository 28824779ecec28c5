"""Processes under test: started, stopped, continued, killed; nothing of them may be left."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from chaos.clocks import Clock
from penstock.runtime.signals import LIFELINE_FD, READY_FD

READY_WITHIN = 40.0
STOPS_WITHIN = 1.0
BLOCK = 512
"""Bytes of a block in `os.stat`."""

TOKEN = "PENSTOCK_CHAOS"
"""The variable by which everything that a run started can be found."""


class Process:
    """A process that may live several times. What it prints goes to *log*."""

    def __init__(
        self, name: str, command: list[str], env: Mapping[str, str], log: Path, *, announces: bool
    ) -> None:
        self.name, self.log = name, log
        self.clock = Clock(log.with_suffix(".clock"))
        self._command, self._env, self._announces = command, {**env, **self.clock.env}, announces
        self._popen: subprocess.Popen[bytes] | None = None
        self._lifeline = -1
        self._ready = -1
        self.stopped = False
        self.killed = False
        """Whether we ended its newest life, so that its exit code says nothing."""
        self.told = 0
        """How often its newest life was told to end."""

    @property
    def alive(self) -> bool:
        """Whether it runs, or is stopped."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._popen is not None
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """How its newest life ended; None while it lasts."""
        assert self._popen is not None
        return self._popen.poll()

    def start(self) -> None:
        """Start it; do not wait."""
        assert not self.alive
        self._drop_lifeline()
        lifeline, self._lifeline = os.pipe()
        self._ready, ready = os.pipe()
        env = os.environ | self._env | {LIFELINE_FD: str(lifeline)}
        if self._announces:
            env[READY_FD] = str(ready)
        with self.log.open("ab") as log:
            log.write(f"--- {self.name} starts\n".encode())
            log.flush()
            self._popen = subprocess.Popen(
                self._command,
                env=env,
                pass_fds=(lifeline, ready) if self._announces else (),
                stdin=subprocess.DEVNULL if self._announces else subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        os.close(lifeline)
        os.close(ready)
        self.stopped = self.killed = False
        self.told = 0

    def wait_ready(self) -> str:
        """Wait until it says where it answers, and return that."""
        text = b""
        deadline = time.monotonic() + READY_WITHIN
        try:
            while not text.endswith(b"\n"):
                left = max(0.0, deadline - time.monotonic())
                if not select.select([self._ready], [], [], left)[0]:
                    raise TimeoutError(f"{self.name} did not answer in {READY_WITHIN} s")
                part = os.read(self._ready, 4096)
                if not part:
                    raise RuntimeError(f"{self.name} ended at its start:\n{self.tail()}")
                text += part
        finally:
            self._drop_ready()
        return text.decode().strip()

    @property
    def ready(self) -> bool:
        """Whether it has said where it answers; before, a signal may find it unprepared."""
        if self._ready >= 0 and select.select([self._ready], [], [], 0)[0]:
            self._drop_ready()
        return self._ready < 0

    def say(self, line: str) -> None:
        """Give it a command."""
        assert self._popen is not None
        assert self._popen.stdin is not None
        with suppress(OSError):
            self._popen.stdin.write(line.encode() + b"\n")
            self._popen.stdin.flush()

    @property
    def failed(self) -> bool:
        """Whether it ended as it should not. Who is told twice ends at once, in any way."""
        code = self.code
        return code not in (None, 0) and not self.killed and not (code == -15 and self.told > 1)

    def kill(self) -> None:
        """Kill it, and wait for its end."""
        if self.alive:
            self.killed = True
            self.signal(signal.SIGKILL)
            self.wait(10.0)

    def terminate(self) -> None:
        """Ask it to end."""
        self.proceed()
        self.told += 1
        self.signal(signal.SIGTERM)

    def stop(self) -> None:
        """Let it stand still."""
        self.stopped = True
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + STOPS_WITHIN
        while self.alive and _stat(self.pid)[0] != "T" and time.monotonic() < deadline:
            time.sleep(0.001)

    def proceed(self) -> None:
        """Let it go on."""
        if self.stopped:
            self.stopped = False
            self.signal(signal.SIGCONT)

    def signal(self, signum: int) -> None:
        """Send a signal, if anybody is there."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return whether it came."""
        if self._popen is None:
            return True
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return not self.alive

    def close(self) -> None:
        """Let go of it for good."""
        self.kill()
        self._drop_lifeline()
        self._drop_ready()
        if self._popen is not None and self._popen.stdin is not None:
            with suppress(OSError):
                self._popen.stdin.close()

    def runners(self) -> list[int]:
        """Return the ids of the runners of this worker."""
        servers = self.fork_servers()
        return [pid for pid, parent in _parents() if parent in servers]

    def fork_servers(self) -> list[int]:
        """Return the ids of the servers that fork this worker's runners."""
        return [pid for pid, parent in _parents() if parent == self.pid]

    @property
    def open_files(self) -> int:
        """How many files it has open; 0 if it has ended."""
        with suppress(OSError):
            return len(os.listdir(f"/proc/{self.pid}/fd"))
        return 0

    @property
    def memory(self) -> int:
        """How many bytes of memory of its own it has; 0 if it has ended."""
        with suppress(OSError):
            for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) << 10
        return 0

    @property
    def shared_memory(self) -> int:
        """How many bytes it holds of memory that it shares with others."""
        found: dict[int, int] = {}
        folder = Path(f"/proc/{self.pid}/fd")
        with suppress(OSError):
            for descriptor in folder.iterdir():
                with suppress(OSError):  # closed meanwhile
                    if str(descriptor.readlink()).startswith("/memfd:"):
                        stat = descriptor.stat()
                        found[stat.st_ino] = stat.st_blocks * BLOCK
        return sum(found.values())

    def tail(self, nbytes: int = 1500) -> str:
        """Return the end of what it printed."""
        return self.log.read_bytes()[-nbytes:].decode(errors="replace")

    def _drop_lifeline(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def _drop_ready(self) -> None:
        if self._ready >= 0:
            os.close(self._ready)
            self._ready = -1


def left_over(token: str, within: float) -> list[str]:
    """Return what still runs of the run *token*, when *within* seconds have passed."""
    deadline = time.monotonic() + within
    while (found := list(_of(token))) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _of(token: str) -> Iterator[str]:
    mark = f"{TOKEN}={token}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    if words:  # else it has ended and waits for its parent
                        yield f"{folder.name}: {words}"


def _parents() -> list[tuple[int, int]]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                found.append((int(folder.name), int(_stat(int(folder.name))[1])))
    return found


def _stat(pid: int) -> list[str]:
    """Return what the system says of a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
