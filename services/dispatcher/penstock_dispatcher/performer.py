"""Carry out effects of the core: send on streams, reply to calls, probe workers; time decisions."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias, assert_never

from penstock import files
from penstock.protocol.control import ReaderView, WorkerCommand, WorkerRefused
from penstock.protocol.types import WorkerId
from penstock.runtime.address import split
from penstock.runtime.clock import Durations
from penstock_dispatcher.calls import PendingCalls
from penstock_dispatcher.core.events import (
    CloseReaderStream,
    Effect,
    Event,
    FilesOrdered,
    ListSourceFiles,
    OrderSourceFiles,
    ProbeWorker,
    ReplyToCall,
    ReportUncaught,
    SendCommand,
    SendView,
    WorkerDead,
)
from penstock_dispatcher.outbox import Outboxes

Decide = Callable[[Event, float], list[Effect]]


class DecisionTimes:
    """Times since the process began, by the name of the event's class."""

    def __init__(self) -> None:
        self.by_event: defaultdict[str, Durations] = defaultdict(Durations)

    def timed(self, decide: Decide, event: Event, now: float) -> list[Effect]:
        """Return what *decide* returns of *event*, and note how long that took."""
        began = time.perf_counter()
        effects = decide(event, now)
        self.by_event[type(event).__name__].observe(time.perf_counter() - began)
        return effects


log = logging.getLogger("penstock.dispatcher")

OutwardEffect: TypeAlias = (
    SendCommand
    | SendView
    | CloseReaderStream
    | ReplyToCall
    | ProbeWorker
    | ListSourceFiles
    | OrderSourceFiles
    | ReportUncaught
)
"""Effects that are carried out, and not journaled."""


class Performer:
    """Streams to workers and readers, and replies to calls. Results go to *hear* as events."""

    def __init__(
        self, calls: PendingCalls, hear: Callable[[WorkerDead | FilesOrdered], None]
    ) -> None:
        self.workers: Outboxes[tuple[WorkerId, int], WorkerCommand] = Outboxes()
        self.readers: Outboxes[str, ReaderView] = Outboxes()
        self.views: dict[str, ReaderView] = {}
        """The last view of each reader, by its session."""
        self._calls, self._handle = calls, hear
        self._tasks: set[asyncio.Task[None]] = set()

    def perform(self, effect: OutwardEffect) -> None:
        """Perform the decisions."""
        match effect:
            case SendCommand():
                self._send(effect)
            case SendView(view):
                self.views[view.session] = view
                self.readers.put(view.session, view)
            case CloseReaderStream(session, failure):
                self.readers.close(session, failure.error())
            case ReplyToCall(call, answer):
                self._calls.answer(call, answer)
            case ListSourceFiles(event):
                self._calls.answer(event.call, effect)
            case ReportUncaught(message):
                log.warning("%s", message)
            case ProbeWorker():
                self._spawn(self._probe(effect), f"probe {effect.worker}")
            case OrderSourceFiles():
                self._spawn(self._order(effect), f"order files of {effect.iteration}")
            case _:
                assert_never(effect)

    def close(self) -> None:
        """Look for nothing more."""
        for task in self._tasks:
            task.cancel()

    def _spawn(self, finding: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(finding, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, effect: SendCommand) -> None:
        peer = (effect.worker, effect.incarnation)
        self.workers.put(peer, effect.command)
        if isinstance(effect.command, WorkerRefused):
            log.warning("worker %s is refused: %s", effect.worker, effect.command.failure.error())
            self.workers.close(peer)

    async def _probe(self, effect: ProbeWorker) -> None:
        try:
            refused = await is_refused(effect.worker)
        except Exception as exc:  # noqa: BLE001  its lease decides the same, later
            log.warning("whether worker %s is there could not be found out: %r", effect.worker, exc)
            return
        if refused:
            self._handle(WorkerDead(effect.worker, effect.incarnation))

    async def _order(self, effect: OrderSourceFiles) -> None:
        try:
            order = await asyncio.to_thread(files.order, effect.names, effect.seed)
        except Exception as exc:  # noqa: BLE001  it is computed when it is needed, if it can be
            log.warning("an order of %d files could not be made: %r", len(effect.names), exc)
            return
        self._handle(FilesOrdered(effect.iteration, effect.provider, effect.seed, order))


TRIES = (0.0, 0.05, 0.25, 1.0)
"""Pauses before each look: a process that is dying may still be connected to for a moment."""


async def is_refused(address: str, timeout: float = 1.0) -> bool:
    """Return whether connections to *address* are refused, by all hosts that it names.

    An address that cannot be resolved, is silent or answers is no proof.
    """
    for pause in TRIES:
        await asyncio.sleep(pause)
        with suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(timeout):
                if await _refused_everywhere(*split(address)):
                    return True
    return False


async def _refused_everywhere(host: str, port: int) -> bool:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return bool(found) and all([await _refused(one[0], one[4]) for one in found])


async def _refused(family: int, place: tuple[Any, ...]) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(probe, place)
        except ConnectionRefusedError:
            return True
    return False
