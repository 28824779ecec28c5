"""A service as an object in this process: what `DispatchServer` and `WorkerServer` share."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, ClassVar, Self, TypeAlias

from penstock.errors import Closed, PenstockError
from penstock.messages import Failure
from penstock.wire.loop import LoopThread

log = logging.getLogger("penstock.background")

STOP_WITHIN = 5.0
"""Seconds after which `BackgroundServer.stop` waits no longer; it takes far less."""

Serve: TypeAlias = Callable[[Callable[[str], None]], Coroutine[Any, Any, None]]
"""Serve until cancelled; call what is given with the address once calls are answered."""


class BackgroundServer(ABC):
    """A service on the background loop that all of Penstock shares in this process."""

    noun: ClassVar[str]
    """What it is, for messages."""

    def __init__(self, start: bool) -> None:
        self._life: _Life | None = None
        self._stopped = False
        self._lock = threading.RLock()
        if start:
            self.start()

    @abstractmethod
    def _serving(self) -> Serve:
        """Return what serves. It must not know this object, or dropping that would not stop it."""

    @property
    def address(self) -> str:
        """Where it answers, as ``host:port``."""
        if self._life is None:
            raise Closed(f"this {self.noun} has not been started")
        return self._life.address

    def start(self) -> None:
        """Start; return when it answers. Idempotent while it runs.

        Raises:
            Closed: after `stop`.
        """
        with self._lock:
            if self._stopped:
                raise Closed(f"a {self.noun} that was stopped cannot be started; make another one")
            if self._life is not None:
                return
            life = _Life(self.noun, self._serving())
            try:
                life.begin()
            except BaseException:
                life.end()
                raise
            self._life = life

    def stop(self) -> None:
        """Stop, and leave nothing behind. Idempotent, from any thread."""
        with self._lock:
            self._stopped = True
            if self._life is not None:
                self._life.end()

    def join(self) -> None:
        """Wait until it has stopped; raise what stopped it, if it was not `stop`."""
        if self._life is not None:
            self._life.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        # An object whose __init__ failed has nothing to stop.
        if (life := getattr(self, "_life", None)) is not None:
            life.end()


class _Life:
    """One time of serving, which knows this object and not the server that may be dropped."""

    def __init__(self, noun: str, serve: Serve) -> None:
        self.address = ""
        self._noun = noun
        self._process = os.getpid()
        self._ready: Future[str] = Future()
        self._over: Future[None] = Future()
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._thread = 0
        self._sharing = LoopThread.shared()
        self._loop = self._sharing.__enter__()
        self._loop.spawn(self._run(serve))

    def begin(self) -> None:
        """Wait until calls are answered."""
        self.address = self._ready.result()

    def join(self) -> None:
        """Wait for the end; raise what caused it."""
        self._over.result()

    def end(self) -> None:
        """Stop serving, and let go of the loop. Idempotent."""
        if self._ended or self._process != os.getpid():
            return
        self._ended = True
        self._loop.call_soon(self._cancel)
        if threading.get_ident() != self._thread:  # else this is the collector at work
            with suppress(TimeoutError):
                if self._over.exception(STOP_WITHIN) is not None:
                    gc.collect()  # the frames of an error hold on to gRPC, and so to its thread
        self._sharing.__exit__(None, None, None)

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
        except Exception as exc:  # noqa: BLE001  whoever waits gets it
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
