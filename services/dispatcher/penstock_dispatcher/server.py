"""A dispatcher in this process: `serve` as a coroutine, `DispatchServer` as an object."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from penstock.credentials.entrance import Entrance
from penstock.errors import ConfigError, PenstockError
from penstock.preemption.agreement import Agreements
from penstock.protocol.calls import PreemptionReport, PreemptionVerdict
from penstock.runtime.address import advertised, split
from penstock.runtime.background import BackgroundServer, Serve
from penstock.runtime.clock import now
from penstock.runtime.linux import check_service
from penstock.runtime.signals import touching
from penstock.web.answering import answering
from penstock.wire import tensorflow
from penstock.wire.connection import listening
from penstock.wire.dispatcher import dispatcher_handlers, preemption_handlers
from penstock.wire.recordings import recordings_handlers
from penstock_dispatcher.calls import Openings
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.core.stats import OpenedPort
from penstock_dispatcher.journal.journal import Journal, open_journal
from penstock_dispatcher.page.feed import PageFeed, looking
from penstock_dispatcher.recording_calls import RecordingCalls
from penstock_dispatcher.service import DispatcherService
from penstock_dispatcher.tensorflow.client_store import clients_at, expiring
from penstock_dispatcher.tensorflow.clients import TensorFlowClients
from penstock_dispatcher.tensorflow.opened import OpenedDatasets
from penstock_dispatcher.tensorflow.service import DispatcherKnowledge, TensorFlowService
from penstock_dispatcher.web.sampler import Sampler, sampling
from penstock_dispatcher.work_dir.fact_file import agreements_at

if TYPE_CHECKING:
    from aiohttp.web import RouteDef

log = logging.getLogger("penstock.dispatcher")

DRAIN = 0.3
"""Seconds that calls under way get at the stop; streams are ended before."""

MARGIN = 1 << 16
"""Bytes of a message around a definition."""

FORGETFUL = (
    "no work_dir is set: a restart would lose all jobs, their positions and registered datasets, "
    "and end every reader with an error"
)


async def serve(
    config: DispatcherConfig, ready: Callable[[DispatcherService], None], *, restarts: bool = True
) -> None:
    """Serve until cancelled; call *ready* once the port is open.

    Readers of a dispatcher that *restarts* wait for its restart when it fails; those of another
    one get the error.

    Raises:
        ConfigError: when this is not Linux, or the port or the folder cannot be had.
        JournalError: when the journal cannot be read, or not be written any more.
        InternalError: when a decision failed.
    """
    check_service("a dispatcher")
    entrance = config.entrance()
    async with dispatching(config, entrance) as dispatcher:
        known = DispatcherKnowledge(dispatcher)
        clients = clients_at(config.work_dir, config.client_timeout)
        sampler, feed = Sampler(dispatcher.core), PageFeed(dispatcher.stats)
        routes = partial(_routes, dispatcher, entrance, sampler, feed)
        async with (
            _listening(dispatcher, config, entrance, known, clients) as port,
            answering(config, entrance, routes) as dispatcher.http,
            _looking(config, dispatcher, sampler, feed),
            _opened(config, entrance, known, clients) as dispatcher.tensorflow,
            touching(config.health_file),
            expiring(clients, config.client_timeout, now),
        ):
            dispatcher.address = advertised(config.host, port)
            _log_risks(config, port)
            try:
                ready(dispatcher)
                await dispatcher.tick_forever()
            except PenstockError as exc:
                dispatcher.close(None if restarts else exc)
                raise
            finally:
                dispatcher.close()


def _listening(
    dispatcher: DispatcherService,
    config: DispatcherConfig,
    entrance: Entrance,
    known: DispatcherKnowledge,
    clients: TensorFlowClients,
) -> AbstractAsyncContextManager[int]:
    """Open the port for Penstock's and TensorFlow's protocols; yield its number."""
    openings = Openings(config.limits["max_openings"])
    largest = config.limits["max_message_bytes"]
    api = TensorFlowService(known, clients, now, config.tensorflow_datasets)
    return listening(
        dispatcher_handlers(dispatcher, entrance.seal, openings.held, largest),
        *tensorflow.dispatcher_handlers(api),
        recordings_handlers(RecordingCalls(dispatcher, config.work_dir)),
        preemption_handlers(partial(_stop_at, agreements_at(config.work_dir))),
        host=config.host,
        port=config.port,
        drain=DRAIN,
        largest=max(config.limits["max_definition_bytes"] + MARGIN, largest),
        entrance=entrance,
    )


def _log_risks(config: DispatcherConfig, port: int) -> None:
    if config.work_dir is None:
        log.info("%s", FORGETFUL)
    if config.insecure:
        log.warning(
            "insecure: anyone who reaches %s:%d can run code on the workers, because there are "
            "no credentials (`penstock keys init` makes some)",
            config.host,
            port,
        )


@asynccontextmanager
async def _opened(
    config: DispatcherConfig,
    entrance: Entrance,
    known: DispatcherKnowledge,
    clients: TensorFlowClients,
) -> AsyncIterator[OpenedPort]:
    """Answer TensorFlow's clients without credentials, where the settings say so; yield where."""
    if config.tensorflow_port is None:
        yield OpenedPort()
        return
    names, host = config.tensorflow_datasets, config.tensorflow_host or config.host
    api = OpenedDatasets(known, clients, now, names)
    line = listening(
        *tensorflow.dispatcher_handlers(api),
        host=host,
        port=config.tensorflow_port,
        drain=DRAIN,
        largest=MARGIN,
        entrance=entrance.for_tensorflow(),
    )
    async with line as port:
        log.warning(
            "whoever reaches %s:%d can read %s without credentials, by TensorFlow's protocol "
            "(tensorflow_port)",
            host,
            port,
            ", ".join(names),
        )
        yield OpenedPort(advertised(host, port), names)


