"""One background thread with an event loop, shared by all users of asyncio in a process.

A training loop never touches asyncio; its connections live here. The thread starts with its
first user and ends with its last. The loop itself outlives its threads, because gRPC binds itself
to a loop and may call it after the last user has left.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
import operator
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from enum import IntEnum
from typing import Any, TypeVar

from penstock.errors import Closed, ConfigError, PenstockError, WaitedTooLong
from penstock.ipc.child import fill_standard_files
from penstock.runtime.descriptors import check_room
from penstock.runtime.interrupts import outcome, uninterrupted

log = logging.getLogger("penstock.loop")

T = TypeVar("T")

_CLOSING = 5.0
"""Seconds that tasks have to end when the loop ends and cancels them."""

_ATTEMPTS = 5
"""How often the loop cancels them in that time: a task that awaits a call may miss the first."""


class LoopThread:
    """An event loop that runs in a thread of its own. Get one with `LoopThread.shared()`.

    With *adopted*, it uses that loop, which runs in the current thread.
    """

    def __init__(self, adopted: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = _STAGES.loop() if adopted is None else adopted
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ending = asyncio.Event()
        self._over = False
        self._gate = threading.RLock()  # a finalizer may run while this thread holds it
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
        """Hold the process's loop; when its last user leaves, it cancels tasks that still run.

        Raises:
            ConfigError: in a process forked from one that used the loop: gRPC does not survive it.
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
        """Hold the process's loop if it runs; otherwise yield None and start no loop."""
        loop = _STAGES.enter_running()
        try:
            yield loop
        finally:
            if loop is not None:
                _STAGES.leave()

    @classmethod
    @asynccontextmanager
    async def adopted(cls) -> AsyncIterator[None]:
        """Make the running loop the loop of this process, if the process needs no other.

        Data that the process reads then arrives in the thread that serves it, without a switch of
        threads. On exit, this closes everything that would otherwise close when the process ends.

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
        """Run *coro* in the loop and wait for its result; after *timeout* seconds, cancel it.

        Raises:
            WaitedTooLong: when the time is over.
            Closed: when the loop is closed.
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
            del future  # its exception refers to this frame, and so to the call's objects

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
        # A loop has only weak references to its tasks, so keep strong ones here.
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
            # The loop's own executor can be shut down only once, and its threads would stay.
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
        await asyncio.sleep(0)  # calls that passed the gate become tasks now
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
    """Return a uvloop loop, which is faster, or asyncio's own if uvloop is not installed."""
    try:
        import uvloop  # noqa: PLC0415  # not installed everywhere
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _StageLoops:
    """The users of the process's loop."""

    def __init__(self) -> None:
        # A finalizer may leave in the middle of entering.
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
        """Return the event loop of this process. The thread that calls this must run it."""
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
        # Outside of the lock: the ending thread may itself need to leave.
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
        """Make *loop* the process's; its owner counts as a user and leaves with `abandon`."""
        with self._lock:
            if self._loop is not None:
                raise ConfigError("this process has a background loop already")
            self._process, self._loop = os.getpid(), loop
            self._users += 1

    def abandon(self) -> None:
        """Forget the loop; for remaining users, `leave` then ends nothing."""
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
            return  # the block was entered before a fork
        with self._lock:
            self._users -= 1
            ending = None if self._users else self._loop
            if ending is not None:
                self._loop = None
        if ending is not None:
            ending._end()  # noqa: SLF001

    def close(self) -> None:
        """End the loop although it has users, because the process ends."""
        if self._process != os.getpid():
            return
        with ExitStack() as acts:
            if self._loop is not None:
                acts.callback(self._loop._end)  # noqa: SLF001
            acts.callback(self.act)

    def act(self) -> None:
        """Call the functions that `at_exit` registered; the loop must still run."""
        with ExitStack() as acts:  # if one fails, the others still run
            for _, last_act in sorted(self.last_acts, key=operator.itemgetter(0), reverse=True):
                acts.callback(last_act)


class LoopStage(IntEnum):
    """The order in which things close as the process ends; the loop itself closes last."""

    READERS = 1
    """First, because servers in the same process must still answer readers that leave."""
    SERVERS = 2


def at_exit(stage: LoopStage, close: Callable[[], None]) -> None:
    """Call *close* when the process ends, if it used the loop."""
    _STAGES.last_acts.append((stage, close))


_STAGES = _StageLoops()
atexit.register(_STAGES.close)


INTERVAL = 0.0005
"""Seconds between turns of threads while any reader is open, in the whole process.

A training loop in pure Python keeps the interpreter for 5 ms at a time, and the thread that
receives needs it a dozen times a frame. With turns of 0.5 ms it receives twice as much or more."""


class _Readers:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may come in the middle of it
        self._count = 0
        self._before = INTERVAL

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, INTERVAL))

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            # Other code may have set it meanwhile: then it stays so.
            if self._count == 0 and abs(sys.getswitchinterval() - INTERVAL) < INTERVAL / 100:
                sys.setswitchinterval(self._before)


_READERS = _Readers()


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns often; the last exit restores the former interval."""
    _READERS.enter()
    try:
        yield
    finally:
        _READERS.leave()
