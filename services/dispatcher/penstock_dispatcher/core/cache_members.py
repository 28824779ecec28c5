"""Trainers of a cached job: who joins as whose, what each has had, and when a pass is over.

A task is done for a trainer when all there is was acked for it. No task is done for all: another
trainer may come, and what the window still has is for it, too. So a pass is over when it has no
readers and expects none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import Refused
from penstock.protocol.cache import Cached, CacheView, TrainerProgress, WhenFull
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock_dispatcher.core.cache_record import NO_PROGRESS, TrainerRecord
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.facts import AttemptEnded, TrainerDone, TrainersReported
from penstock_dispatcher.core.records import IterationRecord, TaskRecord


def check(heartbeat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Refuse a reader without a trainer where others have one, and the other way round.

    Raises:
        Refused: saying why.
    """
    trainer, job = heartbeat.trainer, iteration.job
    if iteration.cached and not trainer:
        raise Refused(
            f"trainers share the elements of job {job!r}, and this reader does not say whose it "
            "is: give cross_trainer_cache"
        )
    if trainer and not iteration.cached:
        raise Refused(
            f"job {job!r} has no cross-trainer cache, and this reader is of trainer {trainer!r}: "
            "all readers of a job give cross_trainer_cache, or none"
        )
    known = None if heartbeat.reader is None else iteration.readers.get(heartbeat.reader)
    if known is not None and known.trainer != trainer:
        raise Refused(
            f"reader {heartbeat.reader} of job {job!r} is of trainer {known.trainer!r}, not of "
            f"{trainer!r}"
        )


