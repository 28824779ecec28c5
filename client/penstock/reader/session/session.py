"""One reader at work: one lock around one core, for the loop's thread and the network.

The loop's thread pulls elements, and waits where there are none. The background thread brings
frames and views. Neither holds the lock while it waits, decodes or sends.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from penstock.element import Element
from penstock.errors import Closed, PenstockError, Reentered, Superseded, UnknownIteration
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.reader.core.effects import ReaderEffect
from penstock.reader.core.session_core import NoElement, SessionCore
from penstock.reader.core.task_stream import FrameSlice
from penstock.reader.session.answers import OPEN, WAKE_EVERY, SessionAnswers, state_of
from penstock.reader.session.deadlines import Ticks, WaitTimeout, leaves_owing, wait_reason
from penstock.reader.session.decompress_ahead import DecompressAhead
from penstock.reader.session.network import (
    CLOSE_WITHIN,
    OWING,
    OWING_WITHIN,
    SessionConfig,
    SessionNetwork,
)
from penstock.reader.session.payload import FramePayload
from penstock.runtime import clock
from penstock.runtime.event_loop import LoopThread
from penstock.runtime.interrupts import SingleEntry, outcome
from penstock.runtime.malloc import freed_memory

log = logging.getLogger("penstock.reader")

T = TypeVar("T")


class Session(SessionAnswers):
    """One training loop's reading of an iteration. Close it; `close` may come from any thread.

    *held* is what it keeps open beside the network, and closes last.
    """

    def __init__(
        self, core: SessionCore, config: SessionConfig, loop: LoopThread, held: ExitStack
    ) -> None:
        self.core = core
        self._config, self._loop, self._held = config, loop, held
        self._process = os.getpid()
        self._changed = SingleEntry()
        self._failure: BaseException | None = None
        self._closed = self._posted = False
        self._ticks, self._network_thread = Ticks(), 0
        self._ahead = DecompressAhead()
        self._slept_at = float("-inf")
        self._network = SessionNetwork(self, *config.network)
        self._running = loop.spawn(self._run())
        self._running.add_done_callback(self._network_over)
        OPEN.add(self)

    # --- operators behind the reader, and the outermost iterator ---

    def pull(self, limit: int | None = None, *, waiting: bool = False) -> list[Element]:
        """Return up to *limit* elements, unacked; blocks; [] at end or flush. Any thread.

        Each gets the next delivery tag of this session, 0, 1, 2, ... It is acked when the tracker
        names it unacked no more; at once, without a tracker. While not `over`, [] is a flush: the
        loop waits (`set_waiting`, or *waiting*), and it and others that wait have all that is left,
        so operators make do with what they have. What other readers requeue may come (`more`).

        Raises:
            PenstockError: what happened behind the elements that were returned before.
            WaitedTooLong: when the dispatcher or all workers are absent for too long.
            NotAsBefore: when what was to be replayed does not come first.
        """
        self.check_process()
        try:
            replay = self.core.replay
            while True:
                most = replay.bound(limit)
                piece = self._wait(lambda now: self.core.next_slice(now, most), waiting=waiting)  # noqa: B023
                if piece is None:
                    return []
                elements = piece.load.elements(piece.start, piece.stop)
                if self._apply_change(self.core.deliver, piece):
                    if isinstance(piece, FrameSlice):
                        replay.take(piece.frame.task, piece.start, len(elements))
                    return elements
        except BaseException:
            if not self.core.acks.tracked:
                self._apply_change(self.core.loop_running)
            raise

    @property
    def over(self) -> bool:
        """Whether the pass is over: everything is acked, and nothing will come any more."""
        return self.core.finished

    @property
    def session_id(self) -> str:
        """The id by which the dispatcher knows this reader."""
        return self.core.membership.session

    @property
    def delivered(self) -> int:
        """The next delivery tag; an interrupted `pull` may have lost elements before it."""
        return self.core.acks.deliveries.next_tag

    @property
    def ready(self) -> bool:
        """Whether `pull` would not wait."""
        return self.core.ready or self.core.finished

    @property
    def ready_here(self) -> bool:
        """Whether `pull` would not wait, in the thread that brings elements; False in others."""
        here = threading.get_ident() == self._network_thread and not self._closed
        return here and self.core.ready and clock.now() < self.core.lease_until

    def more(self) -> bool:
        """Wait until there is something to `pull`; False says that the pass is over.

        Raises:
            PenstockError, WaitedTooLong: as `pull`.
        """
        return self._wait(self.core.look) is not None

    def set_waiting(self, waiting: bool, /) -> None:
        """Note whether the loop waits for an element. When it does not, recalls are honoured.

        Then the tracker must know already that the first element of a new block is consumed.
        """
        if os.getpid() != self._process:
            return
        if waiting:
            with self._changed:
                self.core.loop_waiting()
        else:
            self._apply_change(self.core.loop_running)

    def await_lease(self) -> None:
        """Wait until elements may be handed out: within the lease, and not at a barrier.

        Raises:
            WaitedTooLong: when the dispatcher is absent for too long.
        """
        self.check_process()
        if clock.now() >= self.core.lease_until:
            self._wait(self.core.permit)

    @property
    def lease_until(self) -> float:
        """Until when elements may be handed out, by `penstock.runtime.clock`."""
        return self.core.lease_until

    @property
    def exists(self) -> bool:
        """Whether there is anything to read: False of a pass that was over, and is forgotten."""
        return bool(self.core.iteration)

    @property
    def skipped(self) -> int:
        """How many elements of its own this reader left out."""
        return self.core.skipped

    def requeue(self, tags: RangeSet) -> None:
        """Requeue the elements with *tags*, which were pulled and dropped."""
        self.check_process()
        self._apply_change(self.core.requeue, tags)

    def save(
        self, label: str, timeout: float | None = None, *, without_missing: bool = False
    ) -> bytes:
        """Save the whole job: hand out nothing until the save result, and return the job's state.

        All readers of the job must come here at the same step, with the same *label*. The others
        get *timeout* seconds. Whatever interrupts this, the barrier stays in force: the loop waits
        for its result, and the same call, if nothing was asked for in between, returns it.

        Raises:
            SaveFailed: the same for all readers; it says who is missing.
            WaitedTooLong: when the dispatcher is absent for longer than *timeout*.
        """
        self.check_process()
        timeout = self._config.timeout if timeout is None else timeout
        patience = WaitTimeout(timeout, clock.now(), "timeout={:g}")

        def ask(now: float) -> bytes | NoElement:
            result = self.core.save(label, timeout, now, without_missing=without_missing)
            return NoElement.WAIT if result is None else state_of(result)

        with self._changed:
            self.core.save_state.listeners += 1
            try:
                return self._answer(ask, patience) or b""
            finally:
                self.core.save_state.listeners -= 1

    # --- both ---

    def close(self) -> None:
        """Leave: send the last acks, and close everything. Idempotent.

        If the dispatcher is away, and nobody knows of some acks, another thread goes on with that
        for a minute.

        Raises:
            Reentered: in a signal handler, in the middle of a change: another thread must do it.
        """
        if os.getpid() != self._process:
            return  # A forked child has a copy: the reader lives in the parent.
        if threading.get_ident() == self._network_thread:
            # A finalizer, in the middle of anything: another thread can wait, this one cannot.
            threading.Thread(target=self.close, name="penstock-close", daemon=True).start()
            return
        with self._changed:
            first, self._closed = not self._closed, True
            if first:
                self.core.leave(clock.now())
                self._changed.notify_all()
        if not first:  # another thread may be closing it: after this, too, all is closed
            self._await_end()
            return
        try:
            self._loop.call_soon(self._network.leave)
            self._await_end()
            if self.core.owed:
                self._await_end(OWING_WITHIN - CLOSE_WITHIN)
        finally:
            owed = self.core.owed
            if owed and not self._running.done():
                later = OWING - OWING_WITHIN
                log.warning("%s", leaves_owing(self._config.dispatcher, owed, later))
                threading.Thread(target=self._end_late, name="penstock-close", daemon=True).start()
            else:
                self._end()

    def _end_late(self) -> None:
        self._await_end(OWING)
        self._end()

    def _end(self) -> None:
        self._running.cancel()
        self._held.close()
        self._ahead.close()
        with self._changed:  # now, not when the collector comes: workers wait for their memory
            self.core.let_go()

    def _await_end(self, seconds: float = CLOSE_WITHIN) -> None:
        with suppress(CancelledError, PenstockError, TimeoutError):
            outcome(self._running, seconds)

    def _wait(self, ask: Callable[[float], T | NoElement], *, waiting: bool = False) -> T | None:
        """Wait until *ask* has an answer; None is the end, of the pass or for now."""
        with self._changed:
            if waiting:
                self.core.loop_waiting()
            return self._answer(ask)

    def _answer(
        self, ask: Callable[[float], T | NoElement], patience: WaitTimeout | None = None
    ) -> T | None:
        """As `_wait`, within the lock; *patience*, or else the timeout, bounds it."""
        while True:
            self._check_open()
            now = clock.now()
            answer = ask(now)
            self._post_effects()
            if not isinstance(answer, NoElement):
                return answer
            if answer is not NoElement.WAIT:
                return None
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            patience = patience or WaitTimeout(self._config.timeout, now)
            self._sleep(patience, now)

    def _apply_change(self, change: Callable[..., T], *args: Any) -> T:
        """Call *change*, a method of the core, and have its effects performed."""
        with self._changed:
            result = change(*args, clock.now())
            self._post_effects()
            self._wake_clock()
            return result

    def _sleep(self, patience: WaitTimeout, now: float) -> None:
        """Wait until something changes, or patience ends. What time alone ends, the clock does."""
        if threading.get_ident() == self._network_thread:
            raise Reentered("this thread would wait for elements that it brings itself")
        why = wait_reason(self.core, self._config.dispatcher, self._network.reason, now)
        if line := patience.spend(why, now):
            log.warning("%s", line)
        self._slept_at = now
        # Acks of a loop that waits are due sooner: others, or the pass, may wait for just these.
        if self._ticks.interrupt_for(self.core.due(now)):
            self._loop.call_soon(self._network.wake)
        self._changed.wait(WAKE_EVERY)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("this iterator was closed; make another one with iter(dataset)")

    def _post_effects(self) -> None:
        if self.core.pressing and not self._posted:
            self._posted = True
            self._loop.call_soon(self._network.perform_or_fail)

    def _wake_clock(self) -> None:
        """Have the clock look again: what the loop consumes now is to be acked soon."""
        if self._ticks.interrupt():
            self._loop.call_soon(self._network.wake)

    # --- the network ---

    def apply(self, change: Callable[..., None], *args: Any) -> None:
        """Call *change*, a method of the core, and perform its effects."""
        with self._changed:
            change(*args, clock.now())
            self._changed.notify_all()
        self._network.perform()

    def on_frames(self, frames: Sequence[tuple[FrameHeader, memoryview]]) -> None:
        """Take in the frames of one message."""
        freed_memory.received(max(max(data.nbytes, head.raw_nbytes) for head, data in frames))
        with self._changed:
            now, writable = clock.now(), self._config.writable
            for frame, payload in frames:
                trace = self._network.trace if frame.traced else None
                load = FramePayload(frame, payload, self._ahead, writable=writable, trace=trace)
                self.core.on_frame(frame, load, payload.nbytes, now)
            # They end no other wait. In rounds most come early, and to wake a thread costs much.
            if self.core.ready:
                self._changed.notify_all()
            pressing = self.core.pressing
        if pressing:
            self._network.perform()

    def heartbeat(self) -> ReaderHeartbeat:
        """Return what to tell the dispatcher now."""
        with self._changed:
            return self.core.heartbeat(clock.now())

    def on_tick(self, idle_from: float) -> float:
        """Let the core do what is due; return in how many seconds it is due again.

        If that is longer than *idle_from*, `SessionNetwork.wake` is called when it has become less.
        """
        with self._changed:
            now = clock.now()
            self.core.on_tick(now)
            if self._ticks.wakes(now):
                self._changed.notify_all()
            delay = self._ticks.sleep(now, self.core.due(now), idle_from)
        self._network.perform()
        return delay

    def take_effects(self) -> list[ReaderEffect]:
        """Return the effects of the core that are to be performed."""
        with self._changed:
            self._posted = False
            return self.core.take_effects()

    def fail(self, failure: BaseException) -> None:
        """Tell the loop that nothing comes behind what is here; nor that, if others have it."""
        with self._changed:
            self._failure = failure
            if isinstance(failure, Superseded | UnknownIteration):
                self.core.stop(clock.now())
            self._changed.notify_all()

    async def _run(self) -> None:
        self._network_thread = threading.get_ident()
        await self._network.run()

    def _network_over(self, _running: Future[None]) -> None:
        """Fail the session if its network ended, at any step, with the loop: without `close`."""
        if not self._closed and self._failure is None:
            self.fail(Closed("the background loop was closed, and with it what this reads from"))
