"""Registering datasets, and finding them: definitions go to a store, the rest to the core."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeAlias

from penstock.credentials.per_identity import PerIdentity, identity_answered
from penstock.errors import Overloaded, UnknownDataset
from penstock.protocol.calls import OpenIterationRequest, RegisteredDataset, Registration
from penstock.protocol.definition import Definition
from penstock.protocol.types import DatasetId, Versions
from penstock_dispatcher import request_checks
from penstock_dispatcher.core import admission
from penstock_dispatcher.core.events import Call, FindDataset, RegisterDataset
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.work_dir.definition_store import DefinitionStore


class RegisteredBytes:
    """Counts definitions. Definitions from before this process count for no identity.

    Args:
        most: how many bytes they may take together.
        most_each: how many of these one identity may have brought.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most = most
        self._each = PerIdentity(
            most_each, "bytes of pipelines", "max_registered_bytes_per_identity"
        )
        self._kept: dict[DatasetId, dict[str, tuple[int, str | None]]] = {}
        self.total = 0
        """Bytes that are kept."""

    def found(self, dataset: DatasetId, python: str, nbytes: int) -> None:
        """Count a definition that was there before."""
        self._note(dataset, python, nbytes, None)

    def take(self, dataset: DatasetId, python: str, nbytes: int, who: str) -> bool:
        """Count a definition that *who* brings; return False if it is counted already.

        Raises:
            Overloaded: when there is no room for it.
        """
        if python in self._kept.get(dataset, {}):
            return False
        if self.total + nbytes > self._most:
            raise Overloaded(
                f"the pipeline takes {nbytes} bytes, those that are registered here take "
                f"{self.total}, and together they may take {self._most}: wait until those that "
                "nothing uses are forgotten (dataset_gc_timeout), keep large data in files, or "
                "start the dispatcher with a larger limit max_registered_bytes"
            )
        self._each.take(who, nbytes)
        self._note(dataset, python, nbytes, who)
        return True

    def give_back(self, dataset: DatasetId, python: str) -> None:
        """Count a definition no more."""
        variants = self._kept.get(dataset, {})
        nbytes, who = variants.pop(python, (0, None))
        self.total -= nbytes
        if who is not None:
            self._each.give_back(who, nbytes)
        if not variants:
            self._kept.pop(dataset, None)

    def forget(self, datasets: Iterable[DatasetId]) -> None:
        """Count the definitions of *datasets* no more."""
        for dataset in datasets:
            for python in tuple(self._kept.get(dataset, ())):
                self.give_back(dataset, python)

    def _note(self, dataset: DatasetId, python: str, nbytes: int, who: str | None) -> None:
        self._kept.setdefault(dataset, {})[python] = nbytes, who
        self.total += nbytes


Ask: TypeAlias = Callable[[Callable[[Call], RegisterDataset | FindDataset]], Awaitable[Any]]
"""Have the core decide on the event that is made of a call, and return its reply."""


