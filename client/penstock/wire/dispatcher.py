"""The dispatcher's gRPC methods, with Penstock's own types for requests and replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeAlias

import grpc

from penstock.protocol.calls import (
    DrainHostReply,
    DrainHostRequest,
    DrainReply,
    DrainRequest,
    FindDatasetRequest,
    GetDefinitionReply,
    GetDefinitionRequest,
    OpenIterationReply,
    OpenIterationRequest,
    PreemptionReport,
    PreemptionVerdict,
    RegisterDatasetReply,
    RegisterDatasetRequest,
    RegisteredDataset,
    Registration,
    SetWeightsReply,
    SetWeightsRequest,
    StatusReply,
    StatusRequest,
)
from penstock.protocol.control import (
    ReaderHeartbeat,
    ReaderView,
    WorkerCommand,
    WorkerEvent,
    WorkerRefused,
)
from penstock.protocol.recording import (
    CancelRecordingRequest,
    FindRecordingRequest,
    RecordingReply,
    StartRecordingRequest,
)
from penstock.protocol.types import DatasetId, Versions, WorkerId
from penstock.wire.codec import form
from penstock.wire.connection import Channel
from penstock.wire.recordings import CANCEL, FIND, START
from penstock.wire.rpc import StreamRpc, UnaryRpc


class DispatcherApi(Protocol):
    """The methods of a dispatcher, in this process or over the network.

    `DispatcherClient` calls them over the network. The service's own class implements them, so a
    test can give it to a worker or a reader without a socket.
    """

    async def register_dataset(
        self, definition: bytes, versions: Versions, registration: Registration | None = None
    ) -> DatasetId:
        """Register *definition* and return its fingerprint; equal definitions are stored once.

        With a *registration*, others can read the dataset by an id.
        """
        ...

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """Return the dataset that is registered under *dataset_id*."""
        ...

    async def get_definition(self, dataset: DatasetId, python: str = "") -> bytes:
        """Return the definition of *dataset*, in a form that Python *python* (3.x) can load."""
        ...

    async def open_iteration(self, request: OpenIterationRequest) -> OpenIterationReply:
        """Find or make the job and the iteration that *request* asks for."""
        ...

    async def drain(self, worker: WorkerId) -> None:
        """Drain *worker*: other workers continue its tasks."""
        ...

    async def drain_host(self, boot_id: str) -> tuple[WorkerId, ...]:
        """Drain the workers of a host, if other workers exist; return the drained workers."""
        ...

    async def set_weights(self, job_name: str, weights: Mapping[str, float], at: int | None) -> int:
        """Change the weights of a job's mixture; return the turn from which they hold."""
        ...

    async def status(self) -> bytes:
        """Return the dispatcher's counters as JSON."""
        ...

    def worker_control(self, signals: AsyncIterator[WorkerEvent]) -> AsyncIterator[WorkerCommand]:
        """Receive a worker's events for as long as it lives; yield commands to it."""
        ...

    def reader_control(
        self, heartbeats: AsyncIterator[ReaderHeartbeat]
    ) -> AsyncIterator[ReaderView]:
        """Receive a reader's heartbeats for as long as it lives; yield views for it."""
        ...


Seal: TypeAlias = Callable[[DatasetId, bytes], bytes]
"""Returns the seal of a dataset's definition; empty if there is no key for it."""

CheckSeal: TypeAlias = Callable[[DatasetId, bytes, bytes], None]
"""Raises `TamperedDefinition` if a dataset's definition does not have the right seal."""


