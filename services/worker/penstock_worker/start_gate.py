"""How many runs begin at once: a host with many jobs is not to lose its workers' heartbeats.

A process that begins, and makes its first elements, works as hard as it can. Where hundreds do that
at once on a few cores nobody answers for seconds, and a worker that does not answer is taken for
lost; then its tasks begin elsewhere, too. So a worker lets few begin at once, and the workers of a
host share `HostTurns`.
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
"""Seconds for which a run that has shown nothing yet is said to begin, and others wait for that."""

LOOK_EVERY = 0.1
"""Seconds between two looks at whether it computes: what waits, for a download, takes no core."""

WAITS = 2
"""So many looks in a row find a process waiting that computes no more."""

HOST_WITHIN = 60.0
"""Seconds after which a run begins without a turn of its host's: some process there is stopped."""

PAUSES = 0.01, 0.05
"""Seconds between two tries to get one, at least and at most: by chance, so that all get theirs."""


class Beginning:
    """A run that begins."""

    def __init__(self) -> None:
        self.pid = 0
        """The process, once there is one."""
        self.over = asyncio.Event()

    async def wait(self) -> None:
        """Wait until it has shown something, computes no more, or has had its time."""
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
        """Let the block begin *run*, and say the process; the turn is over soon behind it."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._turns)
            if self._host is not None:
                await stack.enter_async_context(self._host.turn())
            self._beginning[run] = beginning = Beginning()
            stack.callback(self._beginning.pop, run)
            yield beginning
            await beginning.wait()

    def begun(self, run: int) -> None:
        """Note that *run* has shown something, or is over. Idempotent, of any run."""
        if (beginning := self._beginning.get(run)) is not None:
            beginning.over.set()


class HostTurns:
    """At most *most* turns at once, of all processes that share *folder*: files, which are locked.

    The system takes the lock from a process that ends. Where no file can be had all begin at once.
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
