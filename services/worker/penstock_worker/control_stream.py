"""The worker's stream to the dispatcher: heartbeats and requests up, assignments down."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from penstock.errors import InternalError, PenstockError, Unavailable
from penstock.protocol.control import (
    Assignment,
    SplitGrant,
    SplitRequest,
    WorkerEvent,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.wire.dispatcher import DispatcherApi
from penstock_worker.core.events import DispatcherConnected

log = logging.getLogger("penstock.worker")

FIRST_WAIT, LONGEST_WAIT = 0.05, 1.0
"""Seconds until the line is tried again: first, and after many times."""


class ControlOutbox:
    """What the worker wants to tell the dispatcher, until the line takes it."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.said = asyncio.Event()
        """Whether the line has taken everything."""
        self.beat_due = False
        self.questions: list[SplitRequest] = []

    def beat_soon(self) -> None:
        """Beat once the loop has done what it is at; several calls make one beat."""
        self.beat_due = True
        self._note()

    def ask(self, request: SplitRequest) -> None:
        """Ask for splits."""
        self.questions.append(request)
        self._note()

    def _note(self) -> None:
        self.said.clear()
        self.changed.set()


class ControlStream:
    """Keeps the line up, and carries what is in *outbox*.

    *beat* makes a beat, *hear* takes what comes from the dispatcher. *dispatcher* is its name, in
    errors and in the log.
    """

    def __init__(
        self,
        api: DispatcherApi,
        dispatcher: str,
        outbox: ControlOutbox,
        *,
        beat: Callable[[bool], WorkerHeartbeat],
        hear: Callable[[Assignment | SplitGrant | DispatcherConnected], None],
    ) -> None:
        self.registered = asyncio.Event()
        self.down = asyncio.Event()
        """Whether there is no dispatcher at the other end, as far as one can tell."""
        self.down.set()
        self.trouble = ""
        """What is wrong with the line, in words; nothing when it is up."""
        self._refusal: PenstockError | None = None
        self._api, self._dispatcher, self._outbox = api, dispatcher, outbox
        self._beat, self._hear = beat, hear
        self._wait = FIRST_WAIT

    async def run(self) -> None:
        """Hold the line until cancelled; open it again whenever it breaks.

        Raises:
            PenstockError: when the dispatcher refuses this worker, or the worker has failed.
        """
        while True:
            try:
                await self._hold()
            except PenstockError as exc:
                ours = exc is self._refusal or isinstance(exc, InternalError)
                if ours or not (self.registered.is_set() or exc.retryable):
                    raise
                self._lost(exc)
            await asyncio.sleep(self._wait * random.uniform(0.5, 1.0))
            self._wait = min(2 * self._wait, LONGEST_WAIT)

    async def _hold(self) -> None:
        line = self._api.worker_control(self._signals())
        async with aclosing(line) as orders:  # type: ignore[type-var]  # a generator
            async for order in orders:
                if isinstance(order, WorkerRefused):
                    self._refusal = order.failure.error()
                    raise self._refusal
                self._heard(order)
        raise Unavailable(f"the dispatcher at {self._dispatcher} hung up")

    async def _signals(self) -> AsyncIterator[WorkerEvent]:
        outbox = self._outbox
        outbox.questions.clear()
        outbox.beat_due = False
        yield self._beat(True)
        self._hear(DispatcherConnected())
        while True:
            outbox.changed.clear()
            questions, outbox.questions = outbox.questions, []
            for question in questions:
                yield question
            if outbox.beat_due:
                outbox.beat_due = False
                yield self._beat(False)
            if not outbox.changed.is_set():
                outbox.said.set()
                await outbox.changed.wait()

    def _heard(self, order: Assignment | SplitGrant) -> None:
        if self.trouble and self.registered.is_set():
            log.warning("the dispatcher at %s is back", self._dispatcher)
        self.trouble, self._wait = "", FIRST_WAIT
        self.down.clear()
        self._hear(order)
        self.registered.set()

    def _lost(self, trouble: PenstockError) -> None:
        if not self.trouble and self.registered.is_set():
            log.warning("%s; reading goes on, and the connection is tried again", trouble)
        self.trouble = str(trouble)
        self.down.set()
