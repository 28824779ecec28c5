"""The reasons why an iteration stands still, in words for loops that wait in `next()`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from penstock.protocol.types import IterationId, ReaderId, TaskId, WorkerId
from penstock_dispatcher.core import (
    admission,
    consumers,
    readable,
    saves,
    scheduler,
    strides,
    worker_entries,
)
from penstock_dispatcher.core.context import DRIFT, DecisionContext
from penstock_dispatcher.core.notifications import SeenWait, Wait
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.rounds_record import RoundsRecord
from penstock_dispatcher.core.task_views import IterationView

HOLDERS_NAMED = 4


FEW, LOOK = 64, 0.0002
"""If there are more than a few tasks, the dispatcher looks for their reasons again after this many
seconds for each task: else a thousand readers' views would cost as much as a thousand times all
tasks, each second.
"""


def newest_wait(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    view: IterationView,
    now: float,
) -> Wait:
    """Return what an iteration waits for; of many tasks as it was a moment ago, if it is the same.

    It is not if a task began or ended since.
    """
    seen, many = ctx.notifications.waits.get(name), len(view.tasks) > FEW
    if seen is not None and many and seen.view is view and now < seen.until:
        return seen.wait
    wait = waiting_for(ctx, name, iteration, view, now)
    if many:
        ctx.notifications.waits[name] = SeenWait(now + LOOK * len(view.tasks), view, wait)
    return wait


def waiting_for(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    view: IterationView,
    now: float,
) -> Wait:
    """Return the reasons why an iteration waits; nothing if it does not."""
    if view.broken:
        return Wait()
    if not ctx.state.workers:
        return Wait(f"a worker: none is registered at {ctx.address}")
    silent = list(_silent_readers(ctx, iteration, view, now))
    if iteration.rounds is not None:
        silent = []  # no task waits for them, but rounds may
    absent = list(_absent_consumers(ctx, iteration, iteration.rounds, now))
    reasons = [
        *_unstarted(ctx, iteration, view, now),
        *worker_entries.vacancies(ctx, iteration, now),
        *_unable_holders(ctx, iteration, now),
        *silent,
        *_silent_workers(ctx, iteration, now),
        *_short_of_room(ctx, iteration),
        *(absent or _next_round(ctx, iteration, iteration.rounds)),
        *strides.waits(ctx, iteration),
        *_saving(ctx, name, iteration, now),
    ]
    return Wait("; ".join(reasons), bool(silent or absent))


def held_by(
    ctx: DecisionContext, iteration: IterationRecord, silent: Sequence[ReaderId], now: float
) -> str:
    """Return what *silent* readers have unacked, until they are heard or expire.

    As of their last heartbeats: they may have acked some of it since, and got more.
    """
    unread = all(task.done or not task.attempt for task in iteration.tasks.values())
    if unread or iteration.rounds is not None:
        return ""
    parts = [_unacked(ctx, iteration, reader, now) for reader in silent[:HOLDERS_NAMED]]
    if more := len(silent) - len(parts):
        parts.append(f"and by {more} more silent reader{'s' * (more > 1)}")
    return "; ".join(parts)


def _unacked(ctx: DecisionContext, iteration: IterationRecord, reader: ReaderId, now: float) -> str:
    heartbeat, trainer = ctx.soft_state.readers[reader].heartbeat, iteration.readers[reader].trainer
    reports, count = heartbeat.reports, heartbeat.unacked or 0
    for name, task in iteration.tasks.items() if heartbeat.unacked is None else ():
        if not task.is_done(trainer) and name in reports and reports[name].buffered:
            buffered = reports[name].buffered
            count += len(buffered - ctx.acked(name, task, trainer).ranges)
    holder = saves.describe_absent(ctx, iteration, reader, now)
    if not count:
        return f"elements may be unacked at {holder}"
    return f"{count} element{'s are' if count > 1 else ' is'} unacked at {holder}"


def _unstarted(
    ctx: DecisionContext, iteration: IterationRecord, view: IterationView, now: float
) -> Iterator[str]:
    """Yield the workers that could run what waits, and why they do not."""
    if (view.stalled or not iteration.tasks) and not ctx.able(iteration):
        goal = f", before {_tasks(iteration, view.stalled)} can continue" if view.stalled else ""
        dataset = iteration.parameters.dataset
        if mismatch := admission.python_mismatch(ctx, dataset):
            yield f"a worker that can run it: {mismatch}"
            return
        made_by = ctx.state.datasets[dataset].pythons
        unread = _barred(ctx, iteration, ctx.state.workers)
        for worker in ctx.state.workers:
            if ctx.soft_state.workers[worker].loads(made_by) and worker not in unread:
                yield _unable(ctx, worker, now) + goal
        yield from _named([why + goal for why in unread.values()])
        return
    running = (task.worker for task in iteration.tasks.values() if task.worker is not None)
    yield from _named(list(_barred(ctx, iteration, running).values()))


def _barred(
    ctx: DecisionContext, iteration: IterationRecord, workers: Iterable[WorkerId]
) -> dict[WorkerId, str]:
    """Return those of *workers* that no reader may read, and why."""
    unread = readable.barred(ctx.state, ctx.soft_state, iteration, workers)
    return {worker: readable.why_barred(iteration, worker) for worker in unread}


def _named(reasons: list[str]) -> Iterator[str]:
    """Yield the first of *reasons*, and how many more there are."""
    yield from reasons[:HOLDERS_NAMED]
    if (more := len(reasons) - HOLDERS_NAMED) > 0:
        yield f"and of {more} more worker{'s' * (more > 1)}"


def _unable_holders(ctx: DecisionContext, iteration: IterationRecord, now: float) -> Iterator[str]:
    """Yield the workers that alone may run a part, and why they do not."""
    able = ctx.able(iteration) if iteration.shards else []
    if not able:
        return  # else all workers are named
    made_by = ctx.state.datasets[iteration.parameters.dataset].pythons
    for task in iteration.tasks.values():
        worker = worker_entries.holder(ctx.state, task.index)
        if not task.is_unassigned or worker is None or worker in able:
            continue
        known = ctx.soft_state.workers[worker]
        why = _unable(ctx, worker, now)
        if not known.loads(made_by) and known.versions is not None:
            why = (
                f"worker {worker}: it has Python {known.versions.minor}, and the pipeline was made "
                f"by {', '.join(made_by)}"
            )
        yield f"{why}; it alone has part {task.index} of {iteration.shards} (worker_addresses)"


def _silent_readers(
    ctx: DecisionContext, iteration: IterationRecord, view: IterationView, now: float
) -> Iterator[str]:
    """Yield the readers that are late to report on tasks that wait for it."""
    if not view.stalled:
        return
    for reader in iteration.live:
        silence = _silence(ctx, ctx.soft_state.readers[reader].last_heard, now)
        if silence <= 2 * ctx.settings.refresh_interval:
            continue
        if missing := _unfenced(ctx, iteration, view.stalled, reader):
            left = max(0.0, ctx.settings.reader_lease * DRIFT - silence)
            silent = f"silent for {silence:.1f} s, expires in {left:.1f} s"
            who = iteration.describe_reader(reader, silent)
            yield f"{who}, before {_tasks(iteration, missing)} can continue"


def _unfenced(
    ctx: DecisionContext, iteration: IterationRecord, stalled: Iterable[TaskId], reader: ReaderId
) -> list[TaskId]:
    trainer = iteration.readers[reader].trainer
    return [
        task
        for task in stalled
        if not iteration.tasks[task].is_done(trainer)
        and scheduler.fenced_report(ctx, reader, task, iteration.tasks[task]) is None
    ]


def _silent_workers(ctx: DecisionContext, iteration: IterationRecord, now: float) -> Iterator[str]:
    if ctx.soft_state.quiet:
        late = ctx.soft_state.quiet.intersection(
            t.worker for t in iteration.tasks.values() if t.worker
        )
        named = sorted(late)[:HOLDERS_NAMED]  # where a host is overloaded, all of them are late
        yield from (_late(ctx, worker, now) for worker in named)
        if more := len(late) - len(named):
            yield f"{more} more silent worker{'s' * (more > 1)}"


def _short_of_room(ctx: DecisionContext, iteration: IterationRecord) -> Iterator[str]:
    for name, task in iteration.tasks.items():
        progress = ctx.soft_state.progress.get(name)
        if progress is not None and progress.lacking and not task.done:
            where = f"task {task.index} on worker {task.ran_on}"
            yield f"room for a runner of {where}: {progress.lacking}"


def _round_is_wanted(
    ctx: DecisionContext, iteration: IterationRecord, rounds: RoundsRecord
) -> bool:
    """Return whether a consumer has had all rounds that there are, and there may be more."""
    everyone = range(rounds.consumers)
    return rounds.last is None and any(
        consumers.place(ctx, iteration, index) >= rounds.released for index in everyone
    )


def _absent_consumers(
    ctx: DecisionContext, iteration: IterationRecord, rounds: RoundsRecord | None, now: float
) -> Iterator[str]:
    """Yield for which consumers a round waits that are silent, or not there."""
    if rounds is None or not _round_is_wanted(ctx, iteration, rounds):
        return
    everyone = range(rounds.consumers)
    missing = [
        consumers.describe(iteration, index)
        + (f", silent for {silence:.1f} s" if silence < math.inf else ", which is not there")
        for index in everyone
        if (silence := consumers.silence(ctx, iteration, index, now))
        > 2 * ctx.settings.refresh_interval
    ]
    named, more = missing[:HOLDERS_NAMED], len(missing) - HOLDERS_NAMED
    if more > 0:
        named.append(f"{more} more")
    if named:
        yield f"round {rounds.released} waits for {'; for '.join(named)}"


def _next_round(
    ctx: DecisionContext, iteration: IterationRecord, rounds: RoundsRecord | None
) -> Iterator[str]:
    """Yield which elements a round waits for that some consumers want."""
    if rounds is None or not _round_is_wanted(ctx, iteration, rounds):
        return
    for name, task in rounds.tasks.items():
        known = iteration.tasks[name]
        if task.total is None and known.worker is not None:
            where = f"task {known.index} on worker {known.worker}"
            yield f"round {rounds.released} waits for elements of {where}"


def _saving(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> Iterator[str]:
    """Yield the readers that hand out nothing until the others have come to their save."""
    if name in ctx.soft_state.barrier_since:
        live = iteration.live
        barriers = saves.at_barrier(ctx, iteration, live)
        there = ", ".join(iteration.describe_reader(reader) for reader in barriers)
        missing = ", ".join(
            saves.describe_absent(ctx, iteration, r, now) for r in live if r not in barriers
        )
        if there and missing:
            yield f"{missing} to come to the save that {there} is at"


def _unable(ctx: DecisionContext, worker: WorkerId, now: float) -> str:
    liveness = ctx.soft_state.workers[worker]
    if liveness.leaving:
        return f"worker {worker}: it drains, and gets nothing new"
    if not liveness.connected:
        return f"worker {worker}: its connection is closed, {_expiry(ctx, worker, now)}"
    return _late(ctx, worker, now)


def _late(ctx: DecisionContext, worker: WorkerId, now: float) -> str:
    silence = _silence(ctx, ctx.soft_state.workers[worker].last_heard, now)
    return f"worker {worker}: silent for {silence:.1f} s, {_expiry(ctx, worker, now)}"


def _expiry(ctx: DecisionContext, worker: WorkerId, now: float) -> str:
    silence = _silence(ctx, ctx.soft_state.workers[worker].last_heard, now)
    return f"expires in {max(0.0, ctx.settings.worker_lease - silence):.1f} s"


def _silence(ctx: DecisionContext, at: float, now: float) -> float:
    return ctx.soft_state.silence(at, now)


def _tasks(iteration: IterationRecord, names: Iterable[TaskId]) -> str:
    numbers = [iteration.tasks[name].index for name in names]
    return f"task{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
