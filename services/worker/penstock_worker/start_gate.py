"""Limits how many runs begin at once, so that many jobs on a host do not delay heartbeats.

A new process uses all the CPU it can get until it has produced its first elements. If hundreds do
that at once on a few cores, workers do not answer for seconds. The dispatcher then counts them as
lost, and their tasks begin again elsewhere. So a worker lets few runs begin at once, and the
workers of a host share `HostTurns`.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

WITHIN = 5.0
"""Seconds for which others wait for a run that has produced nothing yet."""

LOOK_EVERY = 0.1
"""Seconds between checks whether it computes: a run that waits for a download uses no core."""

WAITS = 2
"""How many checks in a row must find a process waiting before it counts as waiting."""

HOST_WITHIN = 60.0
"""Seconds after which a run begins without its host's turn: a process there is stuck."""

PAUSES = 0.01, 0.05
"""The least and most seconds between two tries to get a turn, chosen at random for fairness."""


class Beginning:
    """A run that begins."""

    def __init__(self) -> None:
        self.pid = 0
        """The process, once there is one."""
        self.over = asyncio.Event()

    async def wait(self) -> None:
        """Wait until it has reported something, computes no more, or its time is over."""
        waits, until = 0, time.monotonic() + WITHIN
        while waits < WAITS and time.monotonic() < until:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self.over.wait()
                    return
            waits = waits + 1 if _waits(self.pid) else 0


class StartGate:
    """At most *most* runs begin at once, in the order in which they came, by turns of a *host*."""

    def __init__(self, most: int, host: HostTurns | None = None) -> None:
        self._turns, self._host = asyncio.Semaphore(most), host
        self._beginning: dict[int, Beginning] = {}

    @asynccontextmanager
    async def turn(self, run: int) -> AsyncIterator[Beginning]:
        """Let the block begin *run* and set its process; the turn ends soon after the block."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._turns)
            if self._host is not None:
                await stack.enter_async_context(self._host.turn())
            self._beginning[run] = beginning = Beginning()
            stack.callback(self._beginning.pop, run)
            yield beginning
            await beginning.wait()

    def begun(self, run: int) -> None:
        """Note that *run* has reported something, or is over. Idempotent; accepts any run."""
        if (beginning := self._beginning.get(run)) is not None:
            beginning.over.set()


class HostTurns:
    """At most *most* turns at once, of all processes that share *folder*: files, which are locked.

    The system takes the lock from a process that ends. If no file can be locked, all begin at once.
    """

    def __init__(self, folder: Path, most: int) -> None:
        self._files = [folder / f"start-{number}.lock" for number in range(most)]

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Have a turn for the time of the block, as soon as there is one."""
        file = await self._taken()
        try:
            yield
        finally:
            if file is not None:
                os.close(file)

    async def _taken(self) -> int | None:
        until = time.monotonic() + HOST_WITHIN
        while time.monotonic() < until:
            for path in self._files:
                try:
                    return _locked(path)
                except BlockingIOError:
                    continue
                except OSError:  # no folder, no right to it, no descriptor, no locks there
                    return None
            await asyncio.sleep(random.uniform(*PAUSES))
        return None


def _locked(path: Path) -> int:
    """Return the file at *path*, locked; raise `BlockingIOError` where another has the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(file)
        raise
    return file


def _waits(pid: int) -> bool:
    """Return whether a process waits for something other than a core, or is not there."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state not in "RD"
