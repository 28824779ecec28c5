"""One background thread with an event loop, shared by all that need one in a process.

A training loop never touches asyncio; what it holds open lives here. The thread starts with its
first user and ends with its last.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from penstock.errors import Closed, ConfigError, WaitedTooLong

T = TypeVar("T")

_CLOSING = 5.0
"""Seconds that tasks get to end when they are cancelled with the loop."""


class LoopThread:
    """An event loop that runs in a thread of its own. Get one with `LoopThread.shared()`."""

    def __init__(self) -> None:
        started: concurrent.futures.Future[asyncio.AbstractEventLoop] = concurrent.futures.Future()
        self._ending = asyncio.Event()
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._thread = threading.Thread(
            target=self._main, args=(started,), name="penstock-loop", daemon=True
        )
        self._thread.start()
        self._loop = started.result()

    @classmethod
    @contextmanager
    def shared(cls) -> Iterator[LoopThread]:
        """Hold the process's loop; tasks still running when its last user leaves are cancelled.

        Raises:
            ConfigError: in a process forked from one that used it: gRPC does not survive that.
        """
        loop = _HOUSE.enter(cls)
        try:
            yield loop
        finally:
            _HOUSE.leave()

    def run(self, coro: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run *coro* in the loop and wait for its result; after *timeout* seconds cancel it.

        Raises:
            WaitedTooLong: when the time is over.
            Closed: when the loop is.
        """
        if threading.current_thread() is self._thread:
            coro.close()
            raise ConfigError("this would wait for the loop in the loop's own thread: await it")
        future = self.spawn(coro)
        try:
            return future.result(timeout)
        except concurrent.futures.CancelledError:
            raise Closed("the background loop was closed during this call") from None
        except TimeoutError:
            if future.done():  # the coroutine's own
                raise
            future.cancel()
            raise WaitedTooLong(f"nothing came back within {timeout:g} s") from None
        except BaseException:
            future.cancel()
            raise

    def spawn(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start *coro* in the loop; cancelling the future cancels it."""
        try:
            _HOUSE.check_process()
            future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        except ConfigError:
            coro.close()
            raise
        except RuntimeError:
            coro.close()
            raise Closed("the background loop is closed: open what used it again") from None
        # A loop knows its tasks by weak references: somebody must hold them.
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def call_soon(self, fn: Callable[..., object], *args: object) -> None:
        """Call *fn* in the loop; after the loop's end do nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(fn, *args)

    def _end(self) -> None:
        self.call_soon(self._ending.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _CLOSING)

    def _main(self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]) -> None:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(self._until_ended(started))

    async def _until_ended(
        self, started: concurrent.futures.Future[asyncio.AbstractEventLoop]
    ) -> None:
        started.set_result(asyncio.get_running_loop())
        await self._ending.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_CLOSING)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415  # not everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _House:
    """Who uses the process's loop."""

    def __init__(self) -> None:
        # Leaving may happen in a finalizer, in the middle of entering.
        self._lock = threading.RLock()
        self._users = 0
        self._loop: LoopThread | None = None
        self._process: int | None = None

    def check_process(self) -> None:
        """Refuse a process whose parent used gRPC."""
        if self._process not in (None, os.getpid()):
            raise ConfigError(
                "this process was forked from one that reads from Penstock, and gRPC does not "
                "survive a fork: start processes with the 'spawn' or 'forkserver' method, or "
                "open the dataset in the parent or in the child alone"
            )

    def enter(self, kind: type[LoopThread]) -> LoopThread:
        """Add a user."""
        self.check_process()
        with self._lock:
            if self._loop is None:
                self._process = os.getpid()
                self._loop = kind()
            self._users += 1
            return self._loop

    def leave(self) -> None:
        """Remove a user; the last one ends the loop."""
        if self._process != os.getpid():
            return  # a block that was entered before a fork
        with self._lock:
            self._users -= 1
            ending = None if self._users else self._loop
            if ending is not None:
                self._loop = None
        if ending is not None:
            ending._end()  # noqa: SLF001

    def close(self) -> None:
        """End the loop, whoever uses it: the process ends."""
        if self._process == os.getpid() and self._loop is not None:
            self._loop._end()  # noqa: SLF001


_HOUSE = _House()
atexit.register(_HOUSE.close)
