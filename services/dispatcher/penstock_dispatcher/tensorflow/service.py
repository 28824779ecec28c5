"""Answers TensorFlow's clients with what the dispatcher knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from uuid import uuid4

from penstock.graph.node import INFINITE
from penstock.protocol.calls import RegisteredDataset
from penstock.protocol.definition import Definition
from penstock.protocol.names import scoped
from penstock.protocol.tensorflow import (
    INFINITE_CARDINALITY,
    SNAPPY,
    UNCOMPRESSED,
    UNKNOWN_CARDINALITY,
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
    Metadata,
    MetadataReply,
    MetadataRequest,
    ReleaseReply,
    ReleaseRequest,
    RemoveTaskReply,
    RemoveTaskRequest,
)
from penstock.protocol.types import Codec
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.tensorflow.client_facts import JobMade
from penstock_dispatcher.tensorflow.clients import TensorFlowClients
from penstock_dispatcher.tensorflow.in_step import CountedRound


class DispatcherKnowledge:
    """Questions to a *dispatcher*."""

    def __init__(self, dispatcher: DispatcherService) -> None:
        self._dispatcher = dispatcher

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """Return the dataset that is registered under an id."""
        return await self._dispatcher.find_dataset(dataset_id)

    def live_workers(self) -> Iterable[tuple[str, int]]:
        """Return the workers that are there, by address and incarnation."""
        workers = self._dispatcher.core.state.workers
        return [(name, worker.incarnation) for name, worker in workers.items()]

    def tensorflow_addresses(self) -> dict[str, str]:
        """Return where workers answer TensorFlow's clients without credentials, by worker."""
        workers = self._dispatcher.core.state.workers.items()
        return {name: one.profile.tensorflow for name, one in workers if one.profile.tensorflow}

    def is_finished(self, dataset_id: str, job_name: str, repetition: int) -> bool:
        """Return whether all of a repetition of a job was read."""
        job = self._dispatcher.core.state.jobs.get(scoped(dataset_id, job_name))
        return job is not None and repetition in job.finished


class TensorFlowService:
    """The half of tf.data service's dispatcher that readers call; see `TensorFlowDispatcher`.

    Workers that ask are told whether a dataset is *opened*: may be read without credentials.
    """

    def __init__(
        self,
        known: DispatcherKnowledge,
        clients: TensorFlowClients,
        clock: Callable[[], float],
        opened: tuple[str, ...] = (),
    ) -> None:
        self._known, self._clients, self._clock, self._opened = known, clients, clock, opened

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """Return the dataset that is registered under an id."""
        return await self._known.find_dataset(dataset_id)

    def live_workers(self) -> Iterable[tuple[str, int]]:
        """Return the workers that clients may get, by address and incarnation."""
        return self._known.live_workers()

    async def metadata(self, request: MetadataRequest) -> MetadataReply:
        """Return the dataset that is registered under an id."""
        found = await self.find_dataset(request.dataset_id)
        spec = b""
        if found.element_spec:
            spec = _structured(found.element_spec)
        endless = Definition.from_bytes(found.definition).cardinality == INFINITE
        count = INFINITE_CARDINALITY if endless else UNKNOWN_CARDINALITY
        packed = SNAPPY if found.codec is Codec.SNAPPY else UNCOMPRESSED
        return MetadataReply(Metadata(spec, packed, count))

    async def compression(self, request: DisableCompressionRequest) -> DisableCompressionReply:
        """Return whether elements come compressed: as was registered, whatever a client asks."""
        found = await self.find_dataset(request.dataset_id)
        if found.codec is Codec.SNAPPY:
            return DisableCompressionReply(compression_disabled_at_runtime=False)
        return DisableCompressionReply(no_compression_to_disable=True)

    async def job(self, request: JobRequest) -> JobReply:
        """Find or make a job."""
        await self.find_dataset(request.dataset_id)
        return JobReply(self._clients.job(request, f"of one client, {uuid4().hex}"))

    async def iteration(self, request: IterationRequest) -> IterationReply:
        """Let a client in to a pass."""
        made = self._clients.enter(request.job_id, request.repetition, self._clock())
        return IterationReply(made)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Return the tasks of a client's pass."""
        workers = self.live_workers()
        return self._clients.tasks(request.client_id, workers, self._finished, self._clock())

    async def release(self, request: ReleaseRequest) -> ReleaseReply:
        """Forget a client."""
        self._clients.release(request.client_id)
        return ReleaseReply()

    async def find_task(self, request: FindTaskRequest) -> FoundTask:
        """Return what a task reads, to the worker that is asked for its elements."""
        task, consumer, asked = request.task_id, request.consumer_index, request.round_index
        if request.is_round is not None and consumer is not None and asked is not None:
            self._clients.count(task, CountedRound(consumer, asked, request.is_round))
        found = self._clients.found(task, consumer, asked)
        codec = (await self._known.find_dataset(found.dataset_id)).codec
        opened = found.dataset_id in self._opened
        return replace(found, snappy=codec is Codec.SNAPPY, opened=opened)

    async def remove_task(self, request: RemoveTaskRequest) -> RemoveTaskReply:
        """Return whether a consumer is to give up a task."""
        live = [address for address, _ in self.live_workers()]
        gone = self._clients.remove(request.task_id, request.consumer_index, request.round, live)
        return RemoveTaskReply(gone)

    def _finished(self, job: JobMade, repetition: int) -> bool:
        return self._known.is_finished(job.dataset_id, job.name, repetition)


def _structured(spec: bytes) -> bytes:
    """Return the element spec of tasks, of which each may end with a short batch."""
    # They load NumPy, which a dispatcher starts without.
    from penstock.analysis.array_spec import Specs, spec_from_bytes  # noqa: PLC0415
    from penstock.frames.tensors import structured  # noqa: PLC0415

    return structured(Specs(*spec_from_bytes(spec)).divided)
