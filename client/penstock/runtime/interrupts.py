"""Code that no signal handler can interrupt, and the places in it where handlers may run.

A signal handler runs in the main thread between any two steps of Python. If it raises, as Ctrl-C
does with KeyboardInterrupt, or an alarm with TimeoutError, the interrupted code stays half done. A
lock is taken and never released; an element is taken and never returned. A ``try`` does not help,
because its own first step can be interrupted as well.

So this module replaces the process's handlers by stand-ins. While the main thread changes something
(`uninterrupted`), a stand-in only notes the signal; the handler runs when the change is complete.
If the main thread waits, or runs a user's function (`interruptible`), the handler runs at once.
`signal.getsignal` may return a stand-in, which can be called, stored and set like the handler.

The innermost marked function in the call stack decides which of the two applies. A section ends in
a single step: one call of C code, in which Python runs no handlers. It returns the result,
restores the handler of Ctrl-C and raises the noted signals.

`is_interrupt` tells an exception meant for the whole process from a user function's own.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # of `signal`, without its enums: much faster
import _thread
import contextlib
import itertools
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any, TypeAlias, TypeVar

from penstock.errors import Reentered

T = TypeVar("T")

_raise_signal: Callable[[int], None] = _thread.interrupt_main  # type: ignore[assignment]  # as above

_Handler: TypeAlias = Callable[[int, FrameType | None], Any]

_NAMES = ("INT", "ALRM", "TERM", "HUP", "USR1", "USR2", "VTALRM", "PROF", "QUIT", "BREAK")
_SIGNALS = tuple(int(n) for n in signal.valid_signals() if getattr(n, "name", "")[3:] in _NAMES)
"""The signals for which programs set handlers that raise."""

_CTRL_C = int(signal.SIGINT)

_came: list[int] = []
"""Signals that arrived in sections; their handlers have not run yet."""
_STRUCK = "_penstock_signal"
"""The attribute of an exception that a signal handler raised."""


class _StandIn:
    """Replaces a *handler* of the process, and calls it outside of sections."""

    __slots__ = ("handler",)

    def __init__(self, handler: _Handler) -> None:
        self.handler = handler

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        place = frame
        while place is not None and place.f_code is not _WINDOW:
            if place.f_code in _SECTIONS:
                _came.append(signum)
                return
            place = place.f_back
        try:
            self.handler(signum, frame)
        except BaseException as exc:
            exc.__dict__[_STRUCK] = True
            raise


_FOR_CTRL_C = _StandIn(signal.default_int_handler)


def _hold() -> bool:
    """Install stand-ins for all handlers; return whether `_ends` must restore Ctrl-C's handler.

    Other code, such as `asyncio.run`, looks for Python's own handler of Ctrl-C, so that handler has
    a stand-in only within sections. Other stand-ins stay: to restore several takes several steps.
    """
    mine = False
    if not in_main_thread():
        return mine
    try:
        for signum in _SIGNALS:
            handler = _signal.getsignal(signum)
            if signum == _CTRL_C and handler is signal.default_int_handler:
                mine = True
                _signal.signal(signum, _FOR_CTRL_C)
            elif callable(handler) and type(handler) is not _StandIn:
                _signal.signal(signum, _StandIn(handler))
    except BaseException as exc:
        if isinstance(exc, ValueError) and exc.__traceback__ and not exc.__traceback__.tb_next:
            return False  # a subinterpreter: only the main interpreter handles signals
        for _ in _ends(mine):
            raise
    return mine


def _ends(mine: bool) -> Iterator[object]:
    """Return an iterator in C whose one item ends a section, in one step.

    The step restores the handler of Ctrl-C that the section replaced, unless a user's function has
    set another one. It raises the noted signals again. Their handlers run at the next step that
    Python can interrupt. After ``for given, _ in zip((result,), _ends(mine)): return given``, that
    is a step of the caller, which already has the result.
    """
    if (not mine and not _came) or not in_main_thread():
        return iter((None,))
    back = []
    if mine and _signal.getsignal(_CTRL_C) is _FOR_CTRL_C:
        back.append((_CTRL_C, signal.default_int_handler))  # one: it handles signals before each
    return zip(
        map(list, [itertools.starmap(_signal.signal, back)]),
        map(list, [map(_raise_signal, _came)]),
        map(list.clear, [_came]),
        strict=True,
    )


def uninterrupted(call: Callable[[], T]) -> T:
    """Return what *call* returns; signal handlers run after it, or in `interruptible` parts."""
    mine = False
    try:
        mine = _hold()
        result = call()
        for given, _ in zip((result,), _ends(mine), strict=True):
            return given
    except BaseException:
        for _ in _ends(mine):
            raise
        raise
    raise AssertionError("an end has one item")


def interruptible(call: Callable[..., T], *args: object) -> T:
    """Return what *call* returns; if a signal handler raises during it, raise that at once.

    The caller must not depend on what *call* has done until then.
    """
    if _came and in_main_thread():
        signums, _came[:] = tuple(_came), ()
        for signum in signums:
            _raise_signal(signum)
    return call(*args)


def breathe() -> None:
    """Run the handlers of noted signals now."""
    if _came and in_main_thread():
        interruptible(bool)


def outcome(future: Future[T], timeout: float | None = None) -> T:
    """Return what `Future.result` does; in a section, the wait for it is `interruptible`.

    A signal can interrupt the future's own wait half-way. Then the lock of its condition stays
    taken, and the thread that sets the result waits forever.

    Raises:
        TimeoutError: after *timeout* seconds.
    """
    if not future.done():
        waiter = threading.Lock()
        waiter.acquire()
        future.add_done_callback(lambda _: waiter.release())
        interruptible(waiter.acquire, True, -1 if timeout is None else timeout)
    return future.result(0)


class InterruptibleCondition(threading.Condition):
    """A condition for sections: a signal handler may interrupt its `wait` without damage.

    The `wait` of `threading.Condition` can be interrupted between releasing the lock and waiting.
    """

    _release_save: Callable[[], Any]
    _acquire_restore: Callable[[Any], None]
    _waiters: deque[threading.Lock]

    def wait(self, timeout: float | None = None) -> bool:
        """See `threading.Condition`. If a handler raises, this takes the lock again first."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        saved = self._release_save()
        try:
            return interruptible(waiter.acquire, True, -1 if timeout is None else timeout)
        finally:
            self._acquire_restore(saved)
            with suppress(ValueError):
                self._waiters.remove(waiter)


