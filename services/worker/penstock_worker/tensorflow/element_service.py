"""Answers TensorFlow's clients that want elements: finds the reader of their pass."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from penstock.errors import DatasetError, PenstockError, UnknownIteration
from penstock.protocol.tensorflow import ElementRequest, FoundTask
from penstock_worker.tensorflow.pass_reader import PassReader, ReplySource, opened

log = logging.getLogger("penstock.worker")

LOOK_EVERY = 5.0
"""Seconds between two looks at whether a pass is still read by somebody."""

Reads: TypeAlias = tuple[int, int | None, str]
"""A task, the consumer of coordinated reads, and the trainer of a cached job."""

Find: TypeAlias = Callable[[int], Awaitable[FoundTask]]
Open: TypeAlias = Callable[[FoundTask, int | None, str], ReplySource]


@dataclass(slots=True)
class _Reading:
    reader: PassReader
    asked_at: float
    asking: int = 0


@dataclass(slots=True)
class ElementService:
    """The readers of this worker's process for TensorFlow's clients.

    *find* asks the dispatcher what a task reads, and *open_pass* begins to read that.
    """

    find: Find
    open_pass: Open
    clock: Callable[[], float] = time.monotonic
    _reading: dict[Reads, _Reading] = field(default_factory=dict, init=False)
    _finding: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def element(self, request: ElementRequest) -> bytes:
        """Return the reply to a request for an element.

        Raises:
            PenstockError: when there is no such task, or it cannot go on.
        """
        one = await self._at(request)
        one.asking += 1
        try:
            return await one.reader.next()
        finally:
            one.asking -= 1
            one.asked_at = self.clock()

    async def look_forever(self) -> None:
        """End the readers of passes that no client reads any more, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.look()

    async def look(self) -> None:
        """End the readers of passes that no client reads any more."""
        for reads, one in list(self._reading.items()):
            if one.asking or self.clock() < one.asked_at + LOOK_EVERY:
                continue
            try:
                wanted = (await self.find(reads[0])).wanted
            except UnknownIteration:
                wanted = False
            except PenstockError:  # the dispatcher is away, and may know when it is back
                continue
            if not wanted and not one.asking:
                del self._reading[reads]
                await one.reader.close()

    async def close(self) -> None:
        """End all readers."""
        reading, self._reading = self._reading, {}
        for one in reading.values():
            await one.reader.close()

    async def _at(self, request: ElementRequest) -> _Reading:
        reads = (request.task_id, request.consumer_index, request.trainer_id)
        one = self._reading.get(reads)
        if one is None:
            async with self._finding:  # two requests at once are of one reader
                one = self._reading.get(reads)
                if one is None:
                    found = await self.find(request.task_id)
                    if found.num_consumers and request.consumer_index is None:
                        raise DatasetError(
                            f"job {found.job_name!r} has {found.num_consumers} consumers: give "
                            "consumer_index and num_consumers"
                        )
                    begin = partial(
                        self.open_pass, found, request.consumer_index, request.trainer_id
                    )
                    one = self._reading[reads] = _Reading(PassReader(begin), self.clock())
        return one


def element_service(address: str, find: Find) -> ElementService:
    """Return a service that reads from the dispatcher at *address*."""
    return ElementService(find, partial(opened, address))
