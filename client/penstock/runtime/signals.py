"""Run a service as a process: signals become one cancellation; it ends with its parent.

A parent may pass down two pipes by number: ``PENSTOCK_READY_FD``, to which the service writes
one line when it answers, and ``PENSTOCK_LIFELINE_FD``, whose end of file means that the parent
ended, however it did.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.errors import InternalError
from penstock.runtime import log_lines
from penstock.runtime.event_loop import new_event_loop

READY_FD, LIFELINE_FD = "PENSTOCK_READY_FD", "PENSTOCK_LIFELINE_FD"


def run_service(
    service: Coroutine[Any, Any, None], leave: Callable[[], None] | None = None
) -> None:
    """Run *service* until it returns, the process is told to stop, or its parent is gone.

    SIGTERM and SIGINT say so, each time with more force: the first calls *leave*, if there is
    one, and the service ends when it likes; the next cancels it, and it closes what it
    opened; one more ends the process as it is. A parent that is gone cancels.
    """
    log_lines.configure()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_until_told(service, leave))


def announce(line: str) -> None:
    """Report that this process is ready: through the pipe, or on the screen."""
    fd = os.environ.pop(READY_FD, None)
    if fd is None:
        print(line, flush=True)  # noqa: T201  the one line a person waits for
        return
    with os.fdopen(int(fd), "w") as pipe:
        pipe.write(line + "\n")


async def _until_told(service: Coroutine[Any, Any, None], leave: Callable[[], None] | None) -> None:
    task = asyncio.create_task(service, name="service")
    loop = asyncio.get_running_loop()
    signals = _Signals(task, leave)
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, signals.came, signum)
    lifeline = os.environ.pop(LIFELINE_FD, None)
    if lifeline is not None:
        loop.add_reader(int(lifeline), _parent_gone, loop, int(lifeline), task)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelling():  # Else we asked for it: a clean stop.
            words = "the service was cancelled without a request to stop"
            raise InternalError(words) from None


class _Signals:
    """Counts how often this process was told to stop."""

    def __init__(self, task: asyncio.Task[None], leave: Callable[[], None] | None) -> None:
        self._task, self._leave = task, leave
        self._cancelled = False

    def came(self, signum: int) -> None:
        leave, self._leave = self._leave, None
        if self._cancelled:
            os._exit(128 + signum)
        elif leave is not None and not self._task.cancelling():
            leave()
        else:
            self._cancelled = True
            self._task.cancel()


def _parent_gone(loop: asyncio.AbstractEventLoop, fd: int, task: asyncio.Task[None]) -> None:
    loop.remove_reader(fd)
    task.cancel()
