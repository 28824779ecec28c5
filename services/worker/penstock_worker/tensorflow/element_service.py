"""Answers TensorFlow clients that ask for elements: finds the reader of their pass."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, assert_never

from penstock.credentials.access import AccessRole
from penstock.credentials.caller import choose_first
from penstock.credentials.folder import folder_of
from penstock.errors import DatasetError, PenstockError, UnknownIteration, WrongRole
from penstock.protocol.tensorflow import LANES, ElementRequest, FindTaskRequest, FoundTask
from penstock_worker.tensorflow.consumer_reader import ConsumerReader
from penstock_worker.tensorflow.pass_reader import PassReader, ReplySource

log = logging.getLogger("penstock.worker")

LOOK_EVERY = 5.0
"""Seconds between two checks whether clients still read a pass."""

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
    opened: bool
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
            PenstockError: if the task does not exist or cannot continue.
        """
        return await self._element(request, opened=False)

    async def opened_element(self, request: ElementRequest) -> bytes:
        """Do as `element`, for clients without credentials: only for opened datasets.

        Raises:
            PenstockError: if the task does not exist, has another dataset, or cannot continue.
        """
        return await self._element(request, opened=True)

    async def _element(self, request: ElementRequest, *, opened: bool) -> bytes:
        one = await self._at(request, opened=opened)
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

        A killed client may leave a waiting request. A waiting consumer may wait for another one
        that was told to continue at another worker.
        """
        for reads, one in list(self._reading.items()):
            if self.clock() < one.asked_at + LOOK_EVERY:
                continue
            try:
                wanted = (await self.find(FindTaskRequest(reads.task))).wanted
            except UnknownIteration:
                wanted = False
            except PenstockError:  # the dispatcher does not answer; ask again later
                continue
            if not wanted:
                self._reading.pop(reads, None)
                await one.reader.close()

    async def close(self) -> None:
        """End all readers."""
        reading, self._reading = self._reading, {}
        for one in reading.values():
            await one.reader.close()

    async def _at(self, request: ElementRequest, *, opened: bool) -> _Reading:
        task = request.task_id
        if request.consumer_index is None:
            task -= task % LANES
        reads = _Reads(task, request.consumer_index, request.trainer_id)
        one = self._reading.get(reads)
        if one is None:
            async with self._finding:  # two requests at once are of one reader
                one = self._reading.get(reads)
                if one is None:
                    consumer, asked = request.consumer_index, request.round_index
                    found = await self.find(FindTaskRequest(request.task_id, consumer, asked))
                    _check_opened(found.opened or not opened)  # before anything is read for it
                    one = _Reading(self._reader(request, found), found.opened, self.clock())
                    self._reading[reads] = one
        _check_opened(one.opened or not opened)
        return one

    def _reader(self, request: ElementRequest, found: FoundTask) -> PassReader | ConsumerReader:
        task, consumer, trainer = request.task_id, request.consumer_index, request.trainer_id
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


def _check_opened(opened: bool) -> None:
    if not opened:
        raise WrongRole(
            "this task is of a dataset that is not opened to TensorFlow's clients, which show no "
            "credentials: start the dispatcher with it among its tensorflow_datasets"
        )


def element_service(address: str, find: Find, credentials: str | None = None) -> ElementService:
    """Return a service that reads from the dispatcher at *address*, with a worker's credentials."""
    if credentials is not None:
        choose_first(address, str(folder_of(credentials, AccessRole.WORKER.value)))

    def open_pass(
        found: FoundTask, consumer: int | None, trainer: str, start: int | None
    ) -> ReplySource:
        # It loads what only a process needs that reads.
        from penstock_worker.tensorflow.replies import opened  # noqa: PLC0415

        return opened(address, found, consumer, trainer, start)

    return ElementService(find, open_pass)
