"""How much of its time a training loop waits, and what came to it, as readers report it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopTime:
    """So many *steps* of a loop took *seconds*, of which it *waited* some, up to now.

    Half of the steps waited no longer than *p50* seconds, 99 % no longer than *p99*. If the loop
    waits now it has done so for *waiting* seconds, for *waits_for*. *total* counts all its steps.
    """

    steps: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    p50: float = 0.0
    p99: float = 0.0
    waiting: float = 0.0
    waits_for: str = ""
    total: int = 0
    waits_here: bool = False
    """Whether what it waits for is an operator in its own process."""
    waited_here: float = 0.0
    """How long it *waited* for operators in its own process: all of it, unless it reads a job."""
    slowest_here: str = ""
    """The operator in its own process that worked longest."""
    worked_here: float = 0.0
    """How long that operator worked, in all threads."""
    cpu_here: float = 0.0
    """For how many of these seconds it needed a core; the rest it slept, or waited for others."""
    wanted: float = 0.0
    """How many times as much would have to be made for the loop never to wait; 0 if nobody said.

    It is -1 before it is known, and changes only when it is off by more than a third.
    """

    @property
    def rate(self) -> float:
        """Steps a second."""
        return self.steps / self.seconds if self.seconds > 0 else 0.0

    @property
    def share(self) -> float:
        """The share of its time that the loop waited, from 0 to 1."""
        return min(1.0, self.waited / self.seconds) if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PassRead:
    """A pass of a job that a loop reads, at the dispatcher of this address."""

    address: str
    iteration: int


@dataclass(frozen=True, slots=True)
class LinkTraffic:
    """What came from a worker by a *transport*: so many *frames*, of *nbytes* on the way.

    Decompressed these are *raw_nbytes*. *rate* is that of about the last ten seconds, in bytes a
    second on the way. *compression* is that of the newest frame. So many bytes are *held* here for
    the loop, where there is *room* for that many; 0 if frames are counted, not bytes.
    """

    worker: str
    transport: str
    frames: int
    nbytes: int
    raw_nbytes: int
    rate: float
    compression: str = ""
    held: int = 0
    room: int = 0
