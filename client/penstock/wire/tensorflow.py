"""TensorFlow's own protocol of tf.data service, on the ports of the dispatcher and the workers.

Its clients are graph operations outside of Python. They know only gRPC's status codes. They retry
``UNAVAILABLE`` without end; all other codes end the reading iterator.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, Protocol

import grpc
import grpc.aio

from penstock.errors import PenstockError, Refused, UnknownDataset
from penstock.protocol import tensorflow as said
from penstock.wire._pb import tensorflow_pb2
from penstock.wire.codec import Form, form
from penstock.wire.rpc import UnaryRpc

DISPATCHER, WORKER = "tensorflow.data.DispatcherService", "tensorflow.data.WorkerService"

REGISTER_FROM_PYTHON = (
    "this service runs no TensorFlow graphs, so that distribute() and register_dataset() of "
    "tf.data.experimental.service cannot give it one: register a pipeline from Python with "
    "penstock.service.register_dataset(target, dataset, dataset_id='train'), and read it with "
    "tf.data.experimental.service.from_dataset_id(..., 'train', element_spec=...)"
)

NO_SNAPSHOTS = "this service writes no snapshots"


class TensorFlowDispatcher(Protocol):
    """The methods of a dispatcher for TensorFlow's clients, and for workers that serve them."""

    async def metadata(self, request: said.MetadataRequest) -> said.MetadataReply:
        """Return the dataset that is registered under an id."""
        ...

    async def compression(
        self, request: said.DisableCompressionRequest
    ) -> said.DisableCompressionReply:
        """Return whether elements come compressed."""
        ...

    async def job(self, request: said.JobRequest) -> said.JobReply:
        """Find or make a job."""
        ...

    async def iteration(self, request: said.IterationRequest) -> said.IterationReply:
        """Add a client to a pass."""
        ...

    async def heartbeat(self, request: said.HeartbeatRequest) -> said.HeartbeatReply:
        """Return the tasks of a client's pass."""
        ...

    async def release(self, request: said.ReleaseRequest) -> said.ReleaseReply:
        """Forget a client."""
        ...

    async def remove_task(self, request: said.RemoveTaskRequest) -> said.RemoveTaskReply:
        """Return whether a consumer must give up a task."""
        ...

    async def find_task(self, request: said.FindTaskRequest) -> said.FoundTask:
        """Return the dataset and job that a task reads."""
        ...


ElementSource = Callable[[said.ElementRequest], Awaitable[bytes]]
"""Returns the reply to a request for an element, as bytes."""


def dispatcher_handlers(api: TensorFlowDispatcher) -> tuple[grpc.GenericRpcHandler, ...]:
    """Return handlers that answer TensorFlow's clients, and workers' `find_task`, with *api*."""

    async def version(_: said.VersionRequest) -> said.VersionReply:
        return said.VersionReply()

    async def config(_: said.ServiceConfigRequest) -> said.ServiceConfigReply:
        return said.ServiceConfigReply()

    methods = {
        "GetVersion": _method(said.VersionRequest, said.VersionReply, version),
        "GetDataServiceConfig": _method(said.ServiceConfigRequest, said.ServiceConfigReply, config),
        "GetDataServiceMetadata": _method(said.MetadataRequest, said.MetadataReply, api.metadata),
        "DisableCompressionAtRuntime": _method(
            said.DisableCompressionRequest, said.DisableCompressionReply, api.compression
        ),
        "GetOrCreateJob": _method(said.JobRequest, said.JobReply, api.job),
        "GetOrCreateIteration": _method(said.IterationRequest, said.IterationReply, api.iteration),
        "ClientHeartbeat": _method(said.HeartbeatRequest, said.HeartbeatReply, api.heartbeat),
        "ReleaseIterationClient": _method(said.ReleaseRequest, said.ReleaseReply, api.release),
        "MaybeRemoveTask": _method(said.RemoveTaskRequest, said.RemoveTaskReply, api.remove_task),
        "GetOrRegisterDataset": _refusing(REGISTER_FROM_PYTHON),
        "Snapshot": _refusing(NO_SNAPSHOTS),
        "GetSnapshotStreams": _refusing(NO_SNAPSHOTS),
    }
    ours = {"FindTask": FIND_TASK.handler(api.find_task)}
    return (
        grpc.method_handlers_generic_handler(DISPATCHER, methods),
        grpc.method_handlers_generic_handler("penstock.v1.TensorFlow", ours),
    )


