"""Decide what follows for an iteration: create and start tasks, move them, save, finish."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock_dispatcher.core import (
    cache_members,
    consumers,
    ordered_tasks,
    placement,
    rounds,
    saves,
    skipped_errors,
    slots,
    strides,
    worker_entries,
)
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import OrderSourceFiles
from penstock_dispatcher.core.facts import AttemptStarted, SplitsGranted, TaskCreated
from penstock_dispatcher.core.placement import Placement
from penstock_dispatcher.core.reachability import ReadersReach, move
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.split_provider import DrawRate, split_size


def schedule(ctx: DecisionContext, name: IterationId, now: float) -> None:
    """Commit the decisions that follow for an iteration from the facts."""
    ctx.waiting.discard(name)
    iteration = ctx.state.iterations.get(name)
    if iteration is None or iteration.finished:
        return
    if _is_over(ctx, name, iteration, now):
        return
    if not iteration.live:
        if _abandoned(ctx, iteration):
            ctx.forget(name)
        return
    able = ctx.able(iteration)
    reach = ReadersReach.of(ctx, iteration, now)
    useful, shares = reach.useful(able), slots.shares(ctx, name, iteration, able)
    ctx.soft_state.sharing.pop(name, None)  # it is computed anew where it is needed
    if iteration.ordered:
        strides.count(ctx, iteration)
        wanted = sum(shares[worker] for worker in useful)
        ordered_tasks.create(ctx, name, iteration, len(useful), wanted, now)
    else:
        _create_tasks(ctx, name, iteration, iteration.shards or sum(shares.values()), now)
    _start_attempts(ctx, name, iteration, able, reach, shares, now)
    if _moves(ctx, name, iteration, useful, reach, shares, now):
        return  # this made it dirty: schedule runs again
    if _all_done(iteration):
        ctx.finish(name, now)  # readers at a barrier learn that the pass is over
    else:
        saves.advance_save(ctx, name, iteration, now)


def grant_splits(
    ctx: DecisionContext, name: TaskId, number: int, now: float, among: int | None = None
) -> None:
    """Commit to a task's log what comes next of provider *number*, enough for *among* tasks."""
    iteration_name = ctx.state.owners[name]
    iteration = ctx.state.iterations[iteration_name]
    provider, rate = iteration.providers[number], ctx.soft_state.draw_rates.get((name, number))
    size = split_size(provider, rate, among or ctx.sharing(iteration_name, iteration), now)
    splits = provider.draw(iteration.tasks[name].ended[number], size)
    if not splits:
        return  # nothing was ever to be read
    ctx.commit(SplitsGranted(name, number, splits))
    ahead, names = provider.ask_ahead(), provider.known.names
    if ahead is not None and names is not None:
        ctx.effects.append(OrderSourceFiles(iteration_name, number, names, ahead))
    units = sum(map(len, splits))
    ctx.counts.splits += 1
    if rate is None:
        ctx.soft_state.draw_rates[name, number] = DrawRate(now, units)
    elif units:
        rate.granted(units, now)


def fenced_report(
    ctx: DecisionContext, reader: ReaderId, name: TaskId, task: TaskRecord
) -> RangeSet | None:
    """Return what a reader has buffered of a task without worker, if it fenced the last attempt."""
    known = ctx.soft_state.readers.get(reader)
    report = None if known is None else known.heartbeat.reports.get(name)
    return None if report is None or report.fence <= task.attempt else report.buffered


def waits_for_reports(ctx: DecisionContext, iteration: IterationRecord) -> bool:
    """Return whether tasks wait for a worker, and each for more readers' reports before it.

    Then nothing follows from a report. To find that out costs less than to schedule, which a
    thousand readers would have done that all report on a task.
    """
    waiting = [(n, task) for n, task in iteration.tasks.items() if task.is_unassigned]
    return bool(waiting) and not any(_is_fenced(ctx, iteration, *one) for one in waiting)


def _is_fenced(
    ctx: DecisionContext, iteration: IterationRecord, name: TaskId, task: TaskRecord
) -> bool:
    """Return whether each reader that an attempt waits for has fenced the one before it."""
    if not task.attempt or iteration.rounds is not None:
        return True
    readers = cache_members.needed_by(iteration, task)
    return all(fenced_report(ctx, reader, name, task) is not None for reader in readers)


