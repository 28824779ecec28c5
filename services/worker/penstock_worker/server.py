"""A worker in this process: `serve` as a coroutine, `WorkerServer` as an object."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import platform
import socket
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import suppress
from importlib import metadata
from types import TracebackType
from typing import Self

from penstock.errors import Closed, ConfigError, PenstockError, Unavailable
from penstock.messages import PROTOCOL, Failure, ReadRequest, Versions
from penstock.numbers import WorkerId
from penstock.wire.allocator import tune
from penstock.wire.dispatcher import DispatcherClient
from penstock.wire.line import connect, listening
from penstock.wire.loop import LoopThread
from penstock.wire.worker import worker_handlers
from penstock_worker.config import PORT, WorkerConfig
from penstock_worker.control import Control, Outbox
from penstock_worker.delivery.runs import ActiveRuns
from penstock_worker.runner.pool import RunnerPool
from penstock_worker.service import Worker

log = logging.getLogger("penstock.worker")

STOP_WITHIN = 5.0
"""Seconds after which `WorkerServer.stop` waits no longer; it takes far less."""


async def serve(config: WorkerConfig, ready: Callable[[Worker], None]) -> None:
    """Serve until cancelled; call *ready* once the dispatcher knows this worker.

    Raises:
        ConfigError: when there is no dispatcher's address, or the port cannot be had.
        Unavailable: when the dispatcher does not answer within `WorkerConfig.dispatcher_timeout`.
        PenstockError: when the dispatcher refuses this worker.
    """
    if config.dispatcher_address is None:
        raise ConfigError("a worker needs dispatcher_address, as in 'host:port'")
    tune()
    door = Door()
    line = listening(worker_handlers(door), host=config.host, port=config.port, drain=config.drain)
    pool = RunnerPool(buffer_bytes=config.buffer_bytes, max_element_bytes=config.max_element_bytes)
    async with (
        pool,
        line as port,
        connect(config.dispatcher_address) as channel,
    ):
        if config.is_open:
            log.warning(
                "listening on %s:%d: whoever reaches it can read data, there is no authentication",
                config.host,
                port,
            )
        api, outbox = DispatcherClient(channel), Outbox()
        worker = door.worker = Worker(
            advertised(config, port), config, ActiveRuns(pool, api), outbox, versions=versions()
        )
        control = Control(
            api, config.dispatcher_address, outbox, beat=worker.beat, hear=worker.handle
        )
        await _work(worker, control, config, ready)


async def _work(
    worker: Worker, control: Control, config: WorkerConfig, ready: Callable[[Worker], None]
) -> None:
    tasks = [
        asyncio.create_task(control.run(), name="control"),
        asyncio.create_task(worker.tick_forever(), name="tick"),
        asyncio.create_task(_registered(worker, control, config, ready), name="register"),
    ]
    try:
        # None of them ends by itself, unless something is wrong.
        over, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in over:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await worker.close()


async def _registered(
    worker: Worker, control: Control, config: WorkerConfig, ready: Callable[[Worker], None]
) -> None:
    try:
        async with asyncio.timeout(config.patience):
            await control.registered.wait()
    except TimeoutError:
        raise Unavailable(
            f"worker {worker.address} could not register with the dispatcher at "
            f"{config.dispatcher_address} within dispatcher_timeout={config.patience:g} s: "
            f"{control.trouble or 'no answer'}"
        ) from None
    ready(worker)


class Door:
    """Answers from the moment that the port is open, which is before the worker is there."""

    def __init__(self) -> None:
        self.worker: Worker | None = None

    def read(self, requests: AsyncIterator[ReadRequest]) -> AsyncIterator[bytes]:
        """See `WorkerApi.read`."""
        return self._open().read(requests)

    async def status(self) -> bytes:
        """See `WorkerApi.status`."""
        return await self._open().status()

    def _open(self) -> Worker:
        if self.worker is None:
            raise Unavailable("this worker is starting; try again")
        return self.worker


def advertised(config: WorkerConfig, port: int) -> WorkerId:
    """Return the address that readers are told when *port* is bound."""
    if config.worker_address is not None:
        return WorkerId(config.worker_address.replace(PORT, str(port), 1))
    host = socket.gethostname() if config.host in {"0.0.0.0", "::"} else config.host  # noqa: S104
    return WorkerId(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def versions() -> Versions:
    """Return what this process speaks."""
    return Versions(PROTOCOL, platform.python_version(), metadata.version("penstock"))


class WorkerServer:
    """A worker in this process, on the background loop that all of Penstock shares here.

    >>> with WorkerServer(WorkerConfig(dispatcher_address="host:5050")) as worker:  # doctest: +SKIP
    ...     worker.join()

    Raises:
        PenstockError: see `serve`.
    """

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        self._life: _Life | None = None
        self._stopped = False
        if not isinstance(config, WorkerConfig):
            raise ConfigError(f"config must be a WorkerConfig, not {type(config).__name__}")
        if config.dispatcher_address is None:
            raise ConfigError("a worker needs dispatcher_address, as in 'host:port'")
        self._config = config
        self._lock = threading.RLock()
        if start:
            self.start()

    @property
    def address(self) -> str:
        """Where readers find this worker, as ``host:port``."""
        if self._life is None:
            raise Closed("this worker has not been started")
        return self._life.address

    def start(self) -> None:
        """Start; return when the dispatcher knows this worker. Idempotent while it runs."""
        with self._lock:
            if self._stopped:
                raise Closed("a worker that was stopped cannot be started; make another one")
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
        """Wait until the worker has stopped; raise what stopped it, if it was not `stop`."""
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
        if self._life is not None:
            self._life.end()


class _Life:
    """One `serve` on the shared loop, which knows this object and not the server that is lost."""

    def __init__(self, config: WorkerConfig) -> None:
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
        """Wait until the dispatcher knows the worker."""
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

    async def _serve(self) -> None:
        self._task, self._thread = asyncio.current_task(), threading.get_ident()
        failure: BaseException | None = None
        try:
            if not self._ended:
                await serve(self._config, lambda worker: self._ready.set_result(worker.address))
        except asyncio.CancelledError:
            pass  # `end` wanted it
        except PenstockError as exc:
            failure = Failure.of(exc).error()  # without the frames that it came through
        except Exception as exc:  # noqa: BLE001  whoever waits gets it
            failure = exc
        if failure is not None and self._ready.done():
            log.error("worker %s stopped", self.address, exc_info=failure)
        if not self._ready.done():
            self._ready.set_exception(failure or Closed("the worker was stopped while it started"))
        if failure is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(failure)