class Registrar:
    """Definitions of at most *largest* bytes, in *store*, and what *core* knows of them.

    Together they take at most *most* bytes, and those of one identity *most_each*.
    """

    def __init__(
        self,
        core: DispatcherCore,
        store: DefinitionStore[Any],
        largest: int,
        most: int,
        most_each: int,
        ask: Ask,
    ) -> None:
        self._core, self._store, self._largest, self._ask = core, store, largest, ask
        self._kept = RegisteredBytes(most, most_each)
        self._keeping: set[asyncio.Future[None]] = set()
        """Definitions that are being written, also for callers that have gone."""
        self._new: dict[tuple[DatasetId, str], asyncio.Future[None]] = {}
        """Definitions among them that are counted for the caller's identity, and not yet known to
        be kept."""
        for dataset, python, nbytes in store.sizes():
            self._kept.found(dataset, python, nbytes)
        self._used: AbstractSet[DatasetId] | None = None

    async def register(
        self, definition: bytes, versions: Versions, registration: Registration | None
    ) -> DatasetId:
        """See `DispatcherApi.register_dataset`."""
        request_checks.check_versions("the client", versions)
        request_checks.check_definition(definition, self._largest)
        if registration is not None:
            request_checks.check_registration(registration)
        known = Definition.from_bytes(definition)
        dataset = DatasetId(known.fingerprint)
        admission.check_registered_python(self._core.ctx, dataset, known.needs)
        await self._keep(dataset, definition, known.needs)
        return await self._register(known, versions, registration)

    async def definition(self, dataset: DatasetId, python: str = "") -> bytes:
        """See `DispatcherApi.get_definition`."""
        definition = await self._store.find(dataset, python)
        if definition is None:
            made_by = ", ".join(self._store.variants(dataset))
            but = f", but as made by Python {made_by} and not {python}" if made_by else ""
            raise UnknownDataset(
                f"dataset {dataset} is not registered at {self._core.ctx.address}{but}: register "
                "it again, as every new reader does"
            )
        return definition

    async def find(self, dataset_id: str) -> RegisteredDataset:
        """See `DispatcherApi.find_dataset`."""
        request_checks.check_dataset_id(dataset_id)
        found: RegisteredDataset = await self._ask(lambda call: FindDataset(call, dataset_id))
        definition = Definition.from_bytes(await self.definition(found.dataset))
        return replace(found, definition=definition.without_code.to_bytes())

    async def ensure(self, request: OpenIterationRequest) -> None:
        """Register the dataset with the core if its definition is here, and only then.

        One that is read by an id was registered before, by whichever Python.

        Raises:
            UnknownDataset: the client registers it, and tries again.
        """
        dataset, dataset_id = request.parameters.dataset, request.parameters.dataset_id
        if dataset_id:
            await self._ask(lambda call: FindDataset(call, dataset_id))
            await self.definition(dataset)
            return
        await self.definition(dataset, request.versions.minor)  # it is there, and whole
        if dataset in self._core.state.datasets:
            return
        for python in self._store.variants(dataset):  # registered before a restart
            known = Definition.from_bytes(await self.definition(dataset, python))
            await self._register(known, request.versions, None)

    def release(self, used: AbstractSet[DatasetId]) -> None:
        """Let all other definitions be removed: that the core has forgotten them is durable."""
        self._used = used

    async def sweep(self) -> None:
        """Remove definitions that were released."""
        if self._used is not None:
            used = self._used | self._core.state.datasets.keys()
            self._kept.forget(await self._store.forget(used))

    async def _keep(self, dataset: DatasetId, definition: bytes, python: str) -> None:
        """Keep *definition* before its dataset is announced: what is has to be found."""
        name = dataset, python
        # The count of a write that fails is given back: till then it counts for nobody else.
        while (before := self._new.get(name)) is not None:
            await asyncio.wait({before})
        new = self._kept.take(dataset, python, len(definition), identity_answered())
        keeping = asyncio.ensure_future(self._store.keep(dataset, definition, python))
        self._keeping.add(keeping)
        if new:
            self._new[name] = keeping

        def over(kept: asyncio.Future[None]) -> None:
            self._keeping.discard(kept)
            if not new:
                return
            del self._new[name]
            if kept.cancelled() or kept.exception() is not None:
                self._kept.give_back(dataset, python)

        keeping.add_done_callback(over)
        # Who hangs up meanwhile ends no write: what is written then is counted, and forgotten.
        await asyncio.shield(keeping)

    async def _register(
        self, known: Definition, versions: Versions, registration: Registration | None
    ) -> DatasetId:
        dataset = DatasetId(known.fingerprint)
        about = (known.providers, known.unsplittable, known.nondeterministic, known.outline.summary)
        await self._ask(
            lambda call: RegisterDataset(
                call, versions, dataset, *about, known.needs, registration, known.unordered
            )
        )
        return dataset
