"""Calls and streams in progress: the replies that they wait for, and limits on their number."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from penstock.credentials.per_identity import PerIdentity, identity_answered
from penstock.errors import Overloaded, PenstockError
from penstock.protocol.types import Failure, IterationId
from penstock_dispatcher.core.events import Call


class PendingCalls:
    """Numbers calls, and passes replies to their waiters."""

    def __init__(self) -> None:
        self._names = itertools.count(1)
        self._waiting: dict[Call, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def new_call(self) -> Call:
        """Return a name for a call."""
        return Call(next(self._names))

    @asynccontextmanager
    async def waiting(self, call: Call) -> AsyncIterator[asyncio.Future[Any]]:
        """Yield a future of the reply to *call*, for as long as the block waits."""
        answer = self._waiting[call] = asyncio.get_running_loop().create_future()
        try:
            yield answer
        finally:
            del self._waiting[call]

    def answer(self, call: Call, answer: Any) -> None:
        """Reply to *call*, with an error if *answer* is a failure, unless the caller has gone."""
        waiting = self._waiting.get(call)
        if waiting is None or waiting.done():
            return
        if isinstance(answer, Failure):
            waiting.set_exception(answer.error())
        else:
            waiting.set_result(answer)

    def fail(self, error: PenstockError) -> None:
        """Answer all calls with *error*."""
        for call in self._waiting:
            self.answer(call, Failure.of(error))


SOONEST, LATEST = 0.1, 30.0
"""Seconds after which to try again, at the least and at the most."""

_WEIGHT = 0.1
"""How much one opening says about how long one takes."""


class Openings:
    """At most *most* of them at a time, by *clock*."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._open = 0
        self._each, self._ended_at = 0.0, clock()
        self.refused = 0
        """How many were refused."""

    def __len__(self) -> int:
        return self._open

    @contextmanager
    def held(self) -> Iterator[None]:
        """Count one until the end of the block.

        Raises:
            Overloaded: when there are as many as there may be.
        """
        if self._open >= self._most:
            self.refused += 1
            after = min(max(self._open * self._each, SOONEST), LATEST)
            raise Overloaded(
                f"{self._open} datasets and jobs are being registered and opened here, which is "
                f"all that may be at once: try again in {after:.1f} s, as readers do by "
                "themselves; or start the dispatcher with a larger limit max_openings",
                round(1000 * after),
            )
        self._open += 1
        began = self._clock()
        try:
            yield
        finally:
            self._open -= 1
            now = self._clock()
            # Many end in the time that one takes: what counts is how long the next took behind it.
            took = now - max(began, self._ended_at)
            self._each += _WEIGHT * (took - self._each)
            self._ended_at = now


class ReaderSessions:
    """Readers by session, each with the pass that it reads; *of_identity* bounds them."""

    def __init__(self, of_identity: PerIdentity) -> None:
        self._of_identity, self._who = of_identity, identity_answered()
        self._reads: dict[str, IterationId] = {}
        self._counted = 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._reads)

    def __getitem__(self, session: str) -> IterationId:
        return self._reads[session]

    def note(self, session: str, iteration: IterationId) -> None:
        """Note that *session* was heard; one that is refused leaves with the stream, too.

        Raises:
            Overloaded: when it is another one, and there are as many as there may be.
        """
        is_new = session not in self._reads
        self._reads[session] = iteration
        if is_new:
            self._of_identity.take(self._who)
            self._counted += 1

    def close(self) -> None:
        """Count none of them any more."""
        if self._counted:
            self._of_identity.give_back(self._who, self._counted)
        self._reads, self._counted = {}, 0


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel *task*, and wait until it has ended."""
    task.cancel()
    await asyncio.wait({task})
