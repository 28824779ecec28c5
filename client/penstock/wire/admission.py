"""Lets calls in, or refuses them, before anything of them is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

import grpc
import grpc.aio

from penstock.credentials.call_counts import CallCounts
from penstock.credentials.roles import Identity
from penstock.errors import Overloaded, PenstockError, Unauthenticated
from penstock.wire.status import abort

TOKEN = "penstock-token"  # noqa: S105  the name of what it is in
"""The metadata of a call in which its caller shows who it is."""

Behaviour: TypeAlias = Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]


class Admits(Protocol):
    """What says who may call: see `penstock.credentials.guard`."""

    def admit(self, path: str, shown: str) -> Identity | None:
        """Return whom the call is from, if that is known; raise what refuses it."""

    @property
    def certificates(self) -> bool:
        """Whether who calls has one."""

    def confirm(self, identity: Identity, names: Iterable[str]) -> None:
        """Raise what refuses *identity* by a connection whose certificate has these names."""


class OpenCalls:
    """The calls that are open, by whom they are from: streams are the most of them.

    Args:
        most: how many one identity may have open.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Count a call of *name* until the end of the block.

        Raises:
            Overloaded: when *name* has as many open as it may.
        """
        if self._open[name] >= self._most:
            raise Overloaded(
                f"{name} has {self._most} calls and streams open here, which is all that one "
                "identity may have: close some, or raise max_calls_per_identity here"
            )
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]


class Admission(grpc.aio.ServerInterceptor):  # type: ignore[misc]  # gRPC has no types
    """Has *guard* look at every call of a server, health checks too, and counts who has how many.

    Args:
        guard: says who may call what.
        most: how many calls and streams one identity may have open.
        counts: where calls are counted.
    """

    def __init__(self, guard: Admits, most: int, counts: CallCounts) -> None:
        self._guard, self._calls, self._counts = guard, OpenCalls(most), counts

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
            identity = self._guard.admit(path, _shown(handler_call_details))
        except PenstockError as exc:
            self._counts.failed[path, type(exc).__name__] += 1
            return _with(handler, _refusing(exc, path))
        if identity is None:
            return handler
        return _with(handler, self._counted(_behaviour(handler), identity, path))

    def _counted(self, answer: Behaviour, identity: Identity, path: str) -> Behaviour:
        """Return what answers as *answer* does, and is counted for as long as that takes."""

        async def counted(request: Any, context: grpc.aio.ServicerContext) -> Any:
            self._counts.opened[path] += 1
            try:
                if self._guard.certificates:
                    self._guard.confirm(identity, _names(context))
                with self._calls.held(identity.name):
                    return await answer(request, context)
            except (Overloaded, Unauthenticated) as exc:
                self._counts.failed[path, type(exc).__name__] += 1
                await abort(context, exc, path)
            except grpc.aio.AbortError:
                self._counts.failed[path, context.code().name] += 1
                raise

        return counted


def _shown(details: grpc.HandlerCallDetails) -> str:
    for key, value in details.invocation_metadata or ():
        if key == TOKEN:
            return str(value)
    return ""


def _names(context: grpc.aio.ServicerContext) -> list[str]:
    """Return the names in the certificate that who calls made the connection with."""
    found = context.auth_context().get("x509_subject_alternative_name", ())
    return [name.decode("utf-8", "replace") for name in found]


def _refusing(exc: PenstockError, path: str) -> Behaviour:
    """Return what ends each call with *exc*."""

    async def refuse(_request: bytes | AsyncIterator[bytes], context: Any) -> bytes:
        await abort(context, exc, path)

    return refuse


def _behaviour(handler: grpc.RpcMethodHandler) -> Behaviour:
    found: Behaviour = handler.stream_stream or handler.unary_unary
    return found


def _with(handler: grpc.RpcMethodHandler, answer: Behaviour) -> grpc.RpcMethodHandler:
    """Return *answer* in the place of *handler*: a stream of one as what it is."""
    if handler.request_streaming:
        return grpc.stream_stream_rpc_method_handler(answer)
    if handler.response_streaming:  # the health protocol has one of these
        return grpc.unary_stream_rpc_method_handler(answer)
    return grpc.unary_unary_rpc_method_handler(answer)
