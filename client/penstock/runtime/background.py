"""A service as an object in this process: the common part of `DispatchServer`, `WorkerServer`."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from penstock.errors import Closed, PenstockError
from penstock.protocol.types import Failure
from penstock.runtime.event_loop import LoopStage, LoopThread, at_exit
from penstock.runtime.interrupts import close_dropped

log = logging.getLogger("penstock.runtime.background")

STOP_WITHIN = 5.0
"""Seconds after which `BackgroundServer.stop` gives up waiting; the end takes far less."""

Serve: TypeAlias = Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]
"""Serves until cancelled; calls its argument with the address when it answers calls."""


@dataclass(frozen=True, slots=True)
class BackgroundDeparture:
    """A clean shutdown: *begin*, called on the service's loop, makes it end within *seconds*."""

    begin: Callable[[], None]
    seconds: float


class BackgroundServer(ABC):
    """A service on a background loop of this process.

    As a context manager it starts, and stops at once at the end of the block.

    Args:
        start: whether to start it now; False leaves that to `start`, or to ``with``.
    """

    noun: ClassVar[str]
    """Its name in messages."""

    def __init__(self, start: bool) -> None:
        self._life: _Life | None = None
        self._stopped = False
        self._lock = threading.RLock()
        if start:
            self.start()

    @abstractmethod
    def _serving(self) -> Serve:
        """Return the function that serves; it must not refer to this object (dropping stops it)."""

    def _departure(self) -> BackgroundDeparture | None:
        """Return the clean shutdown, if it has one. It must not refer to this object either."""
        return None

    @property
    def address(self) -> str:
        """The address of the service, as ``host:port``.

        Raises:
            Closed: when it was not started, or stopped by itself; the cause is the error that
                stopped it.
        """
        if self._life is None:
            raise Closed(f"this {self.noun} has not been started")
        if (failure := self._life.failure) is not None:
            raise Closed(f"this {self.noun} stopped by itself: {failure}") from failure
        return self._life.address

    def start(self) -> None:
        """Start; return when it answers. Idempotent while it runs.

        Raises:
            Closed: after `stop`.
            PenstockError: when it cannot start; see the class.
        """
        with self._lock:
            if self._stopped:
                raise Closed(f"a {self.noun} that was stopped cannot be started; make another one")
            if self._life is not None:
                return
            life = _Life(self.noun, self._serving(), self._departure())
            try:
                life.begin()
            except BaseException:
                life.end()
                raise
            self._life = life

    def stop(self, *, at_once: bool = False) -> None:
        """Stop, and leave nothing behind. Idempotent, from any thread.

        Args:
            at_once: False lets a service that leaves in order do so first, as a worker does for up
                to `WorkerConfig.drain` seconds. Another thread may say True while this one waits.

        >>> from penstock_cluster import DispatchServer
        >>> server = DispatchServer()
        >>> server.stop()
        >>> server.start()
        Traceback (most recent call last):
        penstock.errors.Closed: a dispatcher that was stopped cannot be started; make another one
        """
        if self._life is not None and self._life.foreign:
            return  # without the lock, which a thread of the parent may have held
        self._stopped = True
        if at_once and self._life is not None:
            self._life.hurry()
        with self._lock:
            if self._life is not None:
                self._life.end(in_order=not at_once)

    def join(self) -> None:
        """Wait until the service has stopped.

        Raises:
            PenstockError: when an error stopped it, not `stop`.
        """
        if self._life is not None:
            self._life.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(at_once=True)

    def __del__(self) -> None:
        # An object whose __init__ failed has nothing to stop.
        if (life := getattr(self, "_life", None)) is not None and not life.over:
            close_dropped(life.end, STOP_WITHIN)


class _Life:
    """One time of serving, which refers to this object, not to the server that may be dropped."""

    def __init__(self, noun: str, serve: Serve, departure: BackgroundDeparture | None) -> None:
        self.address = ""
        self._noun, self._departure = noun, departure
        self._process = os.getpid()
        self._ready: Future[str] = Future()
        self._over: Future[None] = Future()
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._thread = 0
        self._sharing = LoopThread.shared()
        self._loop = self._sharing.__enter__()
        _SERVING[self] = None
        self._loop.spawn(self._run(serve)).add_done_callback(self._settle)

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it, if any."""
        return self._over.exception() if self._over.done() else None

    @property
    def over(self) -> bool:
        """Whether it has ended, or is not this process's."""
        return self._ended or self.foreign

    @property
    def foreign(self) -> bool:
        """Whether this is a fork of the process in which it serves."""
        return self._process != os.getpid()

    def begin(self) -> None:
        """Wait until calls are answered."""
        self.address = self._ready.result()

    def join(self) -> None:
        """Wait for the end; raise what caused it."""
        self._over.result()

    def hurry(self) -> None:
        """Stop serving at once, and do not wait."""
        if not self.over:
            self._loop.call_soon(self._cancel)

    def end(self, *, in_order: bool = False) -> None:
        """Stop serving, and release the loop. Idempotent."""
        if self.over:
            return
        elsewhere = threading.get_ident() != self._thread
        if in_order and elsewhere and self._departure is not None and self._ready.done():
            self._loop.call_soon(self._departure.begin)
            self._await_end(self._departure.seconds + STOP_WITHIN)
        self._ended = True
        _SERVING.pop(self, None)
        self._loop.call_soon(self._cancel)
        if elsewhere and self._await_end(STOP_WITHIN):
            gc.collect()  # the frames of an error hold on to gRPC, and so to its thread
        self._sharing.__exit__(None, None, None)

    def _await_end(self, seconds: float) -> bool:
        """Wait for the end; return whether it came with an error."""
        try:
            return self._over.exception(seconds) is not None
        except TimeoutError:
            return False

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, serve: Serve) -> None:
        self._task, self._thread = asyncio.current_task(), threading.get_ident()
        failure: BaseException | None = None
        try:
            if not self._ended:
                await serve(self._ready.set_result)
        except asyncio.CancelledError:
            pass  # `end` wanted it
        except PenstockError as exc:
            failure = Failure.of(exc).error()  # without the frames that it came through
        except Exception as exc:  # noqa: BLE001  waits raise it
            failure = exc
        if failure is not None and self._ready.done():
            log.error("the %s at %s stopped", self._noun, self.address, exc_info=failure)
        if not self._ready.done():
            stopped = Closed(f"the {self._noun} was stopped while it started")
            self._ready.set_exception(failure or stopped)
        if failure is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(failure)

    def _settle(self, _running: Future[None]) -> None:
        """Release threads that wait for a start or an end, as a cancelled start never comes."""
        if not self._ready.done():
            self._ready.set_exception(
                Closed(f"the background loop was closed while the {self._noun} started")
            )
        if not self._over.done():
            self._over.set_result(None)


_SERVING: dict[_Life, None] = {}
"""All that serve, in the order of their start."""


def _end_all() -> None:
    """End all services that still run when the process ends, the last started first."""
    for life in reversed(list(_SERVING)):
        life.end()


at_exit(LoopStage.SERVERS, _end_all)
