"""A training loop as readers report it: where it runs, how long it waits, what workers send it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReaderProcess:
    """Where a training loop runs. *rank* is that of its launcher (``RANK``), if one gave it any.

    *penstock* and *python* are its versions.
    """

    host: str
    pid: int
    rank: int | None = None
    penstock: str = ""
    python: str = ""

    def __str__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"host {self.host}, pid {self.pid}{rank}"


@dataclass(frozen=True, slots=True)
class LoopTime:
    """The time of a training loop: *steps* took *seconds*, and the loop *waited* for some of them.

    Half of the steps waited no longer than *p50* seconds, 99 % no longer than *p99*. If the loop
    waits now, it has waited for *waiting* seconds, for *waits_for*. *total* counts all its steps.
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
    """Whether it waits for an operator in its own process."""
    waited_here: float = 0.0
    """The part of *waited* for operators in its own process: all, unless it reads a job."""
    slowest_here: str = ""
    """The operator in its own process that worked longest."""
    worked_here: float = 0.0
    """How long that operator worked, in all threads."""
    cpu_here: float = 0.0
    """For how many of these seconds that operator needed a core; otherwise it slept or waited."""
    wanted: float = 0.0
    """The factor of throughput with which the loop would never wait; 0 if nobody reported it.

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
    """The traffic from a worker by a *transport*: its *frames*, with *nbytes* on the link.

    Decompressed, they have *raw_nbytes*. *rate* is the bytes a second on the link, in about the
    last ten seconds. *compression* is that of the newest frame. *held* bytes are buffered here for
    the loop, of at most *room*; both are 0 if frames are counted, not bytes.
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
