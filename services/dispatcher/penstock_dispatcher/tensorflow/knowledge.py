"""What TensorFlow's clients are answered from: what a dispatcher knows."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.calls import RegisteredDataset
from penstock.protocol.names import scoped
from penstock_dispatcher.service import DispatcherService


class DispatcherKnowledge:
    """`Knowledge` of a *dispatcher*, and `OpenedKnowledge`."""

    def __init__(self, dispatcher: DispatcherService) -> None:
        self._dispatcher = dispatcher

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """See `Knowledge.find_dataset`."""
        return await self._dispatcher.find_dataset(dataset_id)

    def live_workers(self) -> Iterable[tuple[str, int]]:
        """See `Knowledge.live_workers`."""
        workers = self._dispatcher.core.state.workers
        return [(name, worker.incarnation) for name, worker in workers.items()]

    def tensorflow_addresses(self) -> dict[str, str]:
        """See `OpenedKnowledge.tensorflow_addresses`."""
        workers = self._dispatcher.core.state.workers.items()
        return {name: one.profile.tensorflow for name, one in workers if one.profile.tensorflow}

    def is_finished(self, dataset_id: str, job_name: str, repetition: int) -> bool:
        """See `Knowledge.is_finished`."""
        job = self._dispatcher.core.state.jobs.get(scoped(dataset_id, job_name))
        return job is not None and repetition in job.finished
