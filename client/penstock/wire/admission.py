"""Admits or refuses calls before the service reads any of their data."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio

from penstock.credentials.access import Identity
from penstock.credentials.guard import Guard
from penstock.credentials.per_identity import CallCounts, PerIdentity, answer_to
from penstock.errors import Overloaded, PenstockError, Unauthenticated
from penstock.wire.connections import Connections, peer_named
from penstock.wire.status import abort

TOKEN = "penstock-token"  # noqa: S105  the name of what it is in
"""The metadata of a call that holds the caller's token."""

Behaviour: TypeAlias = Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Asks *guard* about every call of a server, health checks included, and counts open calls.

    It counts calls by the caller's identity, or by the caller's address if there is none.

    Args:
        guard: decides who may call what.
        most: how many calls and streams one identity may have open.
        counts: counts the calls.
        connections: learns the owner of each connection.
    """

    def __init__(
        self, guard: Guard, most: int, counts: CallCounts, connections: Connections
    ) -> None:
        self._guard, self._counts, self._connections = guard, counts, connections
        self._calls = PerIdentity(most, "calls and streams open", "max_calls_per_identity")

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        """Return the handler that answers the call, or one that refuses it."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None  # gRPC answers that the method does not exist
        path = handler_call_details.method
        try:
            identity = self._guard.admit(path, _shown(handler_call_details))
        except PenstockError as exc:
            self._counts.failed[path, type(exc).__name__] += 1
            return _with(handler, _refusing(exc, path))
        return _with(handler, self._counted(handler, identity, path))

    def _counted(
        self, handler: grpc.RpcMethodHandler, identity: Identity | None, path: str
    ) -> Behaviour:
        """Return a handler that answers as *handler* and counts the call until its end."""
        answer = _behaviour(handler)

        async def counted(request: Any, context: grpc.aio.ServicerContext) -> Any:
            if identity is not None:  # else it is a health check, or the like
                self._counts.opened[path] += 1
            try:
                self._hold(identity, context)
                return await answer(request, context)
            except (Overloaded, Unauthenticated) as exc:
                self._counts.failed[path, type(exc).__name__] += 1
                await abort(context, exc, path)
            except grpc.aio.AbortError:
                self._counts.failed[path, context.code().name] += 1
                raise

        return counted

    def _hold(self, identity: Identity | None, context: grpc.aio.ServicerContext) -> None:
        """Count the call until it ends, and note the owner of its connection.

        Raises:
            PenstockError: when the call is refused.
        """
        if identity is not None and self._guard.certificates:
            self._guard.confirm(identity, _names(context))
        peer = peer_named(context.peer())
        name = identity.name if identity is not None and identity.proven else peer[0]
        if identity is not None:
            # The connection of a caller without identity counts for the caller's address.
            self._connections.claim(peer, name, proven=identity.proven)
        self._calls.take(name)
        # A call ends when its answer is sent. If the caller does not read, the call stays open,
        # and gRPC frees the answer only with the connection.
        context.add_done_callback(lambda _: self._calls.give_back(name))
        answer_to(name)


def _shown(details: grpc.HandlerCallDetails) -> str:
    for key, value in details.invocation_metadata or ():
        if key == TOKEN:
            return str(value)
    return ""


def _names(context: grpc.aio.ServicerContext) -> list[str]:
    """Return the names in the certificate with which the caller connected."""
    found = context.auth_context().get("x509_subject_alternative_name", ())
    return [name.decode("utf-8", "replace") for name in found]


def _refusing(exc: PenstockError, path: str) -> Behaviour:
    """Return a handler that ends each call with *exc*."""

    async def refuse(_request: bytes | AsyncIterator[bytes], context: Any) -> bytes:
        await abort(context, exc, path)

    return refuse


def _behaviour(handler: grpc.RpcMethodHandler) -> Behaviour:
    found: Behaviour = handler.stream_stream or handler.unary_unary or handler.unary_stream
    return found


def _with(handler: grpc.RpcMethodHandler, answer: Behaviour) -> grpc.RpcMethodHandler:
    """Return *answer* as a handler of the same kind as *handler*."""
    forms = handler.request_deserializer, handler.response_serializer
    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(answer, *forms)
    if handler.response_streaming:  # the health protocol has one of these
        return grpc.unary_stream_rpc_method_handler(answer, *forms)
    return grpc.unary_unary_rpc_method_handler(answer, *forms)
