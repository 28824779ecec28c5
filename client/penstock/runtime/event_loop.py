"""One background thread with an event loop, shared by everything that needs one in a process.

A training loop never touches asyncio; what it keeps open lives here. The thread starts with its
first user and ends with its last. The loop itself outlasts its threads: gRPC binds itself to a
loop, and may call it when the last user has gone.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import operator
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from enum import IntEnum
from typing import Any, TypeVar

from penstock.errors import Closed, ConfigError, PenstockError, WaitedTooLong
from penstock.ipc.standard_files import fill_standard_files
from penstock.runtime.descriptors import check_room
from penstock.runtime.interrupts import outcome, uninterrupted

log = logging.getLogger("penstock.loop")

T = TypeVar("T")

_CLOSING = 5.0
"""Seconds that tasks get to end when they are cancelled with the loop."""

_ATTEMPTS = 5
"""How often they are cancelled meanwhile: one that waits for a call may miss it at first."""


class LoopThread:
    """An event loop that runs in a thread of its own. Get one with `LoopThread.shared()`.

    With *adopted* it is that loop, which runs in the thread that is here.
    """

    def __init__(self, adopted: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = _STAGES.loop() if adopted is None else adopted
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ending = asyncio.Event()
        self._over = False
        self._gate = threading.RLock()  # a finalizer may come by while this thread holds it
        self._running: set[concurrent.futures.Future[Any]] = set()
        if adopted is not None:
            self._thread = threading.current_thread()
            self._started.set_result(None)
            return
        self._thread = threading.Thread(target=self._main, name="penstock-loop", daemon=True)
        self._thread.start()

    @classmethod
    @contextmanager
    def shared(cls) -> Iterator[LoopThread]:
        """Hold the process's loop; tasks still running when its last user leaves are cancelled.

        Raises:
            ConfigError: in a process forked from one that used it: gRPC does not survive that.
            Unavailable: when this process may not open as many files as connections need.
        """
        loop = _STAGES.enter(cls)
        try:
            yield loop
        finally:
            _STAGES.leave()

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[LoopThread | None]:
        """Hold the process's loop if it runs, else None: what is in it must not start another."""
        loop = _STAGES.enter_running()
        try:
            yield loop
        finally:
            if loop is not None:
                _STAGES.leave()

    @classmethod
    @asynccontextmanager
    async def adopted(cls) -> AsyncIterator[None]:
        """Have the loop that is running here be the process's, for a process that lives in it.

        So what it reads itself comes to the thread that serves it, with no turns between threads.
        At the end is closed what else would be when the process ends.

        Raises:
            ConfigError: when the process has one already.
        """
        loop = cls(asyncio.get_running_loop())
        _STAGES.adopt(loop)
        try:
            yield
        finally:
            await asyncio.to_thread(_STAGES.act)  # readers that leave need the loop
            with loop._gate:
                loop._over = True
            _STAGES.abandon()

    def run(self, coro: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run *coro* in the loop and wait for its result; after *timeout* seconds cancel it.

        Raises:
            WaitedTooLong: when the time is over.
            Closed: when the loop is.
        """
        if threading.current_thread() is self._thread:
            coro.close()
            raise ConfigError("this would wait for the loop in the loop's own thread: await it")
        return uninterrupted(lambda: self._run(coro, timeout))

    def _run(self, coro: Coroutine[Any, Any, T], timeout: float | None) -> T:
        future = self.spawn(coro)
        try:
            return outcome(future, timeout)
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
        finally:
            del future  # its exception holds this frame, and all that the call held

    def spawn(self, coro: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start *coro* in the loop; cancelling the future cancels it."""
        try:
            _STAGES.check_process()
            with self._gate:
                if self._over:
                    raise Closed("the background loop is closed: open what used it again")
                future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        except PenstockError:
            coro.close()
            raise
        # A loop has weak references to its tasks only: others must be kept.
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def call_soon(self, fn: Callable[..., object], *args: object) -> None:
        """Call *fn* in the loop; after the loop's end do nothing."""
        with self._gate:
            if not self._over:
                self._loop.call_soon_threadsafe(fn, *args)

    def _end(self) -> None:
        self.call_soon(self._ending.set)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * _CLOSING)

    def _main(self) -> None:
        with _STAGES.turn:  # the thread before this one may still be ending
            # The loop's own executor could be shut down once only, and its threads would stay.
            executor = ThreadPoolExecutor(thread_name_prefix="penstock-call")
            self._loop.set_default_executor(executor)
            asyncio.set_event_loop(self._loop)
            try:
                self._loop.run_until_complete(self._until_ended())
            finally:
                asyncio.set_event_loop(None)
                executor.shutdown(wait=False, cancel_futures=True)

    async def _until_ended(self) -> None:
        self._started.set_result(None)
        await self._ending.wait()
        with self._gate:
            self._over = True
        await asyncio.sleep(0)  # what came through the gate is a task now
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for _ in range(_ATTEMPTS):
            for task in others:
                task.cancel()
            if others:
                _, others = await asyncio.wait(others, timeout=_CLOSING / _ATTEMPTS)
        if others:
            names = ", ".join(sorted(task.get_name() for task in others))
            log.warning("the background loop ends, and these do not: %s", names)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop's, which is faster, or asyncio's where there is no uvloop."""
    try:
        import uvloop  # noqa: PLC0415  # not everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _StageLoops:
    """The users of the process's loop."""

    def __init__(self) -> None:
        # Leaving may happen in a finalizer, in the middle of entering.
        self._lock = threading.RLock()
        self._users = 0
        self._loop: LoopThread | None = None
        self._process: int | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self.last_acts: list[tuple[LoopStage, Callable[[], None]]] = []
        self.turn = threading.Lock()
        """Held by the thread that runs the event loop."""

    def check_process(self) -> None:
        """Refuse a process whose parent used gRPC."""
        if self._process not in (None, os.getpid()):
            raise ConfigError(
                "this process was forked from one that reads from Penstock, and gRPC does not "
                "survive a fork: start processes with the 'spawn' or 'forkserver' method, or "
                "open the dataset in the parent or in the child alone"
            )

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the process's event loop, for the one thread that runs it now."""
        if self._event_loop is None:
            self._event_loop = new_event_loop()
        return self._event_loop

    def enter(self, kind: type[LoopThread]) -> LoopThread:
        """Add a user."""
        self.check_process()
        with self._lock:
            if self._loop is None:
                fill_standard_files()
                check_room()
                self._process = os.getpid()
                self._loop = kind()
            self._users += 1
            loop = self._loop
        # Outside of the lock: a thread that ends may want to leave something itself.
        try:
            loop._started.result(3 * _CLOSING)  # noqa: SLF001
        except BaseException as exc:
            self.leave()
            if isinstance(exc, TimeoutError):
                raise WaitedTooLong(
                    f"the background loop did not come free within {3 * _CLOSING:g} s: something "
                    "that was left running in it blocks"
                ) from None
            raise
        return loop

    def adopt(self, loop: LoopThread) -> None:
        """Make *loop* the process's, with its owner as a user who leaves by `abandon`."""
        with self._lock:
            if self._loop is not None:
                raise ConfigError("this process has a background loop already")
            self._process, self._loop = os.getpid(), loop
            self._users += 1

    def abandon(self) -> None:
        """Have no loop any more; users that are left leave nothing."""
        with self._lock:
            self._loop = None
            self._users -= 1

    def enter_running(self) -> LoopThread | None:
        """Add a user of the loop that runs, if one does."""
        with self._lock:
            if self._loop is None or self._process != os.getpid():
                return None
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
        """End the loop, even if it is used: the process ends."""
        if self._process != os.getpid():
            return
        with ExitStack() as acts:
            if self._loop is not None:
                acts.callback(self._loop._end)  # noqa: SLF001
            acts.callback(self.act)

    def act(self) -> None:
        """Close what is to be closed before the loop is."""
        with ExitStack() as acts:  # one that fails keeps none of the others from it
            for _, last_act in sorted(self.last_acts, key=operator.itemgetter(0), reverse=True):
                acts.callback(last_act)


class LoopStage(IntEnum):
    """When something is closed as the process ends; the loop itself is last."""

    READERS = 1
    """While servers in the same process may still answer readers that leave."""
    SERVERS = 2


def at_exit(stage: LoopStage, close: Callable[[], None]) -> None:
    """Have *close* called as the process ends, if the loop was used."""
    _STAGES.last_acts.append((stage, close))


_STAGES = _StageLoops()
atexit.register(_STAGES.close)
