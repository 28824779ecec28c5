"""A reader's transports: one to each worker, for all tasks that it reads from that worker."""

from __future__ import annotations

import asyncio
import logging
import platform
from collections import Counter
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self
from weakref import WeakValueDictionary

from penstock.credentials.caller import LOCAL, Caller
from penstock.errors import DatasetError, PenstockError, Unavailable
from penstock.protocol.nearness import GRPC, Distance, KnownWorker, distance
from penstock.protocol.types import WorkerId
from penstock.runtime import clock
from penstock.runtime.linux import boot_id
from penstock.transport.in_process import in_this_loop
from penstock.transport.registry import KINDS, Transport, TransportKind, choose
from penstock.wire import worker as wire  # now: later the process may have no room to load it

log = logging.getLogger("penstock.reader")


PATIENCE = 10.0
"""Seconds that a reader which insists on a transport waits for a worker on its own host.

After that, the reader asks by gRPC whether the worker lives. If not, the worker was killed, and
other workers continue its tasks."""

ANSWER_WITHIN = 1.0
"""Seconds that the worker has to answer that question."""


SLOW, AVOIDED_FOR = 0.5, 60.0
"""If a transport does not lead to a worker, and that took so many seconds to find out, this process
does not try it again for so long: a firewall may drop what it does not know."""

_avoided: dict[tuple[str, WorkerId, int], float] = {}
"""Until when this process avoids each transport to each incarnation of a worker."""


def _avoid(way: tuple[str, WorkerId, int]) -> None:
    now = clock.now()
    for over in [known for known, until in tuple(_avoided.items()) if until < now]:
        _avoided.pop(over, None)
    _avoided[way] = now + AVOIDED_FOR


@dataclass(frozen=True, slots=True)
class _Opened:
    name: str
    transport: Transport
    incarnation: int
    line: AsyncExitStack


