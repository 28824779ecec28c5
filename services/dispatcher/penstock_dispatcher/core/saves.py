"""Saves: when all readers of an iteration are at the same barrier, the job's state is written.

A reader at its barrier acks nothing more. So all known acks are from before the barrier, and the
checkpoints lie after it. A result is final, and the same for all readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from penstock.errors import PenstockError, SaveFailed
from penstock.protocol.cache import NOT_SAVED
from penstock.protocol.control import SaveBarrier, SaveResult, describe_save
from penstock.protocol.types import Failure, IterationId, ReaderId, ReaderStatus
from penstock_dispatcher.core import consumers, job_state
from penstock_dispatcher.core.account import current_totals
from penstock_dispatcher.core.context import DRIFT, DecisionContext
from penstock_dispatcher.core.fact_values import InDoubt
from penstock_dispatcher.core.facts import SaveCompleted
from penstock_dispatcher.core.records import IterationRecord, totals

SOONER = 0.1
"""Share of a save's timeout: a reader silent for that long, and for two heartbeats, is missing."""

HOPELESS = 0.5
"""Share of a save's timeout: if a reader is silent for that long, and does not expire before the
deadline, the save fails at once."""


def advance_save(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> None:
    """Commit the next save's result, if there can be one: a state when all are at its barrier.

    Where its readers want that, the save goes without those that are missing: at its deadline, and
    before it as soon as all of these were silent for long enough.
    """
    live = iteration.live
    barriers = at_barrier(ctx, iteration, live)
    if not barriers:
        ctx.soft_state.barrier_since.pop(name, None)
        return
    if iteration.cached:
        label = min(barriers.items())[1].label
        error = SaveFailed(f"{describe_save(label)} of job {iteration.job!r} failed: {NOT_SAVED}")
        _commit(ctx, name, SaveResult(iteration.next_save, label, failure=Failure.of(error)))
        return
    began = ctx.soft_state.barrier_since.setdefault(name, now)
    timeout = min(barrier.timeout for barrier in barriers.values())
    labels = {barrier.label for barrier in barriers.values()}
    if len(labels) > 1:
        why = f"its readers save different things: {_who(iteration, barriers)}"
        _fail(ctx, name, iteration, barriers, why)
        return
    absent = [reader for reader in live if reader not in barriers]
    unsettled = {reader for task in iteration.tasks.values() for reader in task.expired_holders}
    if iteration.rounds is not None:
        _save_rounds(ctx, name, iteration, barriers, absent, now)
    elif not absent and not unsettled:
        _succeed(ctx, name, iteration, labels.pop())
    elif all(barrier.without_missing for barrier in barriers.values()):
        least = max(_two_intervals(ctx), timeout * SOONER)
        waited = now - began >= least or not unsettled
        if now >= began + timeout or (waited and _silent(ctx, absent, least, now)):
            _succeed(ctx, name, iteration, labels.pop(), (*absent, *sorted(unsettled)))
    elif now >= began + timeout or _hopeless(ctx, absent, began, timeout, now):
        why = _missing(ctx, iteration, barriers, live, now)
        _fail(ctx, name, iteration, barriers, f"within {now - began:.1f} s {why}")


def _save_rounds(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    barriers: Mapping[ReaderId, SaveBarrier],
    absent: Collection[ReaderId],
    now: float,
) -> None:
    """Save coordinated reads when all consumers are there, if all have taken the same rounds."""
    rounds, live = iteration.rounds, iteration.live
    began = ctx.soft_state.barrier_since[name]
    if rounds is None:
        return
    gone = [
        consumers.describe(iteration, index)
        for index in range(rounds.consumers)
        if (member := rounds.members.get(index)) is None or member.reader not in live
    ]
    if not absent and not gone:
        taken = [consumers.taken(ctx, rounds, index) for index in range(rounds.consumers)]
        if len(set(taken)) == 1:
            _succeed(ctx, name, iteration, next(iter(barriers.values())).label)
            return
        places = ", ".join(
            f"{consumers.describe(iteration, index)} at round {at}"
            for index, at in enumerate(taken)
        )
        why = (
            f"its consumers are at different rounds: {places}. All consumers must save at the same "
            "step. Operators that reorder elements (shuffle), leave some out (filter) or cut them "
            "into pieces belong before distribute, or need ordered=True"
        )
        _fail(ctx, name, iteration, barriers, why)
        return
    timeout = min(barrier.timeout for barrier in barriers.values())
    if now >= began + timeout or _hopeless(ctx, absent, began, timeout, now):
        gone += [iteration.describe_reader(reader) for reader in absent]
        why = f"within {now - began:.1f} s {', '.join(dict.fromkeys(gone))} did not come to it"
        _fail(ctx, name, iteration, barriers, why)


def at_barrier(
    ctx: DecisionContext, iteration: IterationRecord, live: Iterable[ReaderId]
) -> dict[ReaderId, SaveBarrier]:
    """Return the readers that hand out nothing until the next save has a result."""
    barriers = {}
    for reader in live:
        liveness = ctx.soft_state.readers.get(reader)
        barrier = None if liveness is None else liveness.heartbeat.barrier
        if barrier is not None and barrier.number == iteration.next_save:
            barriers[reader] = barrier
    return barriers


def describe_absent(
    ctx: DecisionContext, iteration: IterationRecord, reader: ReaderId, now: float
) -> str:
    """Return the name of a reader that others wait for: with when it expires, if silent."""
    silence = ctx.soft_state.silence(ctx.soft_state.readers[reader].last_heard, now)
    if silence < _two_intervals(ctx):
        return iteration.describe_reader(reader, f"last heard {silence:.1f} s ago")
    lease = ctx.settings.reader_lease * DRIFT
    return iteration.describe_reader(reader, f"silent {silence:.1f} s, expires at {lease:.0f} s")


def result_for(
    ctx: DecisionContext, iteration: IterationRecord | None, barrier: SaveBarrier
) -> SaveResult | None:
    """Return the result that a reader at *barrier* waits for, if there is one."""
    if iteration is None:
        return _refusal(barrier, "the pass is over, and forgotten here")
    known = next((v for v in iteration.save_results if v.number == barrier.number), None)
    if known is not None:
        return known
    if barrier.number > iteration.next_save:
        why = f"this dispatcher knows of {iteration.next_save}: its history was lost or rolled back"
        return _refusal(barrier, why)
    if barrier.number < iteration.next_save:
        return _refusal(barrier, "it was decided long ago, and its result is not kept")
    if iteration.finished:
        job = ctx.state.jobs[iteration.job]
        return SaveResult(
            barrier.number, barrier.label, job_state.encode(job_state.over(job, iteration))
        )
    return None


def _silent(ctx: DecisionContext, readers: Iterable[ReaderId], least: float, now: float) -> bool:
    liveness_of = ctx.soft_state.readers
    return all(
        ctx.soft_state.silence(liveness_of[reader].last_heard, now) >= least for reader in readers
    )


def _hopeless(
    ctx: DecisionContext, absent: Iterable[ReaderId], began: float, timeout: float, now: float
) -> bool:
    """Return whether a reader is silent that does not expire before the deadline.

    The saving loop has better use for the time that is left.
    """
    least = max(_two_intervals(ctx), timeout * HOPELESS)
    lease = ctx.settings.reader_lease * DRIFT
    for reader in absent:
        silence = ctx.soft_state.silence(ctx.soft_state.readers[reader].last_heard, now)
        if silence >= least and now - silence + lease > began + timeout:
            return now - began >= least
    return False


def _two_intervals(ctx: DecisionContext) -> float:
    return 2 * ctx.settings.refresh_interval


def _state(
    ctx: DecisionContext, iteration: IterationRecord, missing: Collection[ReaderId]
) -> job_state.JobState:
    acked = {n: ctx.acked(n, task) for n, task in iteration.tasks.items()}
    sums, done = current_totals(iteration, ctx.soft_state), totals(iteration, done_only=True)
    # Acks of missing readers since their last heartbeats are not known.
    in_doubt = tuple(
        InDoubt((reader,), None, ctx.last_heard(reader, iteration)) for reader in missing
    )
    unreported = sum(iteration.readers[r].status is ReaderStatus.LIVE for r in missing)
    sums = replace(
        sums,
        elements=done.elements,  # the others are counted anew
        acked=done.acked,
        errors=done.errors,
        unreported=sums.unreported + unreported,
        in_doubt=(*sums.in_doubt, *in_doubt),
    )
    return job_state.of(ctx.state.jobs[iteration.job], iteration, acked, sums)


def _succeed(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    label: str,
    missing: Collection[ReaderId] = (),
) -> None:
    state = job_state.encode(_state(ctx, iteration, missing))
    names = tuple(map(iteration.describe_reader, missing))
    _commit(ctx, name, SaveResult(iteration.next_save, label, state, missing=names))


def _fail(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    barriers: Mapping[ReaderId, SaveBarrier],
    why: str,
) -> None:
    label = min(barriers.items())[1].label
    error = SaveFailed(
        f"{describe_save(label)} of job {iteration.job!r} failed, for all its readers: {why}. All "
        "of them must save at the same step, and under the same name"
    )
    _commit(ctx, name, SaveResult(iteration.next_save, label, failure=Failure.of(error)))


def _commit(ctx: DecisionContext, name: IterationId, result: SaveResult) -> None:
    ctx.soft_state.barrier_since.pop(name, None)
    ctx.commit(SaveCompleted(name, result))


def _missing(
    ctx: DecisionContext,
    iteration: IterationRecord,
    barriers: Mapping[ReaderId, SaveBarrier],
    live: Iterable[ReaderId],
    now: float,
) -> str:
    """Return which readers a save waited for."""
    absent = [reader for reader in live if reader not in barriers]
    if absent:
        names = ", ".join(describe_absent(ctx, iteration, reader, now) for reader in absent)
        away = any(_silent(ctx, [reader], _two_intervals(ctx), now) for reader in absent)
        way = "; state(without_missing=True) saves without those that are silent" * away
        return f"{names} did not come to it{way}"
    unsettled = [
        f"task {task.index} at {task.worker or 'no worker'}, of "
        f"{', '.join(map(iteration.describe_reader, task.expired_holders))}"
        for task in iteration.tasks.values()
        if task.expired_holders
    ]
    return f"what expired readers consumed was not reported: {', '.join(unsettled)}"


def _who(iteration: IterationRecord, barriers: Mapping[ReaderId, SaveBarrier]) -> str:
    return ", ".join(
        f"{iteration.describe_reader(reader)} {describe_save(barrier.label)}"
        for reader, barrier in barriers.items()
    )


def _refusal(barrier: SaveBarrier, why: str) -> SaveResult:
    error: PenstockError = SaveFailed(
        f"{describe_save(barrier.label)}, save {barrier.number}, failed: {why}"
    )
    return SaveResult(barrier.number, barrier.label, failure=Failure.of(error))
