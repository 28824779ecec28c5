"""A worker in this process: `serve` as a coroutine, `WorkerServer` as an object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.credentials.caller import PLAIN, caller_with
from penstock.credentials.entrance import Entrance
from penstock.errors import ConfigError, Unavailable
from penstock.protocol.calls import TraceReply
from penstock.protocol.data import ReadRequest
from penstock.protocol.tensorflow import FindTaskRequest, FoundTask
from penstock.protocol.types import WorkerId
from penstock.runtime import address
from penstock.runtime.background import BackgroundDeparture, BackgroundServer, Serve
from penstock.runtime.cores import cores
from penstock.runtime.linux import check_service
from penstock.runtime.malloc import tune
from penstock.runtime.signals import touching
from penstock.runtime.versions import versions
from penstock.transport.in_process import offered
from penstock.web.answering import answering
from penstock.wire import tensorflow
from penstock.wire.connection import Channel, connect, listening
from penstock.wire.dispatcher import DispatcherClient
from penstock.wire.worker import worker_handlers
from penstock_worker import reader_doors
from penstock_worker.config import CACHE_SIZE, PORT, WorkerConfig
from penstock_worker.control_stream import ControlOutbox, ControlStream
from penstock_worker.drain import Drain
from penstock_worker.file_cache import with_file_cache
from penstock_worker.memory_share import cache_size
from penstock_worker.recorders import recorders_of
from penstock_worker.runner.confinement import confinement_of
from penstock_worker.runner.fork import RunnerForks
from penstock_worker.runner.pool import RunnerPool
from penstock_worker.runners import LEAST_STARTS, ActiveRunners
from penstock_worker.service import WorkerService
from penstock_worker.shm_door import ShmDoor
from penstock_worker.start_gate import HostTurns, StartGate
from penstock_worker.tensorflow.element_service import ElementService, element_service

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

log = logging.getLogger("penstock.worker")

KEPT_WARM = 4
"""How many runners without a run are kept at least: for tasks that fill no slots."""

HOST_STARTS = 2
"""How many runs begin at once for each core of a host: one computes while another waits."""

TOO_MANY = 4
"""More slots than this for each core are probably a mistake."""

FIND_WITHIN = 5.0
"""Seconds that the dispatcher gets to say what a task of TensorFlow's clients reads."""

SMALL = 1 << 16
"""Bytes of a request for an element."""

SAID_AFTER = 5.0
"""Seconds after which a worker that cannot register says why it waits. It does not say so at once,
because services may start in any order."""

LAST_VIEW = 0.3
"""Seconds that streams get to end when everything is over."""


async def serve(
    config: WorkerConfig, ready: Callable[[WorkerService], None], drain: asyncio.Event
) -> None:
    """Serve until *drain* is set or the dispatcher says so, and drain.

    When cancelled, end at once. *ready* is called once the dispatcher knows this worker.

    Raises:
        ConfigError: when this is not Linux, there is no dispatcher's address, or the port cannot
            be had.
        Unavailable: when the dispatcher does not answer within `WorkerConfig.dispatcher_timeout`.
        PenstockError: when the dispatcher refuses this worker.
        InternalError: if a step of the worker itself failed.
    """
    check_service("a worker")
    if (address := config.dispatcher_address) is None:
        raise ConfigError("a worker needs dispatcher_address, as in 'host:port'")
    tune()
    config, door = _within_memory(replace(config, slots=config.slot_count)), PendingWorker()
    entrance, caller = config.entrance(), caller_with(config.credentials or PLAIN, config.role)
    elements = element_service(address, door.find_task, config.credentials)
    async with (
        _pool(config) as pool,
        connect(address, caller=caller) as door.channel,
        _listening(config, entrance, door, elements) as port,
        _opened(config, entrance, elements) as open_at,
    ):
        _log_risks(config, port)
        api, outbox = DispatcherClient(door.channel, check=entrance.check_seal), ControlOutbox()
        with reader_doors.opened(config, entrance) as doors:
            runners = ActiveRunners(pool, api, config.buffer_bytes, _gate(config, doors.shm))
            place = advertised(config, port)
            told = doors.profile(open_at)
            worker = door.worker = WorkerService(
                place, config, runners, outbox, versions=versions(), offered=told
            )
            doors.serve(worker, runners, config)
            await _serve_as(
                worker, config, api, outbox, pool.forks, entrance, elements, ready, drain
            )


