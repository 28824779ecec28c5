"""A file whose age says whether a service works, for health checks that cost almost nothing.

A check by HTTP or gRPC needs a client with TLS. A container has only Python for that, whose start
takes a third of a second of a core. For a file's age, a shell is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from penstock.errors import ConfigError

EVERY = 1.0
"""Seconds between two times that the file is touched."""


@asynccontextmanager
async def touching(file: str | None) -> AsyncIterator[None]:
    """Touch *file* each second while the block lasts and the event loop runs; then remove it.

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
