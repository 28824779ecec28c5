"""The worker's stream to the dispatcher: heartbeats and requests up, assignments down."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import NoReturn

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
"""Seconds until the stream is opened again: first, and after many times."""


class ControlOutbox:
    """Messages that wait to be sent to the dispatcher."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.sent = asyncio.Event()
        """Set while everything is sent."""
        self.heartbeat_due = False
        self.split_requests: list[SplitRequest] = []

    def request_heartbeat(self) -> None:
        """Send a heartbeat at the event loop's next turn; several calls make one."""
        self.heartbeat_due = True
        self._wake()

    def add(self, request: SplitRequest) -> None:
        """Request splits."""
        self.split_requests.append(request)
        self._wake()

    def _wake(self) -> None:
        self.sent.clear()
        self.changed.set()


class ControlStream:
    """Keeps the stream open, and sends the messages in *outbox*.

    *heartbeat* returns the present heartbeat, *handle* gets the dispatcher's messages.
    *dispatcher* is its name, in errors and in the log.
    """

    def __init__(
        self,
        api: DispatcherApi,
        dispatcher: str,
        outbox: ControlOutbox,
        *,
        heartbeat: Callable[[bool], WorkerHeartbeat],
        handle: Callable[[Assignment | SplitGrant | DispatcherConnected], None],
    ) -> None:
        self.registered = asyncio.Event()
        self.disconnected = asyncio.Event()
        """Set while no dispatcher is known at the other end."""
        self.disconnected.set()
        self.reason = ""
        """Why the stream is broken, as text; empty while it is open."""
        self._refusal: PenstockError | None = None
        self._api, self._dispatcher, self._outbox = api, dispatcher, outbox
        self._heartbeat, self._handle = heartbeat, handle
        self._wait = FIRST_WAIT

    async def run(self) -> None:
        """Keep the stream open until cancelled; open it again whenever it breaks.

        Raises:
            PenstockError: when the dispatcher refuses this worker, or the worker has failed.
        """
        while True:
            try:
                await self._run_once()
            except PenstockError as exc:
                ours = exc is self._refusal or isinstance(exc, InternalError)
                if ours or not (self.registered.is_set() or exc.retryable):
                    raise
                news = self.registered.is_set() and not self.reason
                self.reason = str(exc)
                self.disconnected.set()
                await asyncio.sleep(self._wait * random.uniform(0.5, 1.0))
                self._wait = min(2 * self._wait, LONGEST_WAIT)
                # Not earlier: if a whole cluster ends, this worker ends right after the dispatcher.
                if news:
                    log.warning("%s; reading continues, and the connection is tried again", exc)

    async def _run_once(self) -> NoReturn:
        stream = self._api.worker_control(self._events())
        async with aclosing(stream) as commands:  # type: ignore[type-var]  # a generator
            async for command in commands:
                if isinstance(command, WorkerRefused):
                    self._refusal = command.failure.error()
                    raise self._refusal
                self._on_command(command)
        raise Unavailable(f"the dispatcher at {self._dispatcher} hung up")

    async def _events(self) -> AsyncIterator[WorkerEvent]:
        outbox = self._outbox
        outbox.split_requests.clear()
        outbox.heartbeat_due = False
        yield self._heartbeat(True)
        self._handle(DispatcherConnected())
        while True:
            outbox.changed.clear()
            requests, outbox.split_requests = outbox.split_requests, []
            for request in requests:
                yield request
            if outbox.heartbeat_due:
                outbox.heartbeat_due = False
                yield self._heartbeat(False)
            if not outbox.changed.is_set():
                outbox.sent.set()
                await outbox.changed.wait()

    def _on_command(self, command: Assignment | SplitGrant) -> None:
        if self.reason and self.registered.is_set():
            log.warning("the dispatcher at %s is back", self._dispatcher)
        self.reason, self._wait = "", FIRST_WAIT
        self.disconnected.clear()
        self._handle(command)
        self.registered.set()
