"""TensorFlow's protocol on a port of its own, without credentials: a few datasets, to be read.

Each dataset, job, client or task that a request names must be of a dataset that was opened by its
id; about all others it is told the same, whether there are such or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from penstock.errors import WrongRole
from penstock.protocol.calls import RegisteredDataset
from penstock.protocol.names import scoped
from penstock.protocol.tensorflow import (
    DisableCompressionReply,
    DisableCompressionRequest,
    FindTaskRequest,
    FoundTask,
    HeartbeatReply,
    HeartbeatRequest,
    IterationReply,
    IterationRequest,
    JobReply,
    JobRequest,
    MetadataReply,
    MetadataRequest,
    ReleaseReply,
    ReleaseRequest,
    RemoveTaskReply,
    RemoveTaskRequest,
    Task,
    TransferServer,
)
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.tensorflow.clients import TensorFlowClients
from penstock_dispatcher.tensorflow.service import Knowledge, TensorFlowService


class OpenedKnowledge(Knowledge, Protocol):
    """Questions to the dispatcher."""

    def tensorflow_addresses(self) -> dict[str, str]:
        """Return where workers answer TensorFlow's clients without credentials, by worker."""
        ...


class OpenedDatasets:
    """Answers of the dispatcher to everybody who connects, about the datasets *named*."""

    def __init__(
        self,
        known: OpenedKnowledge,
        clients: TensorFlowClients,
        clock: Callable[[], float],
        named: tuple[str, ...],
    ) -> None:
        self._known, self._clients, self._named = known, clients, frozenset(named)
        self._service = TensorFlowService(self, clients, clock)

    # --- what its service knows: no other dataset, and no other worker ---

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """See `Knowledge.find_dataset`."""
        self._check(dataset_id)
        return await self._known.find_dataset(dataset_id)

    def live_workers(self) -> Iterable[tuple[str, int]]:
        """See `Knowledge.live_workers`."""
        reached = self._known.tensorflow_addresses()
        return [(name, life) for name, life in self._known.live_workers() if name in reached]

    def is_finished(self, dataset_id: str, job_name: str, repetition: int) -> bool:
        """See `Knowledge.is_finished`."""
        return self._known.is_finished(dataset_id, job_name, repetition)

    # --- what it answers; see `TensorFlowDispatcher` ---

    async def metadata(self, request: MetadataRequest) -> MetadataReply:
        """Return the dataset that is registered under an id."""
        return await self._service.metadata(request)

    async def compression(self, request: DisableCompressionRequest) -> DisableCompressionReply:
        """Return whether elements come compressed."""
        return await self._service.compression(request)

    async def job(self, request: JobRequest) -> JobReply:
        """Find or make a job."""
        return await self._service.job(request)

    async def iteration(self, request: IterationRequest) -> IterationReply:
        """Let a client in to a pass."""
        self._check(self._clients.dataset_of_job(request.job_id))
        return await self._service.iteration(request)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Return the tasks of a client's pass, where it can have their elements."""
        self._check(self._clients.dataset_of_client(request.client_id))
        told = await self._service.heartbeat(request)
        reached = self._known.tensorflow_addresses()
        tasks = (_moved(task, reached) for task in told.tasks if task.worker_address in reached)
        return replace(told, tasks=tuple(tasks))

    async def release(self, request: ReleaseRequest) -> ReleaseReply:
        """Forget a client."""
        self._check(self._clients.dataset_of_client(request.client_id))
        return await self._service.release(request)

    async def remove_task(self, request: RemoveTaskRequest) -> RemoveTaskReply:
        """Return whether a consumer is to give up a task."""
        self._check(self._clients.dataset_of_task(request.task_id))
        return await self._service.remove_task(request)

    async def find_task(self, request: FindTaskRequest) -> FoundTask:
        """Refuse: workers ask at the port that has credentials.

        Raises:
            WrongRole: always.
        """
        raise WrongRole(f"task {request.task_id} is not told here")

    def _check(self, dataset_id: str) -> None:
        if dataset_id not in self._named:
            raise WrongRole(
                f"{dataset_id[:80]!r} is not opened to TensorFlow's clients here, which show no "
                "credentials: start the dispatcher with it among its tensorflow_datasets"
            )


def _moved(task: Task, reached: dict[str, str]) -> Task:
    """Return *task* at the port of its worker that needs no credentials."""
    address = reached[task.worker_address]
    servers = tuple(TransferServer(one.protocol, address) for one in task.transfer_servers)
    return replace(task, worker_address=address, transfer_servers=servers)


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