@asynccontextmanager
async def _looking(
    config: DispatcherConfig, dispatcher: DispatcherService, sampler: Sampler, feed: PageFeed
) -> AsyncIterator[None]:
    if config.http_port is None:
        yield
        return
    async with sampling(sampler), looking(feed, dispatcher.facts):
        yield


def _routes(
    dispatcher: DispatcherService, entrance: Entrance, sampler: Sampler, feed: PageFeed
) -> Sequence[RouteDef]:
    from penstock_dispatcher.web.routes import routes  # noqa: PLC0415  it loads aiohttp

    return routes(dispatcher, entrance, sampler, feed)


def _stop_at(agreements: Agreements, said: PreemptionReport) -> PreemptionVerdict:
    return agreements.report(said, now())


@asynccontextmanager
async def dispatching(
    config: DispatcherConfig, entrance: Entrance | None = None
) -> AsyncIterator[DispatcherService]:
    """Yield a dispatcher that continues from its folder's state; close its journal at the end.

    Raises:
        ConfigError: when the folder cannot be had.
        JournalError: when the journal cannot be read.
    """
    journal = await asyncio.to_thread(_open, config)
    try:
        dispatcher = DispatcherService(config, journal, entrance=entrance)
        try:
            yield dispatcher
        finally:
            dispatcher.close()
    finally:
        await journal.aclose()


def _open(config: DispatcherConfig) -> Journal:
    if config.work_dir is None:
        return Journal()
    began = time.perf_counter()
    journal = open_journal(Path(config.work_dir), power=config.outlasts_power)
    if journal.state.length:
        log.info(
            "%s: %d facts, %d jobs, read in %.2f s; going on",
            config.work_dir,
            journal.state.length,
            len(journal.state.jobs),
            time.perf_counter() - began,
        )
    return journal


class DispatchServer(BackgroundServer):
    """A dispatcher in this process, on the background loop that all of Penstock shares here.

    As a context manager it stops at the end of the block.

    Args:
        config: its settings; None is the defaults: any free port, and nothing kept on disk.
        start: whether it starts here and now; False leaves that to `start`, or to ``with``.

    Raises:
        ConfigError: when *config* is none, or the port or the folder cannot be had.
        JournalError: when the journal in the folder cannot be read.

    >>> with DispatchServer(DispatcherConfig(port=0)) as dispatcher:
    ...     dispatcher.target == f"grpc://127.0.0.1:{dispatcher.port}"
    True
    """

    noun: ClassVar[str] = "dispatcher"

    def __init__(self, config: DispatcherConfig | None = None, start: bool = True) -> None:
        config = DispatcherConfig() if config is None else config
        if not isinstance(config, DispatcherConfig):
            raise ConfigError(f"config must be a DispatcherConfig, not {type(config).__name__}")
        self._config = config
        super().__init__(start)

    @property
    def target(self) -> str:
        """The service address for `distribute`: ``grpc://host:port``, or ``grpcs://`` with TLS."""
        return f"{self._config.scheme}://{self.address}"

    @property
    def port(self) -> int:
        """The TCP port that is bound; a free one where the settings say 0."""
        return split(self.address)[1]

    def _serving(self) -> Serve:
        config = self._config
        return lambda ready: serve(
            config, lambda dispatcher: ready(dispatcher.address), restarts=False
        )
