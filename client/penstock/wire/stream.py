"""The two directions of a stream, and its end: requests are pumped, received, and ended apart.

gRPC ties the fate of a call to each read and write: a cancelled one cancels the call, a failed one
hides why it ended. The three classes here keep these apart, so that the code around them may wait
with timeouts and end when it likes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast
from urllib.parse import unquote

import grpc
import grpc.aio

from penstock.runtime.address import is_of_this_host
from penstock.wire.status import Code, Status

T = TypeVar("T")
Request = TypeVar("Request")

STATUS_WAIT = 1.0
"""Seconds that the status of a call that is over may still be under way."""

_INBOX = 256
"""Requests that are read ahead of need."""


class Pump:
    """Writes a call's requests, on the calling side, and closes their iterator in the end.

    When the call is over it just stops: the reading side learns why.
    """

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall,
        requests: AsyncIterator[Any],
        encode: Callable[[Any], bytes],
    ) -> None:
        self.failure: Exception | None = None
        """The error that the caller's iterator raised, because of which the call was cancelled."""
        self._call = call
        self._requests = requests
        self._encode = encode
        self._asking = True
        self._over = False
        self._task = asyncio.create_task(self._run(), name="requests")

    async def half_close(self) -> None:
        """Half-close after the current write."""
        self._over = True
        if self._asking:  # to cancel a write, or the half-close itself, would cancel the call
            self._task.cancel()
        await _done(self._task)

    async def close(self) -> None:
        """Stop at once. The call must be over, or be cancelled before."""
        self._task.cancel()
        await _done(self._task)
        del self._task  # its traceback leads back here, and keeps the channel's thread alive

    async def _run(self) -> None:
        try:
            await self._write_all()
            await self._call.done_writing()
        except (grpc.aio.AioRpcError, grpc.aio.InternalError, asyncio.InvalidStateError):
            pass  # the call is over
        except Exception as exc:  # noqa: BLE001  # the caller's iterator failed: the caller gets it
            self.failure = exc
            self._call.cancel()
        finally:
            close = getattr(self._requests, "aclose", None)
            if close is not None:
                await close()

    async def _write_all(self) -> None:
        try:
            async for request in self._requests:
                self._asking = False
                await self._call.write(self._encode(request))
                if self._over:
                    return
                self._asking = True
        except asyncio.CancelledError:
            if not (self._over and self._asking):
                raise
        finally:
            self._asking = False


class RequestInbox(Generic[Request]):
    """The requests of a call, on the serving side, read ahead of need.

    Waiting for the next one may be cancelled: nothing is lost by it.
    """

    def __init__(
        self, context: grpc.aio.ServicerContext, decode: Callable[[bytes], Request]
    ) -> None:
        self.from_this_host = is_peer_of_this_host(context)
        """Whether the caller is on this host."""
        self._context = context
        self._decode = decode
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue(_INBOX)
        self._ended = False
        self._failure: Exception | None = None
        self._task = asyncio.create_task(self._read(), name="inbox")

    def __aiter__(self) -> RequestInbox[Request]:
        return self

    async def __anext__(self) -> Request:
        data = await self._next()
        if data is None:
            raise StopAsyncIteration
        return self._decode(data)

    async def wait_half_closed(self, timeout: float) -> None:
        """Wait until the caller writes no more, or for *timeout* seconds; requests are dropped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while await self._next() is not None:
                    pass

    async def close(self) -> None:
        """Read no more."""
        self._task.cancel()
        await _done(self._task)
        del self._task  # its traceback leads back here, and keeps the server's thread alive

    async def _next(self) -> bytes | None:
        if self._ended:
            return None
        data = await self._arrived.get()
        self._ended = data is None
        if data is None and self._failure is not None:
            raise self._failure
        return data

    async def _read(self) -> None:
        # The end is always told: by the caller, or by gRPC when the call is over.
        try:
            while (data := await self._context.read()) is not grpc.aio.EOF:
                await self._arrived.put(data)
        except grpc.aio.BaseError:
            pass
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
        except Exception as exc:  # noqa: BLE001  the wait for the next one must raise it
            self._failure = exc
        await self._arrived.put(None)


class Ending:
    """How a call ended, as the far side reported it.

    A write that fails because the call just ended makes gRPC report an internal error instead,
    before or after the status arrives.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:
        self._told: Status | None = None
        self._arrived = asyncio.Event()
        call.add_done_callback(self._note)

    async def true_status(self, seen: Status) -> Status:
        """Return the far side's status, given the one *seen*."""
        if self._told is None and _from_failed_write(seen):
            with suppress(TimeoutError):
                async with asyncio.timeout(STATUS_WAIT):
                    await self._arrived.wait()
        return self._told or seen

    def _note(self, call: grpc.aio.StreamStreamCall) -> None:
        status = Status(_now(call.code()), _now(call.details()), _now(call.trailing_metadata()))
        if not _from_failed_write(status):
            self._told = status
            self._arrived.set()


class CallerGoneError(Exception):
    """The caller does not read any more; gRPC is about to cancel the call."""


async def greet(context: grpc.aio.ServicerContext) -> None:
    """Let the caller know that its call has arrived.

    Raises:
        CallerGoneError: when the caller is gone.
    """
    try:
        await context.send_initial_metadata(())
    except grpc.aio.InternalError as exc:
        raise CallerGoneError from exc


def from_this_host(requests: AsyncIterator[Any]) -> bool:
    """Return whether *requests* are of a call from this host."""
    return isinstance(requests, RequestInbox) and requests.from_this_host


def is_peer_of_this_host(context: grpc.aio.ServicerContext) -> bool:
    """Return whether who calls is on this host, as ``ipv4:127.0.0.1:42`` is, or ``unix:``."""
    kind, _, address = unquote(context.peer()).partition(":")
    return kind == "unix" or is_of_this_host(address.rpartition(":")[0].strip("[]"))


async def write(context: grpc.aio.ServicerContext, message: bytes) -> None:
    """Send *message* to the caller.

    Raises:
        CallerGoneError: when there is none.
    """
    try:
        await context.write(message)
    except grpc.aio.InternalError as exc:
        raise CallerGoneError from exc


def cancellations() -> int:
    """Return how often this task was cancelled."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def asked_to_stop(before: int = 0) -> bool:
    """Return whether this task was cancelled more often than *before*.

    If not, a `CancelledError` came from elsewhere. If so, it may be missing: gRPC swallows one that
    comes as a call fails, and raises that failure.
    """
    return cancellations() > before


async def _done(task: asyncio.Task[None]) -> None:
    """Wait until *task* is done, however it ends."""
    # Since 3.14 `asyncio.wait` refers to the task that waits: if that is cancelled, its traceback
    # leads back to it, and keeps the call and the channel's thread until a collector comes by.
    over = asyncio.Event()
    task.add_done_callback(lambda _: over.set())
    await over.wait()


def stop_if_asked(before: int) -> None:
    """Raise what `asked_to_stop` says may be missing."""
    if asked_to_stop(before):
        raise asyncio.CancelledError


def _from_failed_write(status: Status) -> bool:
    return status.code is Code.INTERNAL and status.details == "Internal error from Core"


def _now(known: Coroutine[Any, Any, T]) -> T:
    """Return what *known* returns without waiting: the status is there."""
    try:
        known.send(None)
    except StopIteration as result:
        return cast("T", result.value)
    raise AssertionError("gRPC says that a call is done, but has no status of it")
