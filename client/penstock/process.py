"""Run a service as a process: signals in, one cancellation out; a lifeline to whoever started it.

A parent may hand down two pipes by number: ``PENSTOCK_READY_FD``, to which the service writes
one line when it answers, and ``PENSTOCK_LIFELINE_FD``, whose end of file means that the parent
is gone, however it went.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import uvloop

READY_FD, LIFELINE_FD = "PENSTOCK_READY_FD", "PENSTOCK_LIFELINE_FD"


def run_service(service: Coroutine[Any, Any, None]) -> None:
    """Run *service* until it returns, the process is told to stop, or its parent is gone.

    The first SIGTERM or SIGINT cancels the service, which then closes whatever it opened. A
    second one means that somebody is tired of waiting.
    """
    logging.basicConfig(
        level=os.environ.get("PENSTOCK_LOG", "WARNING").upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    uvloop.run(_until_told(service))


def announce(line: str) -> None:
    """Tell whoever started this process that it is ready: through the pipe, or on the screen."""
    fd = os.environ.pop(READY_FD, None)
    if fd is None:
        print(line, flush=True)  # noqa: T201  the one line a person waits for
        return
    with os.fdopen(int(fd), "w") as pipe:
        pipe.write(line + "\n")


async def _until_told(service: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(service, name="service")
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, _stop_or_die, task, signum)
    lifeline = os.environ.pop(LIFELINE_FD, None)
    if lifeline is not None:
        loop.add_reader(int(lifeline), _parent_gone, loop, int(lifeline), task)
    with suppress(asyncio.CancelledError):  # We asked for it: a clean stop.
        await task


def _stop_or_die(task: asyncio.Task[None], signum: int) -> None:
    if task.cancelling():
        os._exit(128 + signum)
    task.cancel()


def _parent_gone(loop: asyncio.AbstractEventLoop, fd: int, task: asyncio.Task[None]) -> None:
    loop.remove_reader(fd)
    task.cancel()
