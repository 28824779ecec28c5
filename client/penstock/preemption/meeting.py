"""Exchanges a trainer's reports and the dispatcher's answers about the step at which all stop."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import PenstockError
from penstock.preemption.agreement import Agreements
from penstock.protocol.calls import PreemptionReport, PreemptionVerdict
from penstock.protocol.types import WorkerId
from penstock.runtime.interrupts import InterruptibleCondition, uninterrupted
from penstock.runtime.linux import boot_id

if TYPE_CHECKING:
    from penstock.wire.dispatcher import DispatcherClient

log = logging.getLogger("penstock.preemption")

ANSWER_WITHIN = 2.0
"""Seconds that the dispatcher gets to answer a report."""

LEAVES_WITHIN = 20.0
"""Seconds for which to ask a dispatcher that does not answer to drain data workers."""


class Meeting(Protocol):
    """Where trainers meet."""

    def report(self, said: PreemptionReport) -> PreemptionVerdict:
        """Return what a trainer is told.

        Raises:
            PenstockError: when nobody answers, or the group has stopped without this trainer.
        """
        ...

    def leave_host(self) -> None:
        """Have data workers of this host hand their tasks over: it is to be taken away.

        Raises:
            PenstockError: when nobody answers, or this trainer may not say so.
        """
        ...


class AloneHere:
    """A trainer that meets nobody: it reads from no dispatcher."""

    def __init__(self) -> None:
        self._agreements = Agreements((), lambda _: None)

    def report(self, said: PreemptionReport) -> PreemptionVerdict:
        """See `Meeting.report`."""
        return self._agreements.report(said, time.monotonic())

    def leave_host(self) -> None:
        """See `Meeting.leave_host`: nobody is known."""


class AtDispatcher:
    """Trainers that meet at the dispatcher of *address*."""

    def __init__(self, address: str) -> None:
        self._address = address

    def report(self, said: PreemptionReport) -> PreemptionVerdict:
        """See `Meeting.report`."""
        # They load gRPC.
        from penstock.runtime.event_loop import LoopThread  # noqa: PLC0415
        from penstock.wire.connection import connect  # noqa: PLC0415
        from penstock.wire.dispatcher import REPORT  # noqa: PLC0415

        async def call() -> PreemptionVerdict:
            async with connect(self._address, patience=ANSWER_WITHIN) as channel:
                return await REPORT.call(channel, said, ANSWER_WITHIN)

        with LoopThread.shared() as loop:
            return loop.run(call())

    def leave_host(self) -> None:
        """See `Meeting.leave_host`."""
        from penstock.reader.session.line import call_dispatcher  # noqa: PLC0415  as above
        from penstock.runtime.event_loop import LoopThread  # noqa: PLC0415

        def call(dispatcher: DispatcherClient) -> Awaitable[tuple[WorkerId, ...]]:
            return dispatcher.drain_host(boot_id())

        with LoopThread.shared() as loop:
            told = loop.run(call_dispatcher(self._address, LEAVES_WITHIN, call))
        if told:
            log.warning("data workers of this host hand their tasks over: %s", ", ".join(told))
        else:
            log.warning("data workers of this host keep their tasks: there are no other workers")


class News:
    """Wakes a training loop that waits for what its trainer is told next."""

    def __init__(self) -> None:
        self._changed = InterruptibleCondition()

    def wait(self, needed: Callable[[], bool], seconds: float) -> None:
        """Wait for news for at most *seconds*, if they are still *needed*."""

        def wait() -> None:
            with self._changed:
                if needed():
                    self._changed.wait(seconds)

        uninterrupted(wait)

    def tell(self, take: Callable[[], None]) -> None:
        """Have *take* note the news, and wake the loop."""

        def tell() -> None:
            with self._changed:
                take()
                self._changed.notify_all()

        uninterrupted(tell)


class Reports:
    """Reports of one trainer: *state* returns a report, *hear* takes the answer.

    Every *interval* seconds a thread reports; `now` does so at once. If no answer comes, this
    is logged once.
    """

    def __init__(
        self,
        meeting: Meeting,
        state: Callable[[], PreemptionReport],
        hear: Callable[[PreemptionVerdict], None],
        interval: float,
    ) -> None:
        self._meeting, self._state, self._hear = meeting, state, hear
        self._interval = interval
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._silent_since: float | None = None
        self._thread = threading.Thread(
            target=self._forever, name="penstock-preemption", daemon=True
        )

    @property
    def silent_for(self) -> float:
        """For how many seconds reports have had no answer; 0 if the last one had."""
        return 0.0 if self._silent_since is None else time.monotonic() - self._silent_since

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def now(self) -> bool:
        """Report, and return whether there was an answer.

        Raises:
            PenstockError: when the group has stopped without this trainer.
        """
        with self._turn:
            try:
                verdict = self._meeting.report(self._state())
            except PenstockError as exc:
                if not exc.retryable:
                    self._silent_since = None  # it is an answer, which each step asks for again
                    raise
                if self._silent_since is None:
                    self._silent_since = time.monotonic()
                    log.warning(
                        "trainers cannot agree on a step to stop at, because the dispatcher does "
                        "not answer (%s); training continues",
                        exc,
                    )
                return False
            self._silent_since = None
            self._hear(verdict)
            return True

    def stop(self) -> None:
        """Report no more by itself. Idempotent."""
        self._over.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(ANSWER_WITHIN + self._interval)

    def _forever(self) -> None:
        while not self._over.wait(self._interval):
            try:
                self.now()
            except PenstockError as exc:
                log.error("%s", exc)  # noqa: TRY400  it says itself what happened
                return


def meeting_of(target: str | None, iterators: Sequence[Any]) -> Meeting:
    """Return where trainers meet: at *target*, or where the first of *iterators* reads from."""
    if target is None:
        for one in iterators:
            for read in one.stats().passes:
                return AtDispatcher(read.address)
        return AloneHere()
    from penstock.environment.detect import cluster_environment  # noqa: PLC0415  seldom needed
    from penstock.reader.arguments import (  # noqa: PLC0415  as above
        ENV,
        dispatcher_of,
        service_of,
    )

    return AtDispatcher(
        service_of(dispatcher_of(cluster_environment()) if target == ENV else target)
    )
