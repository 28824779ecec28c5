"""The process of a dispatcher, and how Python collects garbage in it.

A dispatcher keeps hundreds of thousands of objects for as long as a job runs, and hardly ever in
cycles. A full collection of Python looks at each of them, again and again, and nobody gets an
answer meanwhile (250 ms with 1,000 workers and 500 readers). So `short_collections` sets the
objects aside that outlive one full collection (`gc.freeze`), and the next one looks at newer
objects only. Objects set aside are freed by their reference counts as ever. Cycles among them (of
calls that were in progress) are collected once the number of objects set aside has doubled.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.runtime.signals import (
    LINGER,
    READY_FD,
    announce,
    run_service,
    service_process,
)
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


YOUNG = 20_000
"""Objects that come, beyond those that went, between two collections of the youngest.

Python's 700 are those of a few calls: with 500 readers collections took a tenth of the time.
"""

LEAST = 100_000
"""Objects set aside below which cycles among them may wait: some 20 MiB."""


class SettingAside:
    """Objects that full collections leave alone, by their callback."""

    def __init__(self) -> None:
        self._whole = LEAST

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Set aside what outlived a full collection, or have the next one look at all."""
        if phase != "stop" or info["generation"] < 2:
            return
        looked_at_all = gc.get_freeze_count() == 0
        gc.freeze()
        aside = gc.get_freeze_count()
        if looked_at_all:
            self._whole = max(aside, LEAST)
        elif aside > 2 * self._whole:
            gc.unfreeze()


@contextmanager
def short_collections() -> Iterator[None]:
    """Have this process's collections look at what is new; then again at everything."""
    before, set_aside = gc.get_threshold(), SettingAside()
    gc.unfreeze()  # what another set aside counts from the first full collection on
    gc.set_threshold(YOUNG, *before[1:])
    gc.callbacks.append(set_aside)
    try:
        yield
    finally:
        gc.callbacks.remove(set_aside)
        gc.set_threshold(*before)
        gc.unfreeze()
