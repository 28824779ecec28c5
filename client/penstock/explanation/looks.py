"""What was seen of a training loop, and of the job that it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.protocol.loop_time import LoopTime, PassRead


@dataclass(frozen=True, slots=True)
class OperatorLook:
    """An operator: the seconds that it *worked* and *waited*, how many *elements* came of it."""

    label: str
    elements: int
    worked: float
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskLook:
    """A task that is being made, by a runner that began so many *seconds* ago.

    Some of them it was *held_up*, as nobody took what it made, some it *starved* for splits.
    """

    task: int
    worker: str
    seconds: float
    held_up: float
    starved: float
    operators: tuple[OperatorLook, ...]


@dataclass(frozen=True, slots=True)
class JobLook:
    """A pass of a job: what it is *waiting_for*, its *loops* and its tasks, if any of them runs."""

    iteration: int
    job: str
    loops: tuple[LoopTime, ...]
    tasks: tuple[TaskLook, ...]
    waiting_for: str = ""


@dataclass(frozen=True, slots=True)
class IteratorStats:
    """A training loop, seen from inside: its time in all and of late; its process's operators.

    *operators* come from the outermost down, with sums since the iterator began. A `distribute`
    among them waits for workers. *transports* says how each worker is read, by its address.
    """

    loop: LoopTime
    newest: LoopTime
    operators: tuple[OperatorLook, ...]
    transports: Mapping[str, str]
    passes: tuple[PassRead, ...]
    """The passes of jobs that it reads now."""

    @property
    def reads_job(self) -> bool:
        """Whether elements come from workers."""
        return bool(self.passes)
