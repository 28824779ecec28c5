"""TensorFlow's protocol on a port of its own, without credentials: a few datasets, to be read.

Each dataset, job, client or task that a request names must be of a dataset that was opened by its
id; about all others it is told the same, whether there are such or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from penstock.errors import WrongRole
from penstock.protocol.calls import RegisteredDataset
from penstock.protocol.tensorflow import (
    FindTaskRequest,
    FoundTask,
    HeartbeatReply,
    HeartbeatRequest,
    IterationReply,
    IterationRequest,
    ReleaseReply,
    ReleaseRequest,
    RemoveTaskReply,
    RemoveTaskRequest,
    Task,
    TransferServer,
)
from penstock_dispatcher.tensorflow.clients import TensorFlowClients
from penstock_dispatcher.tensorflow.service import DispatcherKnowledge, TensorFlowService


class OpenedDatasets(TensorFlowService):
    """Answers of the dispatcher to everybody who connects, about the datasets *named*."""

    def __init__(
        self,
        known: DispatcherKnowledge,
        clients: TensorFlowClients,
        clock: Callable[[], float],
        named: tuple[str, ...],
    ) -> None:
        super().__init__(known, clients, clock)
        self._named = frozenset(named)

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """See `TensorFlowService.find_dataset`. It finds no dataset that is not named."""
        self._check(dataset_id)
        return await super().find_dataset(dataset_id)

    def live_workers(self) -> Iterable[tuple[str, int]]:
        """See `TensorFlowService.live_workers`. Only those that need no credentials count."""
        reached = self._known.tensorflow_addresses()
        return [(name, life) for name, life in super().live_workers() if name in reached]

    async def iteration(self, request: IterationRequest) -> IterationReply:
        """Let a client in to a pass."""
        self._check(self._clients.dataset_of_job(request.job_id))
        return await super().iteration(request)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Return the tasks of a client's pass, where it can have their elements."""
        self._check(self._clients.dataset_of_client(request.client_id))
        told = await super().heartbeat(request)
        reached = self._known.tensorflow_addresses()
        tasks = (_moved(task, reached) for task in told.tasks if task.worker_address in reached)
        return replace(told, tasks=tuple(tasks))

    async def release(self, request: ReleaseRequest) -> ReleaseReply:
        """Forget a client."""
        self._check(self._clients.dataset_of_client(request.client_id))
        return await super().release(request)

    async def remove_task(self, request: RemoveTaskRequest) -> RemoveTaskReply:
        """Return whether a consumer is to give up a task."""
        self._check(self._clients.dataset_of_task(request.task_id))
        return await super().remove_task(request)

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
