"""Where a training loop and the network meet: one lock around one mind.

The loop's thread takes blocks, and waits where there are none. The background loop's thread
brings frames and views. Neither holds the lock while it waits, decodes or sends.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, cast

from penstock.element import Element
from penstock.errors import Closed, PenstockError
from penstock.messages import Frame, ReaderBeat
from penstock.reader import clock
from penstock.reader.block import Block, Load
from penstock.reader.core import Reader
from penstock.reader.hand import Hand, Pause
from penstock.reader.network import Network
from penstock.reader.orders import Order
from penstock.reader.share import LONG_AGO
from penstock.reader.waiting import Patience, cause
from penstock.wire.loop import LoopThread

log = logging.getLogger("penstock.reader")

WAKE_EVERY = 1.0
"""Seconds after which a wait looks around, even if nothing happened."""

CLOSE_WITHIN = 0.8
"""Seconds that the network gets to close."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a session reads."""

    dispatcher: str
    beat_interval: float
    timeout: float
    writable: bool


class Session:
    """One training loop's reading of an iteration. Close it; `close` may come from any thread.

    *held* is what it keeps open beside the network, and closes last.
    """

    def __init__(self, core: Reader, manner: Manner, loop: LoopThread, held: ExitStack) -> None:
        self.core = core
        self._manner, self._loop, self._held = manner, loop, held
        self._process = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._failure: BaseException | None = None
        self._closed = False
        self._clock_idle = False
        self._network_thread = 0
        self._network = Network(self, manner.dispatcher, manner.beat_interval)
        self._running = loop.spawn(self._run())
        _OPEN.add(self)

    # --- the training loop ---

    def take(self, limit: int | None = None) -> list[Element]:
        """Return the next elements, at most *limit*, as taken; an empty list is the end.

        Raises:
            PenstockError: what happened behind the elements that were returned before.
            WaitedTooLong: when the dispatcher or all workers are absent for too long.
        """
        return self._next(limit, lambda _elements: None)[0]

    def hand(self) -> tuple[list[Element], Block | None]:
        """Return the next elements and, unless this is the end, the block that counts them.

        An element is taken when it is taken from the block's `rest`. The first one is.
        """
        return self._next(None, Block)

    def close(self) -> None:
        """Leave: say what was taken, and let go of everything. Idempotent."""
        if os.getpid() != self._process:
            return  # What a forked child has is a copy: the reader lives on in the parent.
        if threading.get_ident() == self._network_thread:
            # A finalizer, in the middle of anything: another thread can wait, this one cannot.
            threading.Thread(target=self.close, name="penstock-close", daemon=True).start()
            return
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self.core.leave(clock.now())
            self._changed.notify_all()
        try:
            self._loop.call_soon(self._network.leave)
            with suppress(concurrent.futures.CancelledError, PenstockError, TimeoutError):
                self._running.result(CLOSE_WITHIN)
        finally:
            self._running.cancel()
            self._held.close()

    def _next(
        self, limit: int | None, make: Callable[[list[Element]], Block | None]
    ) -> tuple[list[Element], Block | None]:
        if os.getpid() != self._process:  # not with the lock, which another thread may have held
            raise Closed(
                f"this iterator belongs to process {self._process}, and this is a child that was "
                "forked from it: connections do not survive a fork; make the iterator in the "
                "child, and start that with the 'spawn' or 'forkserver' method"
            )
        try:
            while True:
                hand = self._wait(limit)
                if hand is None:
                    return [], None
                elements = cast("Load", hand.piece.load).elements(hand.start, hand.stop)
                block = make(elements)
                with self._changed:
                    accepted = self.core.accept(hand, block, clock.now())
                    self._post_orders()
                    self._stir_clock()
                    if accepted:
                        return elements, block
        except BaseException:
            with self._changed:
                self.core.stop_asking(clock.now())
                self._post_orders()
            raise

    def _wait(self, limit: int | None) -> Hand | None:
        """Wait for elements; None is the end of the pass."""
        patience = Patience(self._manner.timeout, clock.now())
        with self._changed:
            while True:
                if self._closed:
                    raise Closed("this iterator was closed; make another one with iter(dataset)")
                now = clock.now()
                answer = self.core.ask(now, limit)
                self._post_orders()
                if isinstance(answer, Hand):
                    return answer
                if answer is Pause.OVER:
                    return None
                if self._failure is not None:
                    raise self._failure.with_traceback(None)
                self._grumble(patience, now)
                self._changed.wait(min(max(self.core.due(now) - now, 0.001), WAKE_EVERY))

    def _grumble(self, patience: Patience, now: float) -> None:
        why = cause(self.core, self._manner.dispatcher, self._network.trouble, now)
        if line := patience.spend(why, now):
            log.warning("%s", line)

    def _post_orders(self) -> None:
        if self.core.pressing:
            self._loop.call_soon(self._network.perform)

    def _stir_clock(self) -> None:
        """Have the clock look again: what the loop takes now is to be said soon."""
        if self._clock_idle:
            self._clock_idle = False
            self._loop.call_soon(self._network.stir)

    # --- the network ---

    def apply(self, change: Callable[..., None], *args: Any) -> None:
        """Tell the mind something by calling *change*, one of its methods, and do what follows."""
        with self._changed:
            change(*args, clock.now())
            if self.core.asking:
                self._changed.notify()
        self._network.perform()

    def received(self, frame: Frame, payload: memoryview) -> None:
        """Take in a frame."""
        load = Load(frame, payload, writable=self._manner.writable)
        self.apply(self.core.received, frame, load, payload.nbytes)

    def beat(self) -> ReaderBeat:
        """Return what to tell the dispatcher now."""
        with self._changed:
            return self.core.beat(clock.now())

    def tick(self, idle_from: float) -> float:
        """Let the mind do what is due; return in how many seconds it wants to be asked again.

        If that is longer than *idle_from*, `Network.stir` is called when it has become less.
        """
        self.apply(self.core.tick)
        with self._changed:
            now = clock.now()
            delay = self.core.due(now) - now
            self._clock_idle = delay > idle_from
        return max(delay, 0.001)

    def orders(self) -> list[Order]:
        """Return what the mind wants done."""
        with self._changed:
            return self.core.orders()

    def fail(self, failure: BaseException) -> None:
        """Tell the training loop that nothing more can come, behind what is here."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    async def _run(self) -> None:
        self._network_thread = threading.get_ident()
        await self._network.run()


_OPEN: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Leave before the process ends: the dispatcher need not wait for the lease."""
    for session in list(_OPEN):
        session.close()


def _disown() -> None:
    """Let nothing more be handed out here: this is a forked child, and the parent reads on."""
    for session in list(_OPEN):
        session.core.permitted_until = LONG_AGO


os.register_at_fork(after_in_child=_disown)
