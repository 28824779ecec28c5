"""What is done in the world: streams are written to, calls answered, addresses looked at."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, assert_never

from penstock import files
from penstock.messages import View, WorkerOrder, WorkerRefused
from penstock.numbers import WorkerId
from penstock_dispatcher.calls import Calls
from penstock_dispatcher.core.signals import (
    Answer,
    FilesOrdered,
    HangUp,
    ListFiles,
    OrderFiles,
    Probe,
    Report,
    Send,
    Show,
    WorkerGone,
)
from penstock_dispatcher.outbox import Outboxes
from penstock_dispatcher.probe import is_refused

log = logging.getLogger("penstock.dispatcher")

Outward: TypeAlias = Send | Show | HangUp | Answer | Probe | ListFiles | OrderFiles | Report
"""What is done in the world, and not written."""


class World:
    """The ways to workers, readers and callers. What is found out there goes to *hear*."""

    def __init__(self, calls: Calls, hear: Callable[[WorkerGone | FilesOrdered], None]) -> None:
        self.workers: Outboxes[tuple[WorkerId, int], WorkerOrder] = Outboxes()
        self.readers: Outboxes[str, View] = Outboxes()
        self.shown: dict[str, View] = {}
        """What each reader was told last, by its token."""
        self._calls, self._hear = calls, hear
        self._tasks: set[asyncio.Task[None]] = set()

    def perform(self, effect: Outward) -> None:
        """Do what was decided."""
        match effect:
            case Send():
                self._send(effect)
            case Show(view):
                self.shown[view.token] = view
                self.readers.put(view.token, view)
            case HangUp(token, failure):
                self.readers.close(token, failure.error())
            case Answer(call, answer):
                self._calls.answer(call, answer)
            case ListFiles(signal):
                self._calls.answer(signal.call, effect)
            case Report(line):
                log.warning("%s", line)
            case Probe():
                self._find_out(self._probe(effect), f"probe {effect.worker}")
            case OrderFiles():
                self._find_out(self._order(effect), f"order files of {effect.iteration}")
            case _:
                assert_never(effect)

    def close(self) -> None:
        """Look for nothing more."""
        for task in self._tasks:
            task.cancel()

    def _find_out(self, finding: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(finding, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send(self, effect: Send) -> None:
        peer = (effect.worker, effect.incarnation)
        self.workers.put(peer, effect.order)
        if isinstance(effect.order, WorkerRefused):
            log.warning("worker %s is refused: %s", effect.worker, effect.order.failure.error())
            self.workers.close(peer)

    async def _probe(self, effect: Probe) -> None:
        try:
            refused = await is_refused(effect.worker)
        except Exception as exc:  # noqa: BLE001  its lease says the same, later
            log.warning("whether worker %s is there could not be found out: %r", effect.worker, exc)
            return
        if refused:
            self._hear(WorkerGone(effect.worker, effect.incarnation))

    async def _order(self, effect: OrderFiles) -> None:
        try:
            order = await asyncio.to_thread(files.order, effect.names, effect.seed)
        except Exception as exc:  # noqa: BLE001  it is made when it is needed, if it can be
            log.warning("an order of %d files could not be made: %r", len(effect.names), exc)
            return
        self._hear(FilesOrdered(effect.iteration, effect.stream, effect.seed, order))
