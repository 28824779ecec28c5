"""Threads that call functions for operators, for the length of a run."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

from penstock.errors import Closed
from penstock.runtime.interrupts import breathe

T = TypeVar("T")
_Job: TypeAlias = tuple["Future[Any]", Callable[[], Any]]

LOOK_AROUND = 1.0
"""Seconds after which a wait for a thread looks again: a signal handler may close what it waits
for between its look and its wait, and then nothing wakes it."""


A_MOMENT = 0.1
"""Seconds after which a wait for one of several calls looks again, and signal handlers run."""


def start_thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon: a call that never returns must not keep the process from ending."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


def check_process(process: int) -> None:
    """Check that this is still the *process* that started an iterator's threads.

    Raises:
        Closed: when this is a fork of it, where nothing would ever come of them.
    """
    if os.getpid() != process:
        raise Closed(
            f"this iterator belongs to process {process}, and this is a child that was forked from "
            "it: threads do not survive a fork; make the iterator in the child"
        )


def await_any(futures: Iterable[Future[Any]]) -> None:
    """Wait until one of *futures* is done, or for a moment: whoever waits looks again."""
    wait(tuple(futures), A_MOMENT, FIRST_COMPLETED)
    breathe()


def join_threads(threads: Iterable[threading.Thread], seconds: float) -> None:
    """Wait for *threads* to end, but for all of them not longer than so many *seconds*."""
    deadline = time.monotonic() + seconds
    for thread in threads:
        # Garbage collection may close an iterator in a thread of its own.
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))


class ThreadPool:
    """Up to *limit* daemon threads, started as they are needed.

    Unlike those of `concurrent.futures` they keep no process from ending, and `close` wakes
    what waits for a call, also for one that never returns.
    """

    def __init__(self, limit: int, name: str) -> None:
        self._limit, self._name = limit, name
        self._todo: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._process = 0
        """The process in which its threads are."""
        self._started = 0
        """How many of them are not told to end."""
        self._waiting: set[Future[Any]] = set()
        self._lock = threading.RLock()  # a signal handler may close it in the middle of `submit`
        self._closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Have *call* made by a thread.

        Raises:
            Closed: when the pool was closed.
            RuntimeError: when the system does not let it have a single thread.
        """
        self.check_process()
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise Closed("this iterator was closed while it waited for an element")
            if self._started < min(self._limit, len(self._waiting) + 1):
                self._start_thread()
            self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        self._todo.put((future, call))
        if self._closed:  # by a signal handler, in the middle of this
            self._drop_all()
        return future

    def check_process(self) -> None:
        """Check that this is no fork of the process that its threads are in.

        Raises:
            Closed: when it is: see `check_process`.
        """
        if self._threads:
            check_process(self._process)

    def resize(self, limit: int) -> None:
        """Have up to *limit* threads from now on; surplus ones end behind what was submitted."""
        with self._lock:
            self._limit = limit
            while self._started > limit:
                self._started -= 1
                self._todo.put(None)

    def close(self) -> None:
        """Fail all calls that are not done, and let the threads end when they can."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._drop_all()

    def _drop_all(self) -> None:
        for _ in self._threads:
            self._todo.put(None)
        for future in tuple(self._waiting):
            with contextlib.suppress(InvalidStateError):
                future.set_exception(Closed("this iterator was closed while it waited"))

    def join(self, seconds: float) -> None:
        """Wait for the threads to end, but not longer than so many *seconds*."""
        join_threads(self._threads, seconds)

    def __del__(self) -> None:
        if not sys.is_finalizing():  # then the threads have stopped, perhaps with a lock held
            self.close()

    def _start_thread(self) -> None:
        try:
            thread = start_thread(partial(_work, self._todo), self._name)
        except RuntimeError:  # the system has no more
            if not self._started:
                raise
            return  # those that there are do it, too
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(thread)
        self._process = os.getpid()
        self._started += 1


def _work(todo: SimpleQueue[_Job | None]) -> None:
    # Refers to the queue, not the pool: a pool that is dropped is collected, and that ends it.
    while (job := todo.get()) is not None:
        future, call = job
        if not future.done():
            _make(future, call)
        del job, future, call


def _make(future: Future[Any], call: Callable[[], Any]) -> None:
    try:
        future.set_result(call())
    except BaseException as exc:  # noqa: BLE001  it is raised where the outcome is asked for
        with contextlib.suppress(InvalidStateError):  # the pool was closed first
            future.set_exception(exc)
    finally:
        # This frame lives as long as an error that was made below it: it must not hold the outcome.
        del future
