"""What is decided of one order that goes to several consumers (see `penstock.protocol.rounds`)."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.types import TaskId


@dataclass(frozen=True, slots=True)
class TaskCounted:
    """All of a task was made: *total* elements. So it is known where the next one begins.

    Of one order that goes to several consumers; all tasks before this one are counted.
    """

    task: TaskId
    total: int


@dataclass(frozen=True, slots=True)
class RestoredStride:
    """A pass whose consumers get every n-th element goes on, with *consumers* of them from now on.

    Its first *tasks* have *elements* together.
    """

    consumers: int
    tasks: int
    elements: int
