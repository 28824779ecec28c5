"""Run a service as a process: signals become one cancellation; it ends with its parent.

A parent may pass down two pipes by number: ``PENSTOCK_READY_FD``, to which the service writes
one line when it answers, and ``PENSTOCK_LIFELINE_FD``, whose end of file means that the parent
ended, however it did. A dispatcher also reads ``PENSTOCK_LINGER``: the seconds for which it still
answers after the first signal, and says that it ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

from penstock.errors import (
    ConfigError,
    DatasetError,
    InternalError,
    PenstockError,
    Unavailable,
    describe,
    explained_at,
)
from penstock.ipc.child import fill_standard_files
from penstock.runtime import log_lines
from penstock.runtime.event_loop import new_event_loop
from penstock.runtime.settings import ServiceSettings, misspelt
from penstock.runtime.versions import versions

log = logging.getLogger("penstock.process")

S = TypeVar("S", bound=ServiceSettings)

READY_FD, LIFELINE_FD = "PENSTOCK_READY_FD", "PENSTOCK_LIFELINE_FD"

LINGER = "PENSTOCK_LINGER"
"""The variable in which `penstock run` tells its dispatcher how long to answer after the end."""


def service_process(kind: type[S], given: Mapping[str, Any], serve: Callable[[S], None]) -> None:
    """Run *serve* with settings: *given* ones, and variables for those that are None or missing.

    If it fails with an error of Penstock, print the error and exit with its code.
    """
    try:
        config = kind.from_env(**given)
        insist_on_1_3(config.credentials)
        serve(config)
    except PenstockError as exc:
        log_lines.say(f"penstock_{kind.role}: {explained_at(exc)}", failed=True)
        raise SystemExit(exit_code(exc)) from None


def run_service(
    service: Coroutine[Any, Any, None], leave: Callable[[], None] | None = None
) -> None:
    """Run *service* until it returns, a signal stops the process, or its parent has ended.

    Each SIGTERM or SIGINT stops with more force. The first calls *leave*, if there is one, and
    the service ends by itself. The next cancels the service, which closes its resources. One more
    ends the process at once. If the parent ends, the service is cancelled.
    """
    fill_standard_files()
    log_lines.configure()
    mine = versions()
    log.info("starting, pid %d: penstock %s, Python %s", os.getpid(), mine.penstock, mine.python)
    for sentence in misspelt():
        log.warning("%s", sentence)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_until_told(service, leave))
    except BaseException as exc:
        log.info("stopped by an error: %s", describe(exc))
        raise
    log.info("stopped")


def announce(line: str) -> None:
    """Report that this process is ready: through the pipe, or on the screen."""
    fd = os.environ.pop(READY_FD, None)
    if fd is None:
        log_lines.say(line)
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
        name = signal.Signals(signum).name
        if self._cancelled:
            log.warning("%s again: the process ends as it is", name)
            os._exit(128 + signum)
        elif leave is not None and not self._task.cancelling():
            log.info("%s: leaving; at the next signal it stops at once", name)
            leave()
        else:
            log.info("%s: stopping", name)
            self._cancelled = True
            self._task.cancel()


def _parent_gone(loop: asyncio.AbstractEventLoop, fd: int, task: asyncio.Task[None]) -> None:
    loop.remove_reader(fd)
    log.info("the process that started this one has ended: stopping")
    task.cancel()


VARIABLE = "GRPC_SSL_CIPHER_SUITES"

NONE_OF_1_2 = "ECDHE-PSK-AES128-CBC-SHA"
"""A cipher of TLS 1.2 by a key shared beforehand, which no service here has."""


def insist_on_1_3(credentials: str | None) -> None:
    """Start this process again with the variable if it uses TLS, so that it accepts only TLS 1.3.

    gRPC for Python has no setting for this. When it loads, it reads the ciphers of TLS 1.2 from a
    variable, which does not list those of 1.3. The process keeps its number, files and arguments;
    call this before anything is open. A list of ciphers that is set already stays as it is.
    """
    if credentials and VARIABLE not in os.environ:
        os.environ[VARIABLE] = NONE_OF_1_2
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606  itself


class ExitCode(IntEnum):
    """The outcomes that a caller can tell apart; `docs/reference/command.md` has the table."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    """The call was wrong. An unknown option ends the command line with this code."""
    NOBODY = 3
    """No service answers at the address."""


def exit_code(error: PenstockError) -> ExitCode:
    """Return the exit code for the family of *error*.

    >>> exit_code(ConfigError("port must be from 0 to 65535")).name
    'MISUSED'
    """
    match error:
        case ConfigError() | DatasetError():
            return ExitCode.MISUSED
        case Unavailable():
            return ExitCode.NOBODY
        case _:
            return ExitCode.FAILED


EVERY = 1.0
"""Seconds between two times that the file is touched."""


@asynccontextmanager
async def touching(file: str | None) -> AsyncIterator[None]:
    """Touch *file* each second while the block lasts and the event loop runs; then remove it.

    A health check by HTTP or gRPC needs a client with TLS, whose start takes a third of a second of
    a core in a container. For the age of a file, a shell is enough.

    Without a *file* nothing is done.

    Raises:
        ConfigError: when the file cannot be made.
    """
    if file is None:
        yield
        return
    path = Path(file)
    _make(path)
    task = asyncio.create_task(_touch_forever(path), name="touch the health file")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        _remove(path)


async def _touch_forever(path: Path) -> None:
    while True:
        await asyncio.sleep(EVERY)
        _touch(path)


def _make(path: Path) -> None:
    try:
        path.touch()
    except OSError as exc:
        raise ConfigError(f"health_file {str(path)!r} cannot be made: {exc}") from exc


def _touch(path: Path) -> None:
    with suppress(OSError):  # its age says so
        path.touch()


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