class DispatcherClient:
    """Calls the dispatcher at the other end of *channel*; a unary call waits *timeout* seconds.

    *check* verifies the seals of definitions; processes that run definitions need it.
    """

    def __init__(
        self, channel: Channel, *, timeout: float = 5.0, check: CheckSeal | None = None
    ) -> None:
        self._channel = channel
        self._timeout = timeout
        self._check = check

    async def register_dataset(
        self, definition: bytes, versions: Versions, registration: Registration | None = None
    ) -> DatasetId:
        """See `DispatcherApi.register_dataset`."""
        request = RegisterDatasetRequest(definition, versions, registration)
        return (await REGISTER_DATASET.call(self._channel, request, self._timeout)).dataset

    async def find_dataset(self, dataset_id: str) -> RegisteredDataset:
        """See `DispatcherApi.find_dataset`."""
        return await FIND_DATASET.call(self._channel, FindDatasetRequest(dataset_id), self._timeout)

    async def get_definition(self, dataset: DatasetId, python: str = "") -> bytes:
        """See `DispatcherApi.get_definition`."""
        request = GetDefinitionRequest(dataset, python)
        reply = await GET_DEFINITION.call(self._channel, request, self._timeout)
        if self._check is not None:
            self._check(dataset, reply.definition, reply.seal)
        return reply.definition

    async def open_iteration(self, request: OpenIterationRequest) -> OpenIterationReply:
        """See `DispatcherApi.open_iteration`."""
        return await OPEN_ITERATION.call(self._channel, request, self._timeout)

    async def drain(self, worker: WorkerId) -> None:
        """See `DispatcherApi.drain`."""
        await DRAIN.call(self._channel, DrainRequest(worker), self._timeout)

    async def drain_host(self, boot_id: str) -> tuple[WorkerId, ...]:
        """See `DispatcherApi.drain_host`."""
        told = await DRAIN_HOST.call(self._channel, DrainHostRequest(boot_id), self._timeout)
        return told.workers

    async def set_weights(self, job_name: str, weights: Mapping[str, float], at: int | None) -> int:
        """See `DispatcherApi.set_weights`."""
        request = SetWeightsRequest(job_name, weights, at)
        return (await SET_WEIGHTS.call(self._channel, request, self._timeout)).begin

    async def status(self) -> bytes:
        """See `DispatcherApi.status`."""
        return (await STATUS.call(self._channel, StatusRequest(), self._timeout)).stats

    async def start_recording(self, request: StartRecordingRequest) -> RecordingReply:
        """See `RecordingsApi.start`."""
        return await START.call(self._channel, request, self._timeout)

    async def find_recording(self, save_id: str) -> RecordingReply:
        """See `RecordingsApi.find`."""
        return await FIND.call(self._channel, FindRecordingRequest(save_id), self._timeout)

    async def cancel_recording(self, save_id: str) -> RecordingReply:
        """See `RecordingsApi.cancel`."""
        return await CANCEL.call(self._channel, CancelRecordingRequest(save_id), self._timeout)

    def worker_control(self, signals: AsyncIterator[WorkerEvent]) -> AsyncIterator[WorkerCommand]:
        """See `DispatcherApi.worker_control`."""
        return WORKER_CONTROL.call(self._channel, signals)

    def reader_control(
        self, heartbeats: AsyncIterator[ReaderHeartbeat]
    ) -> AsyncIterator[ReaderView]:
        """See `DispatcherApi.reader_control`."""
        return READER_CONTROL.call(self._channel, heartbeats)


