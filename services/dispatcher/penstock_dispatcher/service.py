"""The dispatcher's body: streams, calls and a clock around `Core`."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, assert_never

import msgspec

from penstock import files
from penstock.definition import Definition
from penstock.engine import seeds
from penstock.errors import DatasetError, PenstockError, Unavailable, UnknownDataset
from penstock.graph import FilePattern
from penstock.messages import (
    Assignment,
    Failure,
    Opened,
    OpenRequest,
    ReaderBeat,
    Versions,
    View,
    WorkerOrder,
    WorkerRefused,
    WorkerSignal,
)
from penstock.numbers import DatasetId, WorkerId
from penstock_dispatcher import told
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.core import Books, Core
from penstock_dispatcher.core.signals import (
    Answer,
    Begin,
    Call,
    Effect,
    HangUp,
    LineBroken,
    ListFiles,
    OpenIteration,
    Register,
    Send,
    Show,
    Signal,
    Tick,
    Write,
)
from penstock_dispatcher.definitions import Definitions, InFolder, InMemory
from penstock_dispatcher.outbox import Outbox

log = logging.getLogger("penstock.dispatcher")

T = TypeVar("T")
K = TypeVar("K")

EPOCH = 1_735_689_600
"""The year 2025: births are counted from then, in milliseconds.