async def _serve_as(
    worker: WorkerService,
    config: WorkerConfig,
    api: DispatcherClient,
    outbox: ControlOutbox,
    forks: RunnerForks,
    entrance: Entrance,
    elements: ElementService,
    ready: Callable[[WorkerService], None],
    drain: asyncio.Event,
) -> None:
    """Register *worker*, whose port is open, and serve until it has drained."""
    address = config.dispatcher_address or ""
    recorders = recorders_of(config, worker.address, forks, outbox.request_heartbeat)
    control = ControlStream(
        api,
        address,
        outbox,
        heartbeat=recorders.reported(worker.heartbeat),
        handle=recorders.heard(worker.incarnation, worker.handle),
    )
    parting = Drain(worker, control, outbox, drain, config.drain)
    register = partial(_registered, worker, control, config, ready)
    routes = partial(_routes, worker, entrance, control)
    with offered(worker.address, worker.incarnation, worker), closing(recorders):
        async with answering(config, entrance, routes) as worker.http, touching(config.health_file):
            await _work(worker, control, parting, register, elements)


def _listening(
    config: WorkerConfig, entrance: Entrance, door: PendingWorker, elements: ElementService
) -> AbstractAsyncContextManager[int]:
    """Open the port for Penstock's and TensorFlow's protocols; yield its number."""
    return listening(
        worker_handlers(door),
        tensorflow.worker_handlers(elements.element),
        host=config.host,
        port=config.port,
        drain=LAST_VIEW,
        largest=config.limits["max_message_bytes"],
        entrance=entrance,
    )


def _routes(
    worker: WorkerService, entrance: Entrance, control: ControlStream
) -> Sequence[RouteDef]:
    from penstock_worker.web.routes import routes  # noqa: PLC0415  it loads aiohttp

    return routes(worker, entrance, control.registered)


def _gate(config: WorkerConfig, shm: ShmDoor | None) -> StartGate:
    """Return the gate of a worker, whose host is where its socket's folder is."""
    host = None if shm is None else HostTurns(Path(shm.path).parent, HOST_STARTS * cores())
    return StartGate(max(LEAST_STARTS, config.slot_count), host)


def _within_memory(config: WorkerConfig) -> WorkerConfig:
    wanted = config.cross_trainer_cache_size_bytes
    bound = cache_size(wanted, by_default=wanted == CACHE_SIZE)
    return replace(config, cross_trainer_cache_size_bytes=bound)


def _pool(config: WorkerConfig) -> RunnerPool:
    confinement = confinement_of(
        config.runner_memory_bytes,
        config.runner_user,
        config.runner_environment,
        credentials=config.credentials,
        read_only=config.runner_read_only,
        writable=config.runner_writable,
        niceness=config.runner_niceness,
    )
    return RunnerPool(
        buffer_bytes=config.buffer_bytes,
        max_element_bytes=config.limits["max_element_bytes"],
        cache_bytes=config.cross_trainer_cache_size_bytes,
        keep_idle=max(KEPT_WARM, config.slot_count),
        confinement=with_file_cache(confinement, config),
    )


@asynccontextmanager
async def _opened(
    config: WorkerConfig, entrance: Entrance, elements: ElementService
) -> AsyncIterator[str]:
    """Answer TensorFlow's clients without credentials, where the settings say so; yield where."""
    if config.tensorflow_port is None:
        yield ""
        return
    host = config.tensorflow_host or config.host
    line = listening(
        tensorflow.worker_handlers(elements.opened_element),
        host=host,
        port=config.tensorflow_port,
        drain=LAST_VIEW,
        largest=SMALL,
        entrance=entrance.for_tensorflow(),
    )
    async with line as port:
        log.warning(
            "whoever reaches %s:%d can read without credentials what the dispatcher's "
            "tensorflow_datasets name (tensorflow_port)",
            host,
            port,
        )
        told = config.worker_address
        yield address.advertised(host, port) if told is None else _beside(told, port)


def _beside(told: str, port: int) -> str:
    """Return *port* at the host that readers are told in *told*."""
    return address.join(address.split(told.replace(PORT, "1", 1))[0], port)


def _log_risks(config: WorkerConfig, port: int) -> None:
    there = cores()
    if config.slot_count > TOO_MANY * there:
        log.warning(
            "slots is %d, and this process may use %d core(s): its runners will wait for each "
            "other; about one slot for each core is enough",
            config.slot_count,
            there,
        )

    if config.insecure:
        log.warning(
            "insecure: whoever reaches %s:%d can read what is made here, for there are no "
            "credentials (`penstock keys init` makes some)",
            config.host,
            port,
        )


