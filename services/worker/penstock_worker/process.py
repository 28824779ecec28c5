"""A process that is a worker."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from penstock.runtime import log_lines
from penstock.runtime.event_loop import LoopThread
from penstock.runtime.signals import READY_FD, announce, run_service, service_process
from penstock_worker.config import WorkerConfig
from penstock_worker.server import serve
from penstock_worker.service import WorkerService


def run(**given: Any) -> None:
    """Run a worker with these settings until a signal stops it; a second one does so at once.

    Settings that are None or missing are read from variables, as `WorkerConfig.from_env` does.
    """
    leave = asyncio.Event()
    service_process(
        WorkerConfig, given, lambda config: run_service(_served(config, leave), leave=leave.set)
    )


async def _served(config: WorkerConfig, leave: asyncio.Event) -> None:
    """Serve in the one loop of this process: it is a reader, too, for TensorFlow's clients."""
    async with LoopThread.adopted():
        await serve(config, lambda worker: _announce_ready(worker, config), leave)


def _announce_ready(worker: WorkerService, config: WorkerConfig) -> None:
    """Print the address alone where a parent process waits for it, else a sentence."""
    log_lines.identify(worker=worker.address)
    if READY_FD in os.environ:
        announce(worker.address)
    else:
        announce(f"worker {worker.address} registered with {config.dispatcher_address}")
