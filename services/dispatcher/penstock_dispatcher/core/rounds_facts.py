"""What has been decided of coordinated reads; see `facts`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.protocol.types import IterationId, ReaderId, TaskId


@dataclass(frozen=True, slots=True)
class RestoredRounds:
    """Where coordinated reads go on: at *round*, behind a turn of task number *turn*.

    From there on the job has so many *consumers*. The first rounds come from the tasks in *log*.
    """

    round: int
    turn: int
    consumers: int
    log: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerJoined:
    """A reader is consumer *index* of coordinated reads, from round *start* on."""

    iteration: IterationId
    reader: ReaderId
    index: int
    stamp: int
    start: int


@dataclass(frozen=True, slots=True)
class ConsumerEnded:
    """A consumer took all rounds of the pass, of which its loop had *consumed* elements.

    Its loop is told of the end behind this: it may be the last that anybody hears of that process.
    """

    iteration: IterationId
    reader: ReaderId
    consumed: int


@dataclass(frozen=True, slots=True)
class RoundsAdvanced:
    """These tasks are what the next rounds are made of; all rounds below *floor* are settled.

    All groups of the tasks in *totals* are released, which have so many elements. Once it is known,
    *last* is the round with which the pass ends, with *failed* because of that task.
    """

    iteration: IterationId
    entries: tuple[TaskId, ...]
    floor: int
    totals: Mapping[TaskId, int] = field(default_factory=dict)
    last: int | None = None
    failed: TaskId | None = None


RoundsFact: TypeAlias = ConsumerJoined | ConsumerEnded | RoundsAdvanced
