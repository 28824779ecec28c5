"""Answers TensorFlow's clients that want elements: finds the reader of their pass."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, assert_never

from penstock.errors import DatasetError, PenstockError, UnknownIteration
from penstock.protocol.tensorflow import ElementRequest, FindTaskRequest, FoundTask
from penstock_worker.tensorflow.consumer_reader import ConsumerReader
from penstock_worker.tensorflow.pass_reader import PassReader, ReplySource, opened

log = logging.getLogger("penstock.worker")

LOOK_EVERY = 5.0
"""Seconds between two looks at whether a pass is still read by somebody."""

Find: TypeAlias = Callable[[FindTaskRequest], Awaitable[FoundTask]]
Open: TypeAlias = Callable[[FoundTask, int | None, str, int | None], ReplySource]


@dataclass(frozen=True, slots=True)
class _Reads:
    """A task, the consumer of coordinated reads, and the trainer of a cached job."""

    task: int
    consumer: int | None
    trainer: str


@dataclass(slots=True)
class _Reading:
    reader: PassReader | ConsumerReader
    asked_at: float
    asking: int = 0

    async def next(self, request: ElementRequest) -> bytes:
        match self.reader:
            case PassReader():
                return await self.reader.next()
            case ConsumerReader():
                return await self.reader.next(request.round_index or 0)
            case _:
                assert_never(self.reader)


@dataclass(slots=True)
class ElementService:
    """The readers of this worker's process for TensorFlow's clients.

    *find* asks the dispatcher what a task reads, and *open_pass* begins to read that.
    """

    find: Find
    open_pass: Open
    clock: Callable[[], float] = time.monotonic
    _reading: dict[_Reads, _Reading] = field(default_factory=dict, init=False)
    _finding: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def element(self, request: ElementRequest) -> bytes:
        """Return the reply to a request for an element.

        Raises:
            PenstockError: when there is no such task, or it cannot go on.
        """
        one = await self._at(request)
        one.asking += 1
        try:
            return await one.next(request)
        finally:
            one.asking -= 1
            one.asked_at = self.clock()

    async def look_forever(self) -> None:
        """End the readers of passes that no client reads any more, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.look()

    async def look(self) -> None:
        """End the readers of passes that no client reads any more, or not here.

        A consumer that waits may wait for one that was told to go on elsewhere.
        """
        for reads, one in list(self._reading.items()):
            in_use = one.asking and reads.consumer is None
            if in_use or self.clock() < one.asked_at + LOOK_EVERY:
                continue
            try:
                wanted = (await self.find(FindTaskRequest(reads.task))).wanted
            except UnknownIteration:
                wanted = False
            except PenstockError:  # the dispatcher is away, and may know when it is back
                continue
            if not wanted and not (one.asking and reads.consumer is None):
                self._reading.pop(reads, None)
                await one.reader.close()

    async def close(self) -> None:
        """End all readers."""
        reading, self._reading = self._reading, {}
        for one in reading.values():
            await one.reader.close()

    async def _at(self, request: ElementRequest) -> _Reading:
        reads = _Reads(request.task_id, request.consumer_index, request.trainer_id)
        one = self._reading.get(reads)
        if one is None:
            async with self._finding:  # two requests at once are of one reader
                one = self._reading.get(reads)
                if one is None:
                    one = _Reading(await self._opened(request), self.clock())
                    self._reading[reads] = one
        return one

    async def _opened(self, request: ElementRequest) -> PassReader | ConsumerReader:
        task, consumer, trainer = request.task_id, request.consumer_index, request.trainer_id
        found = await self.find(FindTaskRequest(task, consumer, request.round_index))
        if not found.num_consumers:
            return PassReader(partial(self.open_pass, found, None, trainer, None))
        if consumer is None or request.round_index is None:
            raise DatasetError(
                f"job {found.job_name!r} has {found.num_consumers} consumers: give "
                "consumer_index and num_consumers"
            )

        def open_at(start: int | None) -> PassReader:
            begin = partial(self.open_pass, found, consumer, trainer, start)
            return PassReader(begin, in_rounds=True)

        def note(asked: int, is_round: int) -> Awaitable[FoundTask]:
            return self.find(FindTaskRequest(task, consumer, asked, is_round))

        return ConsumerReader(open_at, found.start_round, note)


def element_service(address: str, find: Find) -> ElementService:
    """Return a service that reads from the dispatcher at *address*."""
    return ElementService(find, partial(opened, address))
