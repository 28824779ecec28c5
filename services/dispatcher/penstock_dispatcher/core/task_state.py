"""How facts change a task, also of a cached job, and the part of a finished task that remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.ranges import AckedSet
from penstock.protocol.splits import Split
from penstock.protocol.types import Checkpoint, TaskId
from penstock_dispatcher.core.cache_record import TrainerRecord, join, known
from penstock_dispatcher.core.facts import CacheFact, InDoubtResolved, TrainerDone, TrainersReported
from penstock_dispatcher.core.records import IterationRecord, TaskRecord, add


def settle(iteration: IterationRecord, name: TaskId) -> None:
    """Remove a task that is done: its account is added to that of earlier tasks."""
    task, before = iteration.tasks.pop(name), iteration.before
    iteration.before = replace(
        before,
        counts=add(before.counts, task.counts),
        elements=before.elements + max(task.head, task.acked.floor),
        acked=before.acked + len(task.acked.ranges),
        splits=before.splits + task.splits,
        units=before.units + task.units,
        errors=before.errors + task.errors.count,
        letters=(*before.letters, *(one.letter for one in task.errors.first)),
    )


def resolve(iteration: IterationRecord, task: TaskRecord, fact: InDoubtResolved) -> None:
    """Record what became of elements that were in doubt."""
    for reader in fact.readers:
        task.expired_holders.pop(reader, None)
    task.in_doubt += fact.in_doubt
    task.acked = task.acked | fact.acked
    iteration.add_in_doubt(fact.readers, fact.in_doubt)


def grant(task: TaskRecord, provider: int, splits: tuple[Split, ...]) -> None:
    """Append *splits* to a log of *task*."""
    logs, ended = list(task.logs), list(task.ended)
    logs[provider] = logs[provider].plus(splits)
    ended[provider] += sum(not split for split in splits)
    task.logs, task.ended = tuple(logs), tuple(ended)
    task.splits += sum(map(bool, splits))
    task.units += sum(map(len, splits))


def save(task: TaskRecord, state: Checkpoint) -> None:
    """Record that *task* can continue from *state*."""
    task.checkpoint, task.acked = state, task.acked | AckedSet(state.number)
    places = (*state.positions, *(0 for _ in task.logs[len(state.positions) :]))
    task.logs = tuple(log.forget(at) for log, at in zip(task.logs, places, strict=False))


def apply_cache(task: TaskRecord, fact: CacheFact) -> None:
    """Let *fact* be true of a task."""
    match fact:
        case TrainersReported(_, trainers):
            report(task, trainers)
        case TrainerDone(_, trainer, progress):
            was = task.trainers.get(trainer, TrainerRecord())
            task.trainers[trainer] = TrainerRecord(join(was.progress, progress), done=True)
            task.head = max(task.head, progress.acked.floor)
        case _:
            assert_never(fact)


def attempt_over(iteration: IterationRecord, task: TaskRecord) -> None:
    """Let it be known that some trainer may have skipped what nobody could report any more.

    That is so also where no other attempt follows, since readers acked all that is left.
    """
    trainers = {reader.trainer for reader in iteration.readers.values()}
    if iteration.cached and not all(map(task.is_done, trainers)):
        iteration.before = replace(iteration.before, moved=True)


def report(task: TaskRecord, trainers: Mapping[str, TrainerProgress]) -> None:
    """Record the reports on *trainers*."""
    task.trainers = known(task.trainers, trainers)


def acknowledge(task: TaskRecord, trainer: str, acked: AckedSet) -> None:
    """Let *acked* be acked by a reader: for its *trainer*, if it has one."""
    if not trainer:
        task.acked = task.acked | acked
    elif acked.floor or acked.more:
        report(task, {trainer: TrainerProgress(acked)})