def _is_over(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> bool:
    """Commit what readers that share more than tasks have come to; return whether that is the end.

    It may be the end also if the last of them has left.
    """
    if skipped_errors.too_many(iteration):
        skipped_errors.stop(ctx, iteration)
        saves.advance_save(ctx, name, iteration, now)
        return bool(iteration.live)
    if iteration.cached:
        return cache_members.advance(ctx, name, iteration, now)
    rounds.advance(ctx, name, iteration, now)
    consumers.note_lost(ctx, name, iteration, now)
    if rounds.is_over(iteration) and _all_done(iteration):
        ctx.finish(name, now)
        return True
    return False


def _moves(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    able: list[WorkerId],
    reach: ReadersReach,
    shares: Mapping[WorkerId, int],
    now: float,
) -> bool:
    """End attempts that should move to other workers; return whether there are any.

    Attempts of fixed parts have no other workers: one ends if its worker keeps what readers
    requeued.
    """
    roomy = [worker for worker in able if not placement.is_short(ctx, worker, now)]
    if move(ctx, iteration, [] if iteration.shards else roomy, reach, now):
        return True
    if iteration.shards or iteration.ordered or any(map(reach.unreached, able)):
        return False
    return placement.rebalance(ctx, name, iteration, able, shares, now)


def _create_tasks(
    ctx: DecisionContext, name: IterationId, iteration: IterationRecord, wanted: int, now: float
) -> None:
    """Make as many tasks as were ever *wanted* at once; a late one needs something left.

    Under static sharding there is one for each place in the list of workers, from the start on.
    """
    if iteration.shards and iteration.next_task:
        return
    if iteration.origin and not iteration.dynamic and iteration.next_task:
        return  # a restored copy for each that there was, and no more
    if iteration.rounds is not None and iteration.next_task and iteration.rounds.is_closed:
        return  # the order of rounds is agreed, or the end is
    if iteration.cached and cache_members.is_closed(iteration):
        return
    while len(iteration.tasks) < wanted and not iteration.broken:
        left = not iteration.dynamic or any(provider.left for provider in iteration.providers)
        if iteration.tasks and not left:
            return
        task = TaskId(ctx.state.next_id)
        ctx.commit(TaskCreated(task, name, iteration.next_task))
        for number in range(len(iteration.providers)):
            grant_splits(ctx, task, number, now, wanted)  # the first assignment has work in it


def _start_attempts(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    able: list[WorkerId],
    reach: ReadersReach,
    shares: Mapping[WorkerId, int],
    now: float,
) -> None:
    """Start the tasks that have no worker and may have one now."""
    waiting = [(n, task) for n, task in iteration.tasks.items() if task.is_unassigned]
    if not waiting:
        return
    useful, placed = reach.useful(able), Placement(ctx, iteration, shares, reach, now)
    wanted = sum(shares[worker] for worker in useful)
    starts = ordered_tasks.Starts(ctx, iteration, wanted) if iteration.ordered else None
    for task_name, task in waiting:
        if starts is not None and not starts.may(task_name):
            break  # when one of them was made, it is looked at again
        there = worker_entries.may_run(ctx, task, able, now) if iteration.shards else useful
        if not _start_attempt(ctx, iteration, task_name, task, there, placed):
            ctx.waiting.add(name)
        elif starts is not None:
            starts.note(task_name)


def _start_attempt(
    ctx: DecisionContext,
    iteration: IterationRecord,
    name: TaskId,
    task: TaskRecord,
    able: list[WorkerId],
    placed: Placement,
) -> bool:
    """Start an attempt: when each live reader fenced the one before, never earlier."""
    unacked: dict[ReaderId, RangeSet] = {}
    readers = cache_members.needed_by(iteration, task)
    if not able or (iteration.cached and not readers):
        return False
    grouped = iteration.rounds is not None  # then each element is of one consumer, for ever
    for reader in readers if task.attempt and not grouped else ():
        buffered = fenced_report(ctx, reader, name, task)
        if buffered is None:
            return False
        trainer = iteration.readers[reader].trainer
        if left := buffered - ctx.acked(name, task, trainer).ranges:
            unacked[reader] = left
    worker = placed.choose(name, able)
    ctx.soft_state.resting.pop(name, None)
    unknown, acked = tuple(task.expired_holders), ctx.acked(name, task)
    trainers = cache_members.places(ctx, name, iteration, task, unacked)
    ctx.commit(AttemptStarted(name, task.attempt + 1, worker, acked, unacked, unknown, trainers))
    return True


def _all_done(iteration: IterationRecord) -> bool:
    if iteration.ordered:  # what is done of it is no longer there
        none_left = not any(provider.left for provider in iteration.providers)
        return bool(iteration.next_task) and not iteration.tasks and none_left
    return bool(iteration.tasks) and all(task.done for task in iteration.tasks.values())


def _abandoned(ctx: DecisionContext, iteration: IterationRecord) -> bool:
    """Return whether no reader can come back: its only one had no name for it, and left."""
    statuses = {reader.status for reader in iteration.readers.values()}
    return statuses == {ReaderStatus.LEFT} and ctx.state.jobs[iteration.job].private
