"""A process that is a dispatcher."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from penstock.runtime.signals import (
    LINGER,
    READY_FD,
    announce,
    run_service,
    service_process,
)
from penstock_dispatcher.collection import short_collections
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import FORGETFUL, serve
from penstock_dispatcher.service import DispatcherService


def run(**given: Any) -> None:
    """Run a dispatcher with these settings until a signal stops it.

    Settings that are None or missing are read from variables, as `DispatcherConfig.from_env` does.
    """
    with short_collections():
        service_process(DispatcherConfig, given, _serve)


def _serve(config: DispatcherConfig) -> None:
    serving: list[DispatcherService] = []
    linger = float(os.environ.get(LINGER, "0"))

    def ready(dispatcher: DispatcherService) -> None:
        serving.append(dispatcher)
        _announce_ready(dispatcher, config)

    def leave() -> None:
        for dispatcher in serving:
            dispatcher.ending = True
        # The next signal stops it: sent from here, or by somebody who does not wait as long.
        loop = asyncio.get_running_loop()
        loop.call_later(linger, signal.raise_signal, signal.SIGTERM)

    run_service(serve(config, ready), leave if linger else None)


def _announce_ready(dispatcher: DispatcherService, config: DispatcherConfig) -> None:
    """Print the address alone where a parent process waits for it, else a sentence."""
    if READY_FD in os.environ:
        announce(dispatcher.address)
        return
    announce(f"listening on {config.scheme}://{dispatcher.address}")
    if dispatcher.http:
        announce(f"HTTP at {dispatcher.http}")
    if config.work_dir is None:
        announce(FORGETFUL)
