"""The definitions of the datasets that a worker runs, as the dispatcher has them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

from penstock.errors import Unavailable
from penstock.protocol.definition import PYTHON, Definition
from penstock.protocol.types import DatasetId
from penstock.wire.dispatcher import DispatcherApi

CACHED = 8
"""The most definitions that are cached: epochs and tasks of a job use the same ones."""

RETRY = 0.2
"""Seconds until a definition is requested again when the dispatcher does not answer."""


@dataclass(frozen=True, slots=True)
class CachedDefinition:
    """A definition as it travels, and why its pipeline is nondeterministic, if it is."""

    data: bytes
    nondeterministic: str


class DefinitionCache:
    """Definitions by dataset, each fetched once; the last few are cached."""

    def __init__(self, dispatcher: DispatcherApi) -> None:
        self._dispatcher = dispatcher
        self._cached: OrderedDict[DatasetId, CachedDefinition] = OrderedDict()
        self._locks: WeakValueDictionary[DatasetId, asyncio.Lock] = WeakValueDictionary()

    @property
    def nbytes(self) -> int:
        """The bytes cached."""
        return sum(len(cached.data) for cached in self._cached.values())

    async def get(self, dataset: DatasetId) -> CachedDefinition:
        """Return a definition; waits however long the dispatcher is away.

        Raises:
            PenstockError: when the dispatcher refuses, or the definition is malformed.
        """
        lock = self._locks.setdefault(dataset, asyncio.Lock())
        async with lock:
            if dataset not in self._cached:
                data = await self._fetch(dataset)
                self._cached[dataset] = CachedDefinition(
                    data, Definition.from_bytes(data).nondeterministic
                )
            self._cached.move_to_end(dataset)
            definition = self._cached[dataset]
            if len(self._cached) > CACHED:
                self._cached.popitem(last=False)
            return definition

    async def _fetch(self, dataset: DatasetId) -> bytes:
        while True:
            try:
                return await self._dispatcher.get_definition(dataset, PYTHON)
            except Unavailable:
                await asyncio.sleep(RETRY)
