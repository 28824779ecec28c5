"""A dispatcher in this process: `serve` as a coroutine, `DispatchServer` as an object."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Self

from penstock.errors import Closed, ConfigError, PenstockError
from penstock.wire.dispatcher import dispatcher_handlers
from penstock.wire.line import listening
from penstock.wire.loop import LoopThread
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.service import Dispatcher

log = logging.getLogger("penstock.dispatcher")

DRAIN = 0.3
"""Seconds that calls under way get at the stop; streams are ended before."""

STOP_WITHIN = 5.0
"""Seconds after which `DispatchServer.stop` waits no longer; it takes far less."""


async def serve(config: DispatcherConfig, ready: Callable[[Dispatcher], None]) -> None:
    """Serve until cancelled; call *ready* once the port is open.

    Raises:
        ConfigError: when the port cannot be had.
    """
    dispatcher = Dispatcher(config)
    line = listening(
        dispatcher_handlers(dispatcher), host=config.host, port=config.port, drain=DRAIN
    )
    async with line as port:
        dispatcher.address = _advertised(config.host, port)
        log.info("without a journal a restart loses all jobs, and every reader ends with an error")
        if config.is_open:
            log.warning(
                "listening on %s:%d: whoever reaches it can run code on the workers, for there is "
                "no authentication",
                config.host,
                port,
            )
        try:
            ready(dispatcher)
            await dispatcher.tick_forever()
        finally:
            dispatcher.close()


def _advertised(host: str, port: int) -> str:
    if host in {"0.0.0.0", "::"}:  # noqa: S104
        host = socket.gethostname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class DispatchServer:
    """A dispatcher in this process, on the background loop that all of Penstock shares here.

    >>> with DispatchServer(DispatcherConfig(port=5050)) as dispatcher:  # doctest: +SKIP
    ...     print(dispatcher.target)

    Raises:
        ConfigError: when the port cannot be had.
    """

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True) -> None:
        self._life: _Life | None = None
        self._stopped = False
        config = DispatcherConfig() if config is None else config
        if not isinstance(config, DispatcherConfig):
            raise ConfigError(f"config must be a DispatcherConfig, not {type(config).__name__}")
        self._config = config
        self._lock = threading.RLock()
        if start:
            self.start()

    @property
    def target(self) -> str:
        """The service address for `distribute`: ``grpc://host:port``."""
        return f"grpc://{self._running.address}"

    @property
    def port(self) -> int:
        """The port that is bound."""
        return int(self._running.address.rpartition(":")[2])

    def start(self) -> None:
        """Start; return when calls are answered. Idempotent while it runs."""
        with self._lock:
            if self._stopped:
                raise Closed("a dispatcher that was stopped cannot be started; make another one")
            if self._life is not None:
                return
            life = _Life(self._config)
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
        """Wait until the dispatcher has stopped; raise what stopped it, if it was not `stop`."""
        if self._life is not None:
            self._life.join()

    @property
    def _running(self) -> _Life:
        if self._life is None:
            raise Closed("this dispatcher has not been started")
        return self._life

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
        if self._life is not None:
            self._life.end()


class _Life:
    """One `serve` on the shared loop, which knows this object and not the server that is lost."""

    def __init__(self, config: DispatcherConfig) -> None:
        self.address = ""
        self._config = config
        self._process = os.getpid()
        self._ready: Future[str] = Future()
        self._over: Future[None] = Future()
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._thread = 0
        self._sharing = LoopThread.shared()
        self._loop = self._sharing.__enter__()
        self._loop.spawn(self._serve())

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
            with suppress(PenstockError, TimeoutError):
                self._over.exception(STOP_WITHIN)
        self._sharing.__exit__(None, None, None)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _serve(self) -> None:
        self._task, self._thread = asyncio.current_task(), threading.get_ident()
        failure: BaseException | None = None
        try:
            if not self._ended:
                await serve(self._config, lambda it: self._ready.set_result(it.address))
        except asyncio.CancelledError:
            pass  # `end` wanted it
        except Exception as exc:
            failure = exc
            if self._ready.done():
                log.exception("the dispatcher at %s stopped", self.address)
        if not self._ready.done():
            self._ready.set_exception(failure or Closed("the dispatcher was stopped at its start"))
        if failure is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(failure)
