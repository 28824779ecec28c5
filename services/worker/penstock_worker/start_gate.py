"""How many runs of a worker begin at once: a host with many jobs is not to lose its heartbeats.

A process that begins, and fills its buffer, works as hard as it can. Where hundreds do that at once
on a few cores nobody answers for seconds, and a worker that does not answer is taken for lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

WITHIN = 5.0
"""Seconds for which a run that has shown nothing yet is said to begin: user code may take minutes
to load, and others must not wait for that. On a host that is overloaded all take seconds."""


class StartGate:
    """At most *most* runs begin at once, in the order in which they came."""

    def __init__(self, most: int) -> None:
        self._turns = asyncio.Semaphore(most)
        self._beginning: dict[int, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, run: int) -> AsyncIterator[None]:
        """Let the block begin *run*; the turn is over when that has `begun`, or soon after."""
        async with self._turns:
            self._beginning[run] = event = asyncio.Event()
            try:
                yield
                with suppress(TimeoutError):
                    async with asyncio.timeout(WITHIN):
                        await event.wait()
            finally:
                del self._beginning[run]

    def begun(self, run: int) -> None:
        """Note that *run* has shown something, or is over. Idempotent, of any run."""
        if (event := self._beginning.get(run)) is not None:
            event.set()