def worker_handlers(elements: ElementSource) -> grpc.GenericRpcHandler:
    """Return the handler that answers requests of TensorFlow's clients for elements."""
    decode = _form(said.ElementRequest).decode
    # A client repeats the same request until the pass ends, so decoded requests are cached. Only
    # requests up to `SHORT` bytes are, which bounds the cache.
    known = functools.lru_cache(maxsize=256)(decode)

    def decoded(data: bytes) -> said.ElementRequest:
        found: said.ElementRequest = (known if len(data) <= SHORT else decode)(data)
        return found

    handler = _handler(decoded, _as_it_is, elements)
    return grpc.method_handlers_generic_handler(WORKER, {"GetElement": handler})


def _as_it_is(reply: bytes) -> bytes:
    return reply


def _form(kind: type) -> Form[Any]:
    return form(kind, package=tensorflow_pb2.DESCRIPTOR.package)


def _method(
    request: type, reply: type, answer: Callable[[Any], Awaitable[Any]]
) -> grpc.RpcMethodHandler:
    return _handler(_form(request).decode, _form(reply).encode, answer)


def _handler(
    decode: Callable[[bytes], Any],
    encode: Callable[[Any], bytes],
    answer: Callable[[Any], Awaitable[Any]],
) -> grpc.RpcMethodHandler:
    async def serve(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        try:
            return encode(await answer(decode(data)))
        except asyncio.CancelledError:
            raise
        except PenstockError as exc:
            await _abort(context, exc)
        except Exception as exc:  # noqa: BLE001  it crosses
            await context.abort(grpc.StatusCode.INTERNAL, f"{type(exc).__name__}: {exc}")
        raise AssertionError("an aborted call goes no further")

    return grpc.unary_unary_rpc_method_handler(serve)


def _refusing(text: str) -> grpc.RpcMethodHandler:
    async def refuse(_data: bytes, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, text)
        raise AssertionError("an aborted call goes no further")

    return grpc.unary_unary_rpc_method_handler(refuse)


async def _abort(context: grpc.aio.ServicerContext, exc: PenstockError) -> NoReturn:
    """End a call with *exc*, as a status that TensorFlow's clients understand."""
    match exc:
        case _ if exc.retryable:
            code = grpc.StatusCode.UNAVAILABLE
        case UnknownDataset():
            code = grpc.StatusCode.NOT_FOUND
        case Refused():
            code = grpc.StatusCode.FAILED_PRECONDITION
        case _:
            # Never OUT_OF_RANGE, which means the end of data, and never a code that is retried.
            code = grpc.StatusCode.INVALID_ARGUMENT
    await context.abort(code, f"{type(exc).__name__}: {exc}"[:LONGEST])
    raise AssertionError("an aborted call goes no further")


SHORT = 64
"""Most bytes of a usual request for an element: some numbers, without a trainer's name."""

LONGEST = 1 << 14
"""Most characters of an error, so that it fits a call's metadata."""


FIND_TASK: UnaryRpc[said.FindTaskRequest, said.FoundTask] = UnaryRpc(
    "/penstock.v1.TensorFlow/FindTask",
    _form(said.FindTaskRequest),
    _form(said.FoundTask),
)

__all__ = ["FIND_TASK", "Form", "TensorFlowDispatcher", "dispatcher_handlers", "worker_handlers"]