def dispatcher_handlers(
    api: DispatcherApi,
    seal: Seal | None = None,
    opening: Callable[[], AbstractContextManager[None]] = nullcontext,
    largest: int | None = None,
) -> grpc.GenericRpcHandler:
    """Return handlers that answer the dispatcher's methods with *api* and *seal* definitions.

    The handlers register datasets and open jobs inside *opening*, which may refuse by raising an
    error. A heartbeat, or a request with a saved state, may have *largest* bytes.
    """

    async def register_dataset(request: RegisterDatasetRequest) -> RegisterDatasetReply:
        asked = (request.definition, request.versions, request.registration)
        with opening():
            return RegisterDatasetReply(await api.register_dataset(*asked))

    async def open_iteration(request: OpenIterationRequest) -> OpenIterationReply:
        with opening():
            return await api.open_iteration(request)

    async def find_dataset(request: FindDatasetRequest) -> RegisteredDataset:
        return await api.find_dataset(request.dataset_id)

    async def get_definition(request: GetDefinitionRequest) -> GetDefinitionReply:
        found = await api.get_definition(request.dataset, request.python)
        return GetDefinitionReply(found, b"" if seal is None else seal(request.dataset, found))

    async def drain(request: DrainRequest) -> DrainReply:
        await api.drain(request.worker)
        return DrainReply()

    async def drain_host(request: DrainHostRequest) -> DrainHostReply:
        return DrainHostReply(await api.drain_host(request.boot_id))

    async def set_weights(request: SetWeightsRequest) -> SetWeightsReply:
        asked = (request.job_name, request.weights, request.at)
        return SetWeightsReply(await api.set_weights(*asked))

    async def status(_request: StatusRequest) -> StatusReply:
        return StatusReply(await api.status())

    methods = {
        "RegisterDataset": REGISTER_DATASET.handler(register_dataset),
        "FindDataset": FIND_DATASET.handler(find_dataset),
        "GetDefinition": GET_DEFINITION.handler(get_definition),
        "OpenIteration": OPEN_ITERATION.handler(open_iteration, largest),
        "Drain": DRAIN.handler(drain),
        "DrainHost": DRAIN_HOST.handler(drain_host),
        "SetWeights": SET_WEIGHTS.handler(set_weights),
        "Status": STATUS.handler(status),
        "WorkerControl": WORKER_CONTROL.handler(api.worker_control, largest),
        "ReaderControl": READER_CONTROL.handler(api.reader_control, largest),
    }
    return grpc.method_handlers_generic_handler("penstock.v1.Dispatcher", methods)


def preemption_handlers(
    decide: Callable[[PreemptionReport], PreemptionVerdict],
) -> grpc.GenericRpcHandler:
    """Answer reports with what *decide* returns."""

    async def report(said: PreemptionReport) -> PreemptionVerdict:
        return decide(said)

    return grpc.method_handlers_generic_handler(
        "penstock.v1.Preemption", {"Report": REPORT.handler(report)}
    )


_SMALL = 1 << 16
"""Most bytes of a request that only names something."""

REGISTER_DATASET = UnaryRpc.of(
    "Dispatcher/RegisterDataset", RegisterDatasetRequest, RegisterDatasetReply
)
FIND_DATASET = UnaryRpc.of("Dispatcher/FindDataset", FindDatasetRequest, RegisteredDataset, _SMALL)
GET_DEFINITION = UnaryRpc.of(
    "Dispatcher/GetDefinition", GetDefinitionRequest, GetDefinitionReply, _SMALL
)
OPEN_ITERATION = UnaryRpc.of("Dispatcher/OpenIteration", OpenIterationRequest, OpenIterationReply)
DRAIN = UnaryRpc.of("Dispatcher/Drain", DrainRequest, DrainReply, _SMALL)
DRAIN_HOST = UnaryRpc.of("Dispatcher/DrainHost", DrainHostRequest, DrainHostReply, _SMALL)
SET_WEIGHTS = UnaryRpc.of("Dispatcher/SetWeights", SetWeightsRequest, SetWeightsReply, 1 << 20)
STATUS = UnaryRpc.of("Dispatcher/Status", StatusRequest, StatusReply, _SMALL)
REPORT = UnaryRpc.of("Preemption/Report", PreemptionReport, PreemptionVerdict, _SMALL)
WORKER_CONTROL: StreamRpc[WorkerEvent, WorkerCommand] = StreamRpc(
    "/penstock.v1.Dispatcher/WorkerControl",
    form(WorkerEvent, name="WorkerEvent"),
    form(WorkerCommand, name="WorkerCommand"),
    last=lambda order: isinstance(order, WorkerRefused),
)
READER_CONTROL: StreamRpc[ReaderHeartbeat, ReaderView] = StreamRpc(
    "/penstock.v1.Dispatcher/ReaderControl", form(ReaderHeartbeat), form(ReaderView)
)