A history uses far fewer than a thousand ids a second, so the next one begins above them.
"""


def boot_clock() -> float:
    """Return seconds that also pass while the machine sleeps, and never jump."""
    return time.clock_gettime(_CLOCK)


_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Dispatcher:
    """A live dispatcher; it satisfies `DispatcherApi`."""

    def __init__(
        self, config: DispatcherConfig, *, clock: Callable[[], float] = boot_clock
    ) -> None:
        self._config = config
        self._clock = clock
        self._core = Core(Books(), config.settings, clock())
        self._definitions: Definitions = (
            InMemory() if config.work_dir is None else InFolder(Path(config.work_dir) / "datasets")
        )
        self._workers: dict[tuple[WorkerId, int], Outbox[WorkerOrder]] = {}
        self._readers: dict[str, Outbox[View]] = {}
        self._calls = itertools.count(1)
        self._waiting: dict[Call, asyncio.Future[Any]] = {}
        self._pushing = self._closed = False
        self._perform(self._core.handle(Begin(int((time.time() - EPOCH) * 1000)), clock()))

    @property
    def address(self) -> str:
        """Where workers and readers find this dispatcher, as ``host:port``."""
        return self._core.desk.address

    @address.setter
    def address(self, address: str) -> None:
        self._core.desk.address = address

    async def tick_forever(self) -> None:
        """Let the core notice who is silent, until cancelled."""
        while True:
            await asyncio.sleep(self._config.settings.tick_interval)
            self._handle(Tick())

    def close(self) -> None:
        """End all streams, and open no more."""
        self._closed = True
        for worker in self._workers.values():
            worker.close(self._stopping())
        for reader in self._readers.values():
            reader.close(self._stopping())

    # --- calls ---

    async def register_dataset(self, definition: bytes, versions: Versions) -> DatasetId:
        """See `DispatcherApi.register_dataset`."""
        dataset = await self._register(definition, versions)
        await self._definitions.keep(dataset, definition)
        return dataset

    async def get_definition(self, dataset: DatasetId) -> bytes:
        """See `DispatcherApi.get_definition`."""
        definition = await self._definitions.find(dataset)
        if definition is None:
            raise UnknownDataset(f"dataset {dataset} is not registered at {self.address}")
        return definition

    async def open_iteration(self, request: OpenRequest) -> Opened:
        """See `DispatcherApi.open_iteration`."""
        if request.dataset not in self._core.books.datasets:
            definition = await self._definitions.find(request.dataset)
            if definition is not None:  # of an earlier life of this dispatcher
                await self._register(definition, request.versions)
        signal = OpenIteration(Call(next(self._calls)), request, seeds.fresh())
        answer: Opened | ListFiles = await self._ask(signal.call, signal)
        while isinstance(answer, ListFiles):
            names = {i: await _list(pattern) for i, pattern in answer.patterns.items()}
            answer = await self._ask(signal.call, replace(signal, names=names))
        return answer

    async def status(self) -> bytes:
        """See `DispatcherApi.status`."""
        return msgspec.json.encode(self._core.stats(self._clock()))

    async def _register(self, definition: bytes, versions: Versions) -> DatasetId:
        known = Definition.from_bytes(definition)
        call, dataset = Call(next(self._calls)), DatasetId(known.fingerprint)
        await self._ask(call, Register(call, versions, dataset, known.streams, known.unsplittable))
        return dataset

    async def _ask(self, call: Call, signal: Signal) -> Any:
        answer = self._waiting[call] = asyncio.get_running_loop().create_future()
        try:
            self._handle(signal)
            return await answer
        finally:
            del self._waiting[call]

    # --- streams ---

    async def worker_control(
        self, signals: AsyncIterator[WorkerSignal]
    ) -> AsyncIterator[WorkerOrder]:
        """See `DispatcherApi.worker_control`."""
        self._check_open()
        outbox: Outbox[WorkerOrder] = Outbox(Assignment)
        peers = set()

        def hear(signal: WorkerSignal) -> None:
            peers.add((signal.worker, signal.incarnation))
            _replace(self._workers, (signal.worker, signal.incarnation), outbox)
            self._handle(signal)

        reading = asyncio.create_task(self._hear(signals, hear, outbox), name="hear worker")
        try:
            async for order in outbox:
                yield order
        finally:
            for worker, incarnation in _remove(self._workers, peers, outbox):
                self._handle(LineBroken(worker, incarnation))
            await _end(reading)

    async def reader_control(self, beats: AsyncIterator[ReaderBeat]) -> AsyncIterator[View]:
        """See `DispatcherApi.reader_control`."""
        self._check_open()
        outbox: Outbox[View] = Outbox(View)
        peers = set()

        def hear(beat: ReaderBeat) -> None:
            peers.add(beat.token)
            _replace(self._readers, beat.token, outbox)
            self._handle(beat)

        reading = asyncio.create_task(self._hear(beats, hear, outbox), name="hear reader")
        try:
            async for view in outbox:
                yield view
        finally:
            _remove(self._readers, peers, outbox)
            await _end(reading)

    def _check_open(self) -> None:
        if self._closed:
            raise self._stopping()

    def _stopping(self) -> PenstockError:
        return Unavailable(f"the dispatcher at {self.address} is stopping")

    async def _hear(
        self, received: AsyncIterator[T], hear: Callable[[T], None], outbox: Outbox[Any]
    ) -> None:
        try:
            async for message in received:
                hear(message)
        except Exception as exc:  # noqa: BLE001  whatever it is, the stream ends with it
            outbox.close(exc)
        else:
            # What is about to be pushed is still sent.
            asyncio.get_running_loop().call_soon(outbox.close)

    # --- effects ---

    def _handle(self, signal: Signal) -> None:
        self._perform(self._core.handle(signal, self._clock()))
        if self._core.has_news and not self._pushing:
            self._pushing = True
            asyncio.get_running_loop().call_soon(self._push)

    def _push(self) -> None:
        self._pushing = False
        self._perform(self._core.push(self._clock()))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(fact):
                    told.tell(fact)
                case Send():
                    self._send(effect)
                case Show() | HangUp():
                    self._show(effect)
                case Answer(call, answer):
                    self._answer(call, answer)
                case ListFiles(signal):
                    self._answer(signal.call, effect)
                case _:
                    assert_never(effect)

    def _send(self, effect: Send) -> None:
        outbox = self._workers.get((effect.worker, effect.incarnation))
        if outbox is None:
            return
        outbox.put(effect.order)
        if isinstance(effect.order, WorkerRefused):
            log.warning("worker %s is refused: %s", effect.worker, effect.order.failure.error())
            outbox.close()

    def _show(self, effect: Show | HangUp) -> None:
        match effect:
            case Show(view):
                if (outbox := self._readers.get(view.token)) is not None:
                    outbox.put(view)
            case HangUp(token, failure):
                if (outbox := self._readers.get(token)) is not None:
                    outbox.close(failure.error())

    def _answer(self, call: Call, answer: DatasetId | Opened | Failure | ListFiles) -> None:
        waiting = self._waiting.get(call)
        if waiting is None or waiting.done():
            return  # the caller has gone
        if isinstance(answer, Failure):
            waiting.set_exception(answer.error())
        else:
            waiting.set_result(answer)


def _replace(streams: dict[K, Outbox[T]], peer: K, outbox: Outbox[T]) -> None:
    """Let *outbox* be the way to *peer*; the stream that was is over."""
    older = streams.get(peer)
    if older is not outbox:
        streams[peer] = outbox
        if older is not None:
            older.close(Unavailable("a newer stream of the same peer took over"))


def _remove(streams: dict[K, Outbox[T]], peers: set[K], outbox: Outbox[T]) -> list[K]:
    """Forget *outbox*; return the peers that it was the way to."""
    gone = [peer for peer in peers if streams.get(peer) is outbox]
    for peer in gone:
        del streams[peer]
    return gone


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def _list(pattern: FilePattern) -> tuple[str, ...]:
    """List the files of *pattern*, in a thread: storage may be slow."""
    try:
        return await asyncio.to_thread(files.listing, "list_files", pattern)
    except PenstockError:
        raise
    except Exception as exc:
        shown = ", ".join(pattern.patterns)
        raise DatasetError(f"the dispatcher cannot list {shown}: {exc}") from exc