class TransportPool:
    """A reader's transports, by worker; on exit, it closes all of them.

    *wanted* names the transport to use where possible; None takes the nearest. *caller* holds the
    credentials to show to workers.
    """

    def __init__(self, wanted: str | None = None, caller: Caller = LOCAL) -> None:
        self.chosen: dict[str, str] = {}
        """The name of the transport to each worker; it stays readable after the exit."""
        self._wanted, self._caller = wanted, caller
        self._made: dict[WorkerId, _Opened] = {}
        self._making: WeakValueDictionary[WorkerId, asyncio.Lock] = WeakValueDictionary()
        """A lock for each worker, so that a slow worker does not delay the others."""
        self._said: set[str] = set()
        self._refused: dict[tuple[WorkerId, int], float] = {}
        """Since when each worker has failed to answer by the transport insisted on."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        # gRPC's own thread ends with the last channel: nothing here may keep one alive.
        last = self.chosen
        await self.keep(frozenset())
        self.chosen = last

    @property
    def counts(self) -> dict[str, int]:
        """How many workers are read by each transport."""
        return dict(Counter(made.name for made in self._made.values()))

    async def to(self, worker: KnownWorker) -> Transport:
        """Return the transport to this incarnation of *worker*; open one if necessary.

        Raises:
            Unavailable: when the worker cannot be reached now.
            DatasetError: when the worker lives, but not by the transport that this reader
                insists on.
        """
        try:
            return await self._made_to(worker)
        except Unavailable as exc:
            if (kind := self._insisted(worker)) is None:
                raise
            # Outside of the lock, which others may wait for: the worker may never answer.
            if (refusal := await self._refusal(worker, kind, exc)) is exc:
                raise
            raise refusal from exc

    async def _made_to(self, worker: KnownWorker) -> Transport:
        async with self._making.setdefault(worker.address, asyncio.Lock()):
            made = self._made.get(worker.address)
            if made is not None and (
                worker.incarnation not in {0, made.incarnation} or made.transport.broken
            ):
                await self._forget(worker.address).aclose()
                made = None
            if made is None:
                made = self._made[worker.address] = await self._open(worker)
                self.chosen = {**self.chosen, worker.address: made.name}
            return made.transport

    async def keep(self, workers: AbstractSet[WorkerId]) -> None:
        """Close the transports to all workers except *workers*, as workers come and go."""
        async with AsyncExitStack() as closing:  # all of them, also if this is cancelled
            for worker in self._made.keys() - workers:
                closing.push_async_callback(self._forget(worker).aclose)

    def _forget(self, worker: WorkerId) -> AsyncExitStack:
        """Forget the transport to *worker*; return the stack that the caller must close."""
        made = self._made.pop(worker)
        self.chosen = {name: by for name, by in self.chosen.items() if name != worker}
        return made.line

    async def _open(self, worker: KnownWorker) -> _Opened:
        inside = in_this_loop(worker.address, worker.incarnation)
        away = distance(worker.profile, platform.node(), in_process=inside, boot_id=boot_id())
        choice = choose(self._wanted, worker, away, KINDS)
        why_not = [choice.refused] if choice.refused else []
        if (insisted := self._insisted(worker)) is not None:
            opened = await self._opened(insisted, worker)
            self._refused.pop((worker.address, worker.incarnation), None)
            return opened
        *better, last = choice.kinds
        for kind in better:
            way, began = (kind.name, worker.address, worker.incarnation), clock.now()
            if began < _avoided.get(way, 0.0):
                why_not.append(f"{kind.name} did not lead there a moment ago")
                continue
            try:
                opened = await self._opened(kind, worker)
            except (PenstockError, OSError) as exc:
                why_not.append(str(exc))
                if clock.now() > began + SLOW:
                    _avoid(way)
            else:
                self._say(worker, kind, why_not)
                return opened
        self._say(worker, last, why_not)
        return await self._opened(last, worker)

    async def _opened(self, kind: TransportKind, worker: KnownWorker) -> _Opened:
        line = AsyncExitStack()
        transport = await line.enter_async_context(kind.open(worker, self._caller))
        return _Opened(kind.name, transport, worker.incarnation, line)

    def _insisted(self, worker: KnownWorker) -> TransportKind | None:
        """Return the transport that the reader insists on, if any; None for an unknown *worker*."""
        wanted = KINDS.get(self._wanted or "")
        return wanted if wanted is not None and wanted.remedy and worker.incarnation else None

    async def _refusal(
        self, worker: KnownWorker, kind: TransportKind, why: Unavailable
    ) -> PenstockError:
        """Return the error to raise if *worker* cannot be read by *kind*, the only one allowed."""
        since = self._refused.setdefault((worker.address, worker.incarnation), clock.now())
        here, there = boot_id(), worker.profile.boot_id
        near = kind.farthest is Distance.ELSEWHERE or here == there
        possible = near and kind.name in worker.profile.offered
        if possible and (clock.now() < since + PATIENCE or not await self._lives(worker)):
            return why
        return DatasetError(
            f"data_transfer_protocol={kind.name!r} reads no other way, and worker "
            f"{worker.address} cannot be read so: {why} (boot id of its host: "
            f"{there or 'not known'}; of this one: {here or 'not known'}). {kind.remedy}, or read "
            "with data_transfer_protocol=None"
        )

    async def _lives(self, worker: KnownWorker) -> bool:
        return await wire.lives(worker, self._caller, ANSWER_WITHIN)

    def _say(self, worker: KnownWorker, kind: TransportKind, why_not: list[str]) -> None:
        """Log, once for each reason, why the reader uses *kind* and no nearer transport."""
        how = "the nearest transport" if self._wanted is None else f"transport {self._wanted!r}"
        by = "gRPC" if kind.name == GRPC else kind.name
        for why in why_not:
            line = f"worker {worker.address} is not read by {how}, but by {by}: {why}"
            if line not in self._said:
                self._said.add(line)
                log.warning("%s", line)
