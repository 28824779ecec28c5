"""How facts change a task, also of a cached job or of coordinated reads, and what remains of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.calls import JobParameters
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet
from penstock.protocol.splits import Split
from penstock.protocol.types import Checkpoint, ReaderStatus, TaskId
from penstock_dispatcher.core.cache_record import TrainerRecord, join, known
from penstock_dispatcher.core.fact_values import RestoredRounds
from penstock_dispatcher.core.facts import (
    CacheFact,
    ConsumerEnded,
    ConsumerJoined,
    InDoubtResolved,
    ReaderRemoved,
    RoundsAdvanced,
    RoundsFact,
    TrainerDone,
    TrainersReported,
    WeightsChanged,
)
from penstock_dispatcher.core.mixture_record import next_pass, with_change
from penstock_dispatcher.core.records import IterationRecord, JobRecord, TaskRecord, add
from penstock_dispatcher.core.rounds_record import PATIENCE, Displaced, RoundsRecord
from penstock_dispatcher.core.split_provider import SplitProvider


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


def remove_reader(
    iteration: IterationRecord, trainer: str, fact: ReaderRemoved, revision: int
) -> None:
    """Record the acks of a reader that is gone, and where more of it may be in doubt."""
    for name, task in iteration.tasks.items():
        if task.is_done(trainer):
            continue
        acknowledge(task, trainer, fact.acked.get(name, NOTHING_ACKED))
        if fact.status is ReaderStatus.EXPIRED and task.attempt and name not in fact.in_doubt:
            task.expired_holders[fact.reader] = revision


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


def rounds_of(parameters: JobParameters) -> RoundsRecord | None:
    """Return an empty log of rounds for a pass of a job, if it is read in rounds."""
    if parameters.num_consumers is None:
        return None
    patience = PATIENCE if parameters.patience is None else parameters.patience
    return RoundsRecord(
        parameters.num_consumers,
        parameters.remainder,
        parameters.ordered,
        0 if parameters.ordered else patience,
    )


def apply_rounds(iteration: IterationRecord, fact: RoundsFact) -> None:
    """Apply a fact of a pass that is read in rounds."""
    rounds = iteration.rounds
    if rounds is None:
        return
    match fact:
        case ConsumerJoined():
            _join(iteration, rounds, fact)
        case ConsumerEnded(_, reader, consumed):
            iteration.readers[reader].consumed = consumed
            iteration.readers[reader].final = True
            rounds.end(reader)
        case RoundsAdvanced():
            _advance(iteration, rounds, fact)
        case _:
            assert_never(fact)


def _join(iteration: IterationRecord, rounds: RoundsRecord, fact: ConsumerJoined) -> None:
    before, readers = rounds.members.get(fact.index), iteration.readers
    session = readers[fact.reader].session
    rounds.correct(session, fact.start)  # one that is back after all says where it was
    rounds.displaced.pop(session, None)
    earlier = None if before is None else readers[before.reader]
    again = earlier is not None and earlier.session == session
    if before is not None and earlier is not None and not again and not earlier.final:
        known = Displaced(fact.start, max(rounds.floor, before.taken, before.start))
        rounds.displaced[earlier.session] = known
    rounds.join(fact.index, fact.reader, fact.stamp, fact.start, again=again)


def restore_rounds(job: JobRecord, iteration: IterationRecord, at: RestoredRounds) -> None:
    """Let a pass and its job continue at a round, perhaps with another number of consumers."""
    job.parameters = replace(job.parameters, num_consumers=at.consumers)
    iteration.parameters = job.parameters
    iteration.rounds = rounds = rounds_of(job.parameters)
    if rounds is not None:
        rounds.floor, rounds.turn, rounds.floor_turn = at.round, at.turn, at.turn
        rounds.planned = list(at.log)


def finish_rounds(iteration: IterationRecord, name: TaskId, acked: AckedSet) -> None:
    """Let a task be done, of which *acked* is all that there is.

    Before its end was known its last group may have counted as a whole one; attempts that began
    after it reported the same.
    """
    if iteration.rounds is not None:
        task = iteration.tasks[name]
        task.acked, task.head = acked, min(task.head, acked.floor)
        iteration.rounds.finish_task(name)


def _advance(iteration: IterationRecord, rounds: RoundsRecord, fact: RoundsAdvanced) -> None:
    """Append rounds, and count the settled ones as acked."""
    for name in {*rounds.advance(fact.entries, fact.floor, fact.totals), *fact.totals}:
        task = iteration.tasks[name]
        task.acked = task.acked | AckedSet(rounds.element_floor(name))
    rounds.last, rounds.failed = fact.last, fact.failed


def reweigh(job: JobRecord, iteration: IterationRecord | None, fact: WeightsChanged) -> None:
    """Let the weights of a mixture be changed: in a pass, and in later ones of its job."""
    if iteration is None:
        known = job.weights.get(fact.provider, ())
        job.weights[fact.provider] = with_change(known, fact.change)
    else:
        iteration.providers[fact.provider].reweigh([fact.change])
        job.weights[fact.provider] = next_pass((fact.change,))


def begin_weights(job: JobRecord, providers: Sequence[SplitProvider]) -> None:
    """Let a pass of a job begin with the weights that were set last, and later passes too."""
    for number, changes in job.weights.items():
        providers[number].reweigh(changes)
        job.weights[number] = next_pass(changes)
