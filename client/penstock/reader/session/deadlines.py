"""How long a training loop waits and for what, and when the clock of its session ticks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.errors import WaitedTooLong
from penstock.protocol.control import describe_save
from penstock.reader.core.session_core import SessionCore
from penstock.reader.core.task_stream import TaskStream

LOG_EVERY = 10.0
"""Seconds between log lines about a wait."""

LONGEST_STEP = 2.0
"""A wait wakes more often than this. If it did not, this process stood still: nothing is late."""


SETTING = "distribute(..., timeout={:g})"
"""Where a training loop's timeout is set."""

MOST_NAMED = 4
"""So many workers are named that a loop waits for."""

DRIFT = 1.2
"""A task that goes on elsewhere may have to wait for a dead reader's lease by another's clock."""


SILENCE = 3.0
"""Seconds until a reader hears that a consumer is absent: two heartbeats, and one to say so."""


class WaitTarget(Enum):
    """What a loop waits for."""

    DISPATCHER = "dispatcher"
    MESH = "mesh"
    WORKER = "worker"
    WORK = "work"
    """User code, or splits: that may take as long as it takes."""


@dataclass(frozen=True, slots=True)
class WaitReason:
    """Why a loop waits; *what* goes on behind "waiting for".

    Where it is right to wait so long, *grace* seconds are added to the timeout. What is known only
    *late* seconds after it began counts from then on, as far as this loop has waited since.
    """

    target: WaitTarget
    what: str
    grace: float = 0.0
    late: float = 0.0


def dispatcher_silent(address: str, reason: str) -> WaitReason:
    """Return the cause of a wait for a dispatcher; *reason* is what became of the last call."""
    return WaitReason(
        WaitTarget.DISPATCHER,
        f"the dispatcher at {address} to answer{f' ({reason})' * bool(reason)}",
    )


def wait_reason(core: SessionCore, address: str, reason: str, now: float) -> WaitReason:
    """Return why there is nothing for the loop; *reason* is that of the dispatcher's stream."""
    barrier = core.save_state.barrier
    if reason or core.reader is None or now >= core.membership.lease_until:
        return dispatcher_silent(address, reason)
    if barrier is not None:
        others = f"the job's other readers have {barrier.timeout:g} s to come to it"
        waits = f"; it waits for {core.waiting_for}" * bool(core.waiting_for)
        return WaitReason(
            WaitTarget.WORK, f"the result of {describe_save(barrier.label)}: {others}{waits}"
        )
    return _no_elements(core, address)


def _no_elements(core: SessionCore, address: str) -> WaitReason:
    if core.waiting_for and core.waits_for_work:
        return WaitReason(WaitTarget.WORK, core.waiting_for)
    if core.waiting_for:
        return WaitReason(
            WaitTarget.MESH,
            core.waiting_for,
            core.membership.lease * DRIFT if core.on_readers else 0.0,
            SILENCE if core.on_consumers else 0.0,
        )
    readable = [task_stream for task_stream in core.tasks.values() if task_stream.readable]
    if not readable:
        idle = sum(task_stream.between_attempts for task_stream in core.tasks.values())
        others = sum(task_stream.barred for task_stream in core.tasks.values())
        what = "tasks, or the end of the pass"
        if idle:
            what = f"a worker to run {_tasks(idle)}"
        elif others:
            what = f"{_tasks(others)}, whose workers this reader may not read, to be read by others"
        return _work(core, f"{what}, from the dispatcher at {address}")
    if not any(task_stream.flows for task_stream in readable):
        workers = dict.fromkeys(
            task_stream.worker for task_stream in readable if task_stream.worker is not None
        )
        return WaitReason(WaitTarget.WORKER, "; ".join(map(core.reachability.awaited, workers)))
    flowing = [task_stream for task_stream in readable if task_stream.flows]
    return _work(core, f"elements of {_named(flowing)}")


def _tasks(count: int) -> str:
    return f"{count} task{'s' * (count != 1)}"


def _named(streams: Sequence[TaskStream]) -> str:
    """Return how many tasks of which workers these are: the first ones, and how many more."""
    by_worker = Counter(str(one.worker) for one in streams)
    parts = [
        f"{_tasks(count)} of worker {worker}"
        for worker, count in sorted(by_worker.items())[:MOST_NAMED]
    ]
    if (more := len(by_worker) - MOST_NAMED) > 0:
        parts.append(f"and tasks of {more} more worker{'s' * (more > 1)}")
    return ", ".join(parts)