def on_report(ctx: DecisionContext, heartbeat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Record the elements that a reader acked. They count for its trainer.

    Before it has anything its trainer may have no place in the window yet.
    """
    for task, report in heartbeat.reports.items():
        acked = report.acked
        if task in iteration.tasks and (acked.floor or acked.more):
            ctx.soft_state.report_trainer(task, heartbeat.trainer, TrainerProgress(acked))


def on_progress(
    ctx: DecisionContext,
    heartbeat: WorkerHeartbeat,
    name: TaskId,
    task: TaskRecord,
    progress: AttemptProgress,
) -> None:
    """Record what the newest attempt's worker knows of trainers, also when that attempt is over.

    The newest attempt may still have elements that an older attempt skipped since then.
    """
    if heartbeat.worker == task.ran_on and progress.attempt == task.attempt:
        for trainer, known in progress.trainers.items():
            ctx.soft_state.report_trainer(name, trainer, known)


def finish_trainers(
    ctx: DecisionContext, name: TaskId, iteration: IterationRecord, task: TaskRecord
) -> None:
    """Commit for whom a task is done.

    If a worker runs the task, acks of readers do not suffice: only the worker knows which elements
    were skipped.
    """
    total = total_of(ctx, name, task)
    if total is None:
        return
    found = {trainer: TrainerRecord() for trainer in live_trainers(iteration)}
    said = _said_by_worker(ctx, name, task)
    for trainer, known in {**found, **ctx.trainers(name, task)}.items():
        floor = (known.progress if said is None else said.get(trainer, NO_PROGRESS)).acked.floor
        if not known.done and floor >= total:
            ctx.commit(TrainerDone(name, trainer, known.progress))
            ctx.dirty[task.iteration] = None


def _said_by_worker(
    ctx: DecisionContext, name: TaskId, task: TaskRecord
) -> Mapping[str, TrainerProgress] | None:
    """Return what the worker that runs a task knows of its trainers; None if none runs it."""
    if task.worker is None:
        return None
    progress = ctx.soft_state.progress.get(name)
    return {} if progress is None or progress.attempt != task.attempt else progress.trainers


def total_of(ctx: DecisionContext, name: TaskId, task: TaskRecord) -> int | None:
    """Return how many elements a task has, once all are made."""
    for known in task.trainers.values():
        if known.done:
            return known.progress.acked.floor
    progress = ctx.soft_state.progress.get(name)
    ended = progress is not None and progress.attempt == task.attempt and progress.ended
    return progress.head if progress is not None and ended else None


def floor(
    ctx: DecisionContext, name: TaskId, iteration: IterationRecord, task: TaskRecord
) -> int | None:
    """Return the first element of a task that a trainer with readers may need; None if none has.

    One that has no place yet begins where it can.
    """
    known, live = ctx.trainers(name, task), live_trainers(iteration)
    floors = [known[trainer].progress.acked.floor for trainer in live if trainer in known]
    return min(floors, default=None)


def live_trainers(iteration: IterationRecord) -> list[str]:
    """Return the trainers that have readers."""
    return list(dict.fromkeys(iteration.readers[reader].trainer for reader in iteration.live))


def needed_by(iteration: IterationRecord, task: TaskRecord) -> list[ReaderId]:
    """Return the live readers that a task is not done for."""
    readers = iteration.readers
    return [reader for reader in iteration.live if not task.is_done(readers[reader].trainer)]


def is_done(iteration: IterationRecord, trainer: str) -> bool:
    """Return whether *trainer* gets nothing more of a pass: this stays so, see `is_closed`."""
    tasks = iteration.tasks.values()
    return bool(tasks) and all(task.is_done(trainer) for task in tasks)


def is_closed(iteration: IterationRecord) -> bool:
    """Return whether a pass gets no more tasks: a trainer was told that it has had all."""
    trainers = {trainer for task in iteration.tasks.values() for trainer in task.trainers}
    return any(is_done(iteration, trainer) for trainer in trainers)


def is_made(ctx: DecisionContext, iteration: IterationRecord) -> bool:
    """Return whether all elements of a pass were made."""
    tasks = iteration.tasks
    return bool(tasks) and all(total_of(ctx, name, t) is not None for name, t in tasks.items())


def is_over(ctx: DecisionContext, iteration: IterationRecord) -> bool:
    """Return whether nobody reads a pass, all its trainers have had it and read the next pass.

    A trainer whose reader expired may come back, also if it had nothing yet.
    """
    if iteration.live or not is_made(ctx, iteration):
        return False
    expired = [r for r in iteration.readers.values() if r.status is ReaderStatus.EXPIRED]
    trainers = {reader.trainer for reader in expired}
    for name, task in iteration.tasks.items():
        trainers.update(ctx.trainers(name, task))
    job = ctx.state.jobs[iteration.job]
    later = any(repetition > iteration.repetition for repetition in job.open)
    return later and all(is_done(iteration, trainer) for trainer in trainers)


def advance(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> bool:
    """Commit which trainers have had which tasks; return whether the pass is over with that."""
    for task_name, task in iteration.tasks.items():
        finish_trainers(ctx, task_name, iteration, task)
    if not is_over(ctx, iteration):
        return False
    finish(ctx, name, iteration, now)
    return True


def finish(ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float) -> None:
    """Write that a pass is over, and what became of it for each trainer."""
    for task_name, task in iteration.tasks.items():
        record(ctx, task_name, task)
        if task.worker is not None:
            ctx.task_over(AttemptEnded(task_name, ctx.totals_of(task_name)))
    ctx.finish(name, now)


def record(ctx: DecisionContext, name: TaskId, task: TaskRecord) -> None:
    """Commit the reports on a task's trainers if they say more than the state."""
    reported = ctx.trainers(name, task)
    if reported != task.trainers:
        more = {t: one.progress for t, one in reported.items() if one != task.trainers.get(t)}
        ctx.commit(TrainersReported(name, more))


def places(
    ctx: DecisionContext,
    name: TaskId,
    iteration: IterationRecord,
    task: TaskRecord,
    unacked: Mapping[ReaderId, RangeSet],
) -> dict[str, TrainerProgress]:
    """Return the places of trainers in a task. Its next attempt begins with them.

    If no worker could report on a trainer with *unacked* elements, it counts as a trainer that
    joined when the first of these was the oldest, or when the attempt begins.
    """
    known = {trainer: one.progress for trainer, one in ctx.trainers(name, task).items()}
    found: dict[str, int] = {}
    for reader, numbers in unacked.items() if iteration.cached else ():
        trainer = iteration.readers[reader].trainer
        oldest = min(task.checkpoint.number, numbers.spans[0][0])
        found[trainer] = min(oldest, found.get(trainer, oldest))
    return {t: TrainerProgress(AckedSet(at), before=at) for t, at in found.items()} | known


def note_opened(ctx: DecisionContext, job: str) -> None:
    """Note that a job has one more pass: those before it may be over."""
    known = ctx.state.jobs.get(job)
    if known is not None and known.parameters.shared_cache:
        ctx.dirty.update(dict.fromkeys(known.open.values()))


# --- what workers and readers are told ---


def cached(
    ctx: DecisionContext, name: TaskId, iteration: IterationRecord, task: TaskRecord
) -> Cached | None:
    """Return how an attempt's elements are cached; None if they are not."""
    if not iteration.cached:
        return None
    trainers = {t: one.progress for t, one in ctx.trainers(name, task).items()}
    readers = {reader: known.trainer for reader, known in iteration.readers.items()}
    return Cached(iteration.job, WhenFull(iteration.parameters.when_full), trainers, readers)


def hidden(
    iteration: IterationRecord, tasks: Iterable[TaskId], reader: ReaderId
) -> tuple[TaskId, ...]:
    """Return those of *tasks* that are done for a reader's trainer: they stay so in this pass."""
    known = iteration.readers.get(reader)
    if not iteration.cached or known is None:
        return ()
    return tuple(name for name in tasks if iteration.tasks[name].is_done(known.trainer))


def has_all(iteration: IterationRecord, reader: ReaderId) -> bool:
    """Return whether nothing of a pass comes to a reader's trainer any more, of a cached job."""
    known = iteration.readers.get(reader)
    return iteration.cached and known is not None and is_done(iteration, known.trainer)


def view(
    ctx: DecisionContext, iteration: IterationRecord | None, reader: ReaderId
) -> CacheView | None:
    """Return what the trainer of *reader* did not get of a pass; None if it is not cached."""
    known = None if iteration is None else iteration.readers.get(reader)
    if iteration is None or known is None or not iteration.cached:
        return None
    if iteration.finished:
        sums = iteration.before.trainers.get(known.trainer)
        return CacheView() if sums is None else CacheView(sums.skipped, sums.before)
    skipped = before = 0
    for name, task in iteration.tasks.items():
        written = task.trainers.get(known.trainer, TrainerRecord()).progress
        reported = ctx.soft_state.trainers.get(name, {}).get(known.trainer, NO_PROGRESS)
        skipped += max(written.skipped, reported.skipped)
        before += max(written.before, reported.before)
    return CacheView(skipped, before)


def waits_for(ctx: DecisionContext, iteration: IterationRecord, trainer: str = "") -> str:
    """Return, in words, for which trainer *trainer* may have to wait; nothing if for none.

    That is so when another one has had all that is made, and nobody skips anything.
    """
    if iteration.parameters.when_full != WhenFull.WAIT.value:
        return ""
    live = live_trainers(iteration)
    if len(live) < 2:
        return ""
    running = {
        name: progress.head
        for name, task in iteration.tasks.items()
        if (progress := ctx.soft_state.progress.get(name)) is not None
        and progress.attempt == task.attempt
        and not progress.ended
    }
    made = sum(running.values())
    had = {
        one: sum(min(ctx.acked(n, iteration.tasks[n], one).floor, running[n]) for n in running)
        for one in live
    }
    slowest = min(had, key=lambda one: had[one])
    if slowest == trainer or had[slowest] == made or max(had.values()) < made:
        return ""
    return (
        f"trainer {slowest!r}, if the window is full: it is {made - had[slowest]} elements behind, "
        "and when_full='wait' skips nothing"
    )