def is_interrupt(exc: BaseException) -> bool:
    """Return whether *exc*, raised in a user's function, is meant for the whole process.

    `sys.exit` in a library that a function calls is an error of the function's element. Ctrl-C, or
    an error from an alarm's handler, is not: it only happens to arrive while the function runs.
    Python runs signal handlers in the main thread only. Penstock's own processes ignore SIGINT, and
    nothing interrupts functions there.
    """
    if getattr(exc, _STRUCK, False):
        return True
    if isinstance(exc, Exception) or not in_main_thread():
        return False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return False
    return not isinstance(exc, SystemExit) or _is_from_handler(exc)


def _is_from_handler(exc: BaseException) -> bool:
    """Return whether *exc* passed through a frame of a signal handler."""
    handlers = _codes_of_handlers()
    step = exc.__traceback__
    while step is not None:
        if step.tb_frame.f_code in handlers:
            return True
        step = step.tb_next
    return False


def _codes_of_handlers() -> set[CodeType]:
    found = [signal.getsignal(number) for number in signal.valid_signals()]
    handlers = [each.handler if isinstance(each, _StandIn) else each for each in found]
    made = [getattr(handler, "func", handler) for handler in handlers if callable(handler)]
    calls = [call if hasattr(call, "__code__") else type(call).__call__ for call in made]
    bound = [getattr(call, "__func__", call) for call in [*made, *calls]]
    return {call.__code__ for call in bound if hasattr(call, "__code__")}


def in_main_thread() -> bool:
    """Return whether this is the thread in which signal handlers run."""
    return threading.get_ident() == threading.main_thread().ident


_SECTIONS = {uninterrupted.__code__, _hold.__code__}
_WINDOW = interruptible.__code__


A_MOMENT = 0.5
"""Seconds that a finaliser waits by default; the closing may continue after that."""

OURS = "penstock-"
"""The prefix of Penstock's own threads. They do not wait, because others wait for them."""


def close_dropped(close: Callable[[], object], seconds: float = A_MOMENT) -> None:
    """Call *close* in another thread, and wait at most *seconds*. For finalisers only.

    The garbage collector runs finalisers in any thread, at any point, and that thread may hold any
    lock. So a finaliser that must take a lock or wait starts a thread that does the closing. Most
    finalisers run where the last reference was dropped. That thread waits a short time, so that
    ``del iterator`` usually returns when all is closed.
    """
    if sys.is_finalizing():
        return  # threads have stopped where they were, perhaps with a lock held
    # Python may refuse a new thread while the process ends, or if there are too many.
    with contextlib.suppress(RuntimeError):
        # A daemon, so that a closing that hangs does not keep the process alive.
        thread = threading.Thread(target=close, name=f"{OURS}close", daemon=True)
        uninterrupted(thread.start)
        if not in_own_thread():
            thread.join(seconds)


def in_own_thread() -> bool:
    """Return whether this is one of Penstock's own threads."""
    return threading.current_thread().name.startswith(OURS)


class SingleEntry(InterruptibleCondition):
    """A condition that raises `Reentered` in a thread that is inside already.

    A signal handler runs in the main thread at any point, even during a change that this thread is
    making. With a plain lock, the thread would wait for itself. With a re-entrant lock, the handler
    would work on half-changed data.
    """

    def __init__(self) -> None:
        self._entry = threading.RLock()
        super().__init__(self._entry)
        self._is_inside = self._entry._is_owned  # type: ignore[attr-defined]  # noqa: SLF001

    def __enter__(self) -> bool:
        if self._is_inside():
            raise Reentered(
                "a signal handler called this in the middle of another call, where it cannot be "
                "done: let the handler set a flag, and look at that between two elements"
            )
        try:
            return self._entry.acquire()  # on the way of every block: `super` would cost as much
        except BaseException:  # of a signal handler, outside of any section: the lock may be taken
            with suppress(RuntimeError):
                self._entry.release()
            raise
