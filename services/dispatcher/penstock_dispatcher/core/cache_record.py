"""The account of a task's elements for each trainer of a cached job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.ranges import AckedSet

NO_PROGRESS = TrainerProgress()


@dataclass(frozen=True, slots=True)
class TrainerRecord:
    """The account of a task's elements for one trainer; once *done*, nothing more comes to it."""

    progress: TrainerProgress = NO_PROGRESS
    done: bool = False


@dataclass(frozen=True, slots=True)
class TrainerTotals:
    """How many elements of a pass are acked for a trainer; among these two kinds that it never had.

    *done* says that nothing of any task comes to it any more.
    """

    acked: int = 0
    skipped: int = 0
    before: int = 0
    done: bool = False


def join(one: TrainerProgress, other: TrainerProgress) -> TrainerProgress:
    """Return what two reports of a trainer say together; the order does not matter."""
    return TrainerProgress(
        one.acked | other.acked, max(one.skipped, other.skipped), max(one.before, other.before)
    )


def known(
    trainers: Mapping[str, TrainerRecord], reported: Mapping[str, TrainerProgress]
) -> dict[str, TrainerRecord]:
    """Return the records of a task's trainers, joined with the newest reports."""
    found = dict(trainers)
    for trainer, progress in reported.items():
        was = found.get(trainer, TrainerRecord())
        found[trainer] = TrainerRecord(join(was.progress, progress), was.done)
    return found


def acked_by_any(acked: AckedSet, trainers: Iterable[TrainerRecord]) -> AckedSet:
    """Return *acked*, and what any of *trainers* acked."""
    for one in trainers:
        acked = acked | one.progress.acked
    return acked


def sum_up(tasks: Iterable[Mapping[str, TrainerRecord]]) -> dict[str, TrainerTotals]:
    """Return what became of the elements of all *tasks* for each trainer."""
    tasks = list(tasks)
    names = dict.fromkeys(trainer for task in tasks for trainer in task)
    return {
        name: _sum([task.get(name, TrainerRecord()) for task in tasks]) for name in sorted(names)
    }


def _sum(records: list[TrainerRecord]) -> TrainerTotals:
    return TrainerTotals(
        sum(len(one.progress.acked.ranges) for one in records),
        sum(one.progress.skipped for one in records),
        sum(one.progress.before for one in records),
        all(one.done for one in records),
    )