async def _work(
    worker: WorkerService,
    control: ControlStream,
    parting: Drain,
    register: Callable[[], Coroutine[Any, Any, None]],
    elements: ElementService,
) -> None:
    parted = asyncio.create_task(parting.run(), name="parting")
    tasks = {
        parted,
        asyncio.create_task(control.run(), name="control"),
        asyncio.create_task(worker.tick_forever(), name="tick"),
        asyncio.create_task(register(), name="register"),
        asyncio.create_task(elements.look_forever(), name="tensorflow"),
    }
    waiting = tasks
    try:
        while not parted.done():
            # The other tasks do not end by themselves, unless something is wrong.
            over, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in over:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await elements.close()
        await worker.close()


async def _registered(
    worker: WorkerService,
    control: ControlStream,
    config: WorkerConfig,
    ready: Callable[[WorkerService], None],
) -> None:
    try:
        async with asyncio.timeout(config.patience):
            with suppress(TimeoutError):
                async with asyncio.timeout(SAID_AFTER):
                    await control.registered.wait()
            if not control.registered.is_set():
                log.warning(
                    "waiting for the dispatcher at %s for up to %g s: %s",
                    config.dispatcher_address,
                    config.patience,
                    control.reason or "no answer",
                )
            await control.registered.wait()
    except TimeoutError:
        raise Unavailable(
            f"worker {worker.address} could not register with the dispatcher at "
            f"{config.dispatcher_address} within dispatcher_timeout={config.patience:g} s: "
            f"{control.reason or 'no answer'}"
        ) from None
    ready(worker)


class PendingWorker:
    """Answers from the moment that the port is open, which is before the worker is there."""

    def __init__(self) -> None:
        self.worker: WorkerService | None = None
        self.channel: Channel | None = None

    def read(self, requests: AsyncIterator[ReadRequest]) -> AsyncIterator[bytes]:
        """See `WorkerApi.read`."""
        return self._open().read(requests)

    async def status(self) -> bytes:
        """See `WorkerApi.status`."""
        return await self._open().status()

    async def trace(self, after: int) -> TraceReply:
        """See `WorkerApi.trace`."""
        return await self._open().trace(after)

    async def find_task(self, request: FindTaskRequest) -> FoundTask:
        """Return what a task of TensorFlow's clients reads, as the dispatcher says."""
        if self.channel is None:
            raise Unavailable("this worker is starting; try again")
        return await tensorflow.FIND_TASK.call(self.channel, request, FIND_WITHIN)

    def _open(self) -> WorkerService:
        if self.worker is None:
            raise Unavailable("this worker is starting; try again")
        return self.worker


def advertised(config: WorkerConfig, port: int) -> WorkerId:
    """Return the address that readers are told when *port* is bound."""
    if config.worker_address is not None:
        return WorkerId(config.worker_address.replace(PORT, str(port), 1))
    return WorkerId(address.advertised(config.host, port))


class WorkerServer(BackgroundServer):
    """A worker in this process, on the background loop that all of Penstock shares here.

    Its runners, where users' functions run, are processes of their own. `stop` leaves in order, as
    `WorkerConfig.drain` says; the end of a ``with`` block stops at once.

    Args:
        config: its settings, with the dispatcher's address.
        start: whether it starts here and now; False leaves that to `start`, or to ``with``.

    Raises:
        ConfigError: when *config* has no dispatcher's address, or the port cannot be had.
        Unavailable: when the dispatcher does not answer within `WorkerConfig.dispatcher_timeout`.
        PenstockError: when the dispatcher refuses this worker, as with `VersionMismatch`.

    >>> from penstock_dispatcher import DispatchServer
    >>> dataset = Dataset.range(3)
    >>> with (
    ...     DispatchServer() as dispatcher,
    ...     WorkerServer(WorkerConfig(dispatcher_address=dispatcher.target)),
    ... ):
    ...     far = dataset.distribute("distributed_epoch", dispatcher.target)
    ...     sorted(int(x) for x in far)
    [0, 1, 2]
    """

    noun: ClassVar[str] = "worker"

    def __init__(self, config: WorkerConfig, start: bool = True) -> None:
        if not isinstance(config, WorkerConfig):
            raise ConfigError(f"config must be a WorkerConfig, not {type(config).__name__}")
        if config.dispatcher_address is None:
            raise ConfigError("a worker needs dispatcher_address, as in 'host:port'")
        self._config = config
        self._drain_wanted = asyncio.Event()
        super().__init__(start)

    def _serving(self) -> Serve:
        config, drain = self._config, self._drain_wanted
        return lambda ready: serve(config, lambda worker: ready(worker.address), drain)

    def _departure(self) -> BackgroundDeparture:
        return BackgroundDeparture(self._drain_wanted.set, self._config.drain)
