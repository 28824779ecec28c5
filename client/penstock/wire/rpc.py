"""A remote method as a value, for both ends of a connection.

Both ends use Penstock's dataclasses and raise Penstock's errors. A failure of the connection raises
`Unavailable`, which names the address.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

from penstock.errors import Unavailable
from penstock.wire.codec import ANY, Form, form, within
from penstock.wire.connection import Channel
from penstock.wire.status import Code, Status, abort
from penstock.wire.stream import (
    CallerGoneError,
    Ending,
    Pump,
    RequestInbox,
    asked_to_stop,
    cancellations,
    greet,
    stop_if_asked,
    write,
)
from penstock.wire.tracing import Metadata, calling, serving

Request = TypeVar("Request")
Reply = TypeVar("Reply")

HALF_CLOSE_WAIT = 2.0
"""Seconds that a client has to half-close a stream after its last message."""


@dataclass(frozen=True, slots=True)
class UnaryRpc(Generic[Request, Reply]):
    """A method with one request and one reply."""

    path: str
    request: Form[Request]
    reply: Form[Reply]

    @classmethod
    def of(
        cls, path: str, request: type[Request], reply: type[Reply], largest: int = ANY
    ) -> UnaryRpc[Request, Reply]:
        """Return the method of Penstock's own service at *path*; a request has *largest* bytes."""
        return cls(f"/penstock.v1.{path}", form(request, largest), form(reply))

    async def call(self, channel: Channel, request: Request, timeout: float) -> Reply:
        """Call the method on *channel*; raise Penstock's errors, not gRPC's."""
        with calling(self.path, request) as span:
            metadata = (*channel.metadata, *span.metadata)
            reply = await self._called(channel, request, timeout, metadata)
            span.replied(reply)
            return reply

    async def _called(
        self, channel: Channel, request: Request, timeout: float, metadata: Metadata
    ) -> Reply:
        method, before = channel.inner.unary_unary(self.path), cancellations()
        try:
            data = await method(self.request.encode(request), timeout=timeout, metadata=metadata)
        except grpc.aio.AioRpcError as exc:
            stop_if_asked(before)
            raise Status.of(exc).error(channel.address, self.path, timeout, channel.caller) from exc
        except asyncio.CancelledError:
            stop_if_asked(before)
            raise _hung_up(channel, self.path) from None  # the channel was closed
        stop_if_asked(before)
        return self.reply.decode(data)

    def handler(
        self, fn: Callable[[Request], Awaitable[Reply]], largest: int | None = None
    ) -> grpc.RpcMethodHandler:
        """Serve the method with *fn*; a request may have *largest* bytes."""
        decode = within(self.request.decode, largest)

        async def serve(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            try:
                request = decode(data)
                with serving(self.path, request, context) as span:
                    reply = await fn(request)
                    span.replied(reply)
                    return self.reply.encode(reply)
            except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001  # it crosses
                await abort(context, _not_cancelled(exc, self.path), self.path)

        return grpc.unary_unary_rpc_method_handler(serve)


def never(_reply: Any) -> bool:
    """Return False, so that no reply is the last: the stream ends when its client wants it."""
    return False


@dataclass(frozen=True, slots=True)
class StreamRpc(Generic[Request, Reply]):
    """A method with a stream of requests and one of replies.

    *last* tells which reply is the last one. The client half-closes after it, and the server waits
    for that, because ending a call while the other side writes could lose messages. A server that
    *greets* confirms the call before it has a reply.
    """

    path: str
    request: Form[Request]
    reply: Form[Reply]
    last: Callable[[Reply], bool] = never
    greets: bool = False

    async def call(
        self,
        channel: Channel,
        requests: AsyncIterator[Request],
        greeted: Callable[[], None] | None = None,
    ) -> AsyncGenerator[Reply, None]:
        """Call the method on *channel*; closing this generator cancels the call on the server.

        It also closes *requests* if that is a generator. It calls *greeted* as soon as the server
        has confirmed the call.
        """
        call, before = channel.stream(self.path), cancellations()
        ending = Ending(call)
        pump, messages = Pump(call, requests, self.request.encode), aiter(call)
        try:
            await _greeting(call, greeted)
            async for box in messages:
                reply = self.reply.decode(box.pop())
                if self.last(reply):
                    await pump.half_close()
                yield reply
                del reply  # the next message may come late, and this one may be large
            stop_if_asked(before)
        except grpc.aio.AioRpcError as exc:
            stop_if_asked(before)
            status = await ending.true_status(Status.of(exc))
            if status.code is not Code.OK:
                raise status.error(channel.address, self.path, caller=channel.caller) from exc
        except asyncio.CancelledError:
            stop_if_asked(before)
            # gRPC also raises this if the server or the pump cancelled the call.
            if pump.failure is not None:
                raise pump.failure from None
            raise _hung_up(channel, self.path) from None
        finally:
            channel.calls.discard(call)
            call.cancel()
            await pump.close()
            # Otherwise it stays until the garbage collector runs, and keeps the connection alive.
            await messages.aclose()

    def handler(
        self,
        fn: Callable[[AsyncIterator[Request]], AsyncIterator[Any]],
        largest: int | None = None,
    ) -> grpc.RpcMethodHandler:
        """Serve the method with *fn*, an async generator function, as `UnaryRpc.handler` does."""
        decode = within(self.request.decode, largest)

        async def serve(_received: object, context: grpc.aio.ServicerContext) -> None:
            requests = RequestInbox(context, decode)
            try:
                if self.greets:
                    await greet(context)
                async with aclosing(fn(requests)) as replies:  # type: ignore[type-var]
                    async for reply in replies:
                        await write(context, self.reply.encode(reply))
                if self.last is not never:
                    await requests.wait_half_closed(HALF_CLOSE_WAIT)
            except CallerGoneError as exc:
                raise asyncio.CancelledError from exc
            except (Exception, asyncio.CancelledError) as exc:  # noqa: BLE001  # it crosses
                await abort(context, _not_cancelled(exc, self.path), self.path)
            finally:
                await requests.close()

        return grpc.stream_stream_rpc_method_handler(serve)


async def _greeting(call: grpc.aio.StreamStreamCall, greeted: Callable[[], None] | None) -> None:
    if greeted is None:
        return
    await call.initial_metadata()
    if not call.done():  # otherwise the metadata came with the status, which tells what happened
        greeted()


def _hung_up(channel: Channel, path: str) -> Unavailable:
    return Unavailable(f"{channel.address} hung up during {path}")


def _not_cancelled(exc: Exception | asyncio.CancelledError, path: str) -> Exception:
    """Return the error to send for *exc*; raise *exc* if the call itself was cancelled."""
    if isinstance(exc, Exception):
        return exc
    if asked_to_stop():
        raise exc
    # Something that the service awaited was cancelled. gRPC would send no status for that.
    return Unavailable(f"the service stopped working on {path}")
