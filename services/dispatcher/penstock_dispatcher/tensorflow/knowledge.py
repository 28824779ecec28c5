"""What the dispatcher knows of the mesh, as TensorFlow's clients are told it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from penstock.protocol.registration import RegisteredDataset, scoped
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.core.stats import DispatcherStats


class MeshKnowledge:
    """Satisfies `Knowledge` and `OpenedKnowledge`.

    *find* is how datasets are found by their ids, *named* what is read without credentials.
    """

    def __init__(
        self,
        find: Callable[[str], Awaitable[RegisteredDataset]],
        core: DispatcherCore,
        named: tuple[str, ...],
    ) -> None:
        self._find, self._core, self._named = find, core, named
        self.opened_at = ""
        """Where that is read; empty until there is such a port."""

    def told(self, stats: DispatcherStats) -> DispatcherStats:
        """Return *stats* with what is read without credentials, and where."""
        return replace(stats, tensorflow=self.opened_at, tensorflow_datasets=self._named)

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """See `Knowledge.find_dataset`."""
        return await self._find(dataset_id)

    def live_workers(self) -> Iterable[tuple[str, int]]:
        """See `Knowledge.live_workers`."""
        return [(name, one.incarnation) for name, one in self._core.state.workers.items()]

    def tensorflow_addresses(self) -> dict[str, str]:
        """See `OpenedKnowledge.tensorflow_addresses`."""
        workers = self._core.state.workers.items()
        return {name: one.profile.tensorflow for name, one in workers if one.profile.tensorflow}

    def is_finished(self, dataset_id: str, job_name: str, repetition: int) -> bool:
        """See `Knowledge.is_finished`."""
        job = self._core.state.jobs.get(scoped(dataset_id, job_name))
        return job is not None and repetition in job.finished
