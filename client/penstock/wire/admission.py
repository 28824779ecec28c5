"""Lets calls in, or refuses them, before anything of them is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import grpc
import grpc.aio

from penstock.credentials.guard import Guard
from penstock.errors import PenstockError
from penstock.wire.status import abort

TOKEN = "penstock-token"  # noqa: S105  the name of what it is in
"""The metadata of a call in which its caller shows who it is."""


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Has *guard* look at every call of a server, health checks and unknown methods too."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """Return what answers the call, or what refuses it."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # gRPC says that it is not there
        path = handler_call_details.method
        try:
            self._guard.admit(path, _shown(handler_call_details))
        except PenstockError as exc:
            return _refusing(handler, exc, path)
        return handler


def _shown(details: grpc.HandlerCallDetails) -> str:
    for key, value in details.invocation_metadata or ():
        if key == TOKEN:
            return str(value)
    return ""


def _refusing(
    handler: grpc.RpcMethodHandler, exc: PenstockError, path: str
) -> grpc.RpcMethodHandler:
    """Return what takes the place of *handler*, and ends each call with *exc*."""

    async def refuse(_request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        await abort(context, exc, path)

    async def refuse_stream(
        _requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext
    ) -> None:
        await abort(context, exc, path)

    if handler.response_streaming:
        make = (
            grpc.stream_stream_rpc_method_handler
            if handler.request_streaming
            else grpc.unary_stream_rpc_method_handler
        )
        return make(refuse_stream)
    return grpc.unary_unary_rpc_method_handler(refuse)