def _work(core: SessionCore, what: str) -> WaitReason:
    """Return the cause of a wait that may be for what silent readers buffered."""
    return WaitReason(WaitTarget.WORK, f"{what}; {core.held_by}" if core.held_by else what)


_SAME = {WaitTarget.MESH: WaitTarget.WORKER}
"""Where no worker can be read, it is one wait, for the mesh or for a worker."""


class WaitTimeout:
    """One wait of a training loop. Time counts while it is spent waiting for the same target."""

    def __init__(
        self,
        timeout: float,
        now: float,
        setting: str = SETTING,
        longest_step: float = LONGEST_STEP,
    ) -> None:
        self._timeout, self._longest_step = timeout, longest_step
        self._setting = setting
        self._target: WaitTarget | None = None
        self._last = self._began = now
        self._spent = self._logged = 0.0
        self._since = 0.0

    @property
    def left(self) -> float:
        """Seconds that may still be spent on the same target."""
        return max(0.0, self._timeout - self._spent)

    def spend(self, why: WaitReason, now: float) -> str:
        """Count the time since the last call as spent on *why*; return what is to be logged.

        Raises:
            WaitedTooLong: when the timeout is over, unless the wait is for work.
        """
        target = _SAME.get(why.target, why.target)
        if target is not self._target:
            self._target, self._logged = target, 0.0
            self._spent = min(now - self._began, why.late)
            self._since = time.time() - self._spent
        else:
            self._spent += min(now - self._last, self._longest_step)
        self._last = now
        bounded, longest = why.target is not WaitTarget.WORK, self._timeout + why.grace
        if bounded and self._spent >= longest:
            more = f", and {why.grace:g} s more for a silent reader," * bool(why.grace)
            raise WaitedTooLong(
                f"waited {self._spent:.1f} s, from {_time_of_day(self._since)} to "
                f"{_time_of_day(time.time())}, for {why.what}; "
                f"{self._setting.format(self._timeout)}{more} says how long"
            )
        if self._spent < self._logged + LOG_EVERY:
            return ""
        self._logged = self._spent
        until = f", at most {longest:g} s" if bounded else ""
        since = _time_of_day(self._since)
        return f"waiting since {since} ({self._spent:.0f} s{until}) for {why.what}"


def _time_of_day(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def leaves_owing(dispatcher: str, owed: int, seconds: float) -> str:
    """Say that a reader leaves, and that *dispatcher* does not know of *owed* elements yet."""
    return (
        f"the dispatcher at {dispatcher} does not answer a reader that leaves, and does not know "
        f"of {owed} elements that were read here. The reader tells it as soon as it answers, for "
        f"{seconds:g} s and while this process lives; otherwise these elements come again"
    )


TICKS_WAKE_EVERY = 0.05
"""Seconds between two looks of a wait because of time alone: hardly any wait ends by that, and to
wake a thread at each tick of the clock would cost more than the tick."""

LEAST = 0.001
"""Seconds between two ticks, at least."""

SOONER = 0.004
"""By so many seconds a tick has to come sooner for that to be worth another thread's time."""


class Ticks:
    """When a session's clock ticks. The session's lock is held for every call."""

    def __init__(self) -> None:
        self._idle = False
        self._next_at = float("-inf")
        self._woken_at = float("-inf")

    def wakes(self, now: float) -> bool:
        """Return whether the tick at *now* has waits look again."""
        if now < self._woken_at + TICKS_WAKE_EVERY:
            return False
        self._woken_at = now
        return True

    def sleep(self, now: float, due: float, idle_from: float) -> float:
        """Return for how many seconds the clock sleeps from *now* when something is *due*.

        From *idle_from* seconds on it has to be interrupted when something is due earlier.
        """
        self._idle = due - now > idle_from
        self._next_at = max(due, now + LEAST)
        return self._next_at - now

    def interrupt(self) -> bool:
        """Return, once a sleep, whether the clock has to look again."""
        idle, self._idle = self._idle, False
        return idle

    def interrupt_for(self, due: float) -> bool:
        """Return, once, whether the clock has to look again for what has become *due* sooner."""
        if self._idle or due + SOONER < self._next_at:
            self._idle, self._next_at = False, due
            return True
        return False
