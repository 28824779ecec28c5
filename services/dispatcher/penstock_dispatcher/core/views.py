"""Messages to workers and readers: all that concerns them.

Of tasks a reader is told what changed since the revision as of which it said that it knows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from penstock.protocol.control import Assignment, ReaderView, TaskAssignment
from penstock.protocol.rounds import LostConsumer, RoundEntry, RoundsView, Stride
from penstock.protocol.splits import StaticShard
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, WorkerId
from penstock_dispatcher.core import (
    cache_members,
    consumers,
    hosting,
    ordered_tasks,
    saves,
    skipped_errors,
)
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import Effect, SendCommand, SendView
from penstock_dispatcher.core.jobs import OVER
from penstock_dispatcher.core.notifications import ViewRequest, Wait
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.task_views import changes, draw
from penstock_dispatcher.core.wait_reasons import newest_wait, waiting_for


def send_views(ctx: DecisionContext, now: float) -> list[Effect]:
    """Return assignments and views for all that is notified, and clear it."""
    state, notifications = ctx.state, ctx.notifications
    out: list[Effect] = []
    for worker in notifications.workers:
        if worker in state.workers:
            assignment = _assignment(ctx, worker)
            out.append(SendCommand(worker, assignment.incarnation, assignment))
    views = _Views(ctx, now)
    for name in notifications.iterations:
        if (iteration := state.iterations.get(name)) is not None:
            out += _push(ctx, name, iteration, iteration.readers, views)
    for name, before in notifications.released.items():
        iteration = state.iterations.get(name)
        if iteration is not None and name not in notifications.iterations:
            # A consumer with rounds in hand is told with the answer to its next report.
            dry = consumers.without_rounds(ctx, iteration, before)
            out += _push(ctx, name, iteration, dry, views)
    for session, asked in notifications.view_requests.items():
        out.append(views.show(session, asked))
    notifications.clear()
    return out


def _push(
    ctx: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    readers: Iterable[ReaderId],
    views: _Views,
) -> Iterator[SendView]:
    """Yield views for those of *readers* that are live and get no answer now."""
    for reader in readers:
        known = iteration.readers[reader]
        if known.status is not ReaderStatus.LIVE:
            continue
        if known.session in ctx.notifications.view_requests:
            continue
        pushed = ViewRequest(name, reader, known.status, None, None)
        if (liveness := ctx.soft_state.readers.get(reader)) is not None:
            heard = liveness.heartbeat
            what = (heard.seq, heard.barrier, heard.tasks_as_of)
            pushed = ViewRequest(name, reader, known.status, *what)
        yield views.show(known.session, pushed)


def _assignment(ctx: DecisionContext, worker: WorkerId) -> Assignment:
    state = ctx.state
    known = state.workers[worker]
    assignments = []
    readers: dict[ReaderId, ReaderStatus] = {}
    for name in known.tasks:
        iteration = state.iterations[state.owners[name]]
        task = iteration.tasks[name]
        task_assignment = TaskAssignment(
            name,
            task.index,
            task.attempt,
            task.iteration,
            iteration.parameters.dataset,
            iteration.seed,
            iteration.parameters.codec,
            task.checkpoint,
            task.logs,
            ctx.acked(name, task),
            task.unacked,
            None if iteration.rounds is None else iteration.rounds.grouped(name),
            cache_members.cached(ctx, name, iteration, task),
            skipped_errors.are_skipped(iteration),
            StaticShard(iteration.parameters.mode, iteration.shards) if iteration.shards else None,
            iteration.ordered,
            None if iteration.stride is None else Stride(iteration.stride, task.place),
        )
        assignments.append(task_assignment)
        readers.update({reader: r.status for reader, r in iteration.readers.items()})
    interval, drain = ctx.settings.heartbeat_interval, ctx.soft_state.workers[worker].drain_ordered
    return Assignment(
        state.revision,
        known.incarnation,
        tuple(assignments),
        readers,
        interval,
        drain,
        hosting.assigned(ctx, worker),
    )


def waits(ctx: DecisionContext, now: float) -> dict[IterationId, str]:
    """Return what each pass waits for that has readers; see `waiting_for`."""
    return {
        name: _wait(ctx, name, iteration, now)
        for name, iteration in ctx.state.iterations.items()
        if not iteration.finished and iteration.live
    }


def _wait(ctx: DecisionContext, name: IterationId, iteration: IterationRecord, now: float) -> str:
    view = draw(ctx.state, iteration, None)
    words = waiting_for(ctx, name, iteration, view, now).words
    return "; ".join(filter(None, [words, cache_members.waits_for(ctx, iteration)]))


class _Views:
    """Makes views; what the readers of one iteration share is computed once."""

    def __init__(self, ctx: DecisionContext, now: float) -> None:
        self._ctx, self._now = ctx, now
        self._waits: dict[IterationId, Wait] = {}
        self._lost: dict[IterationId, tuple[LostConsumer, ...]] = {}

    def show(self, session: str, asked: ViewRequest) -> SendView:
        ctx, name = self._ctx, asked.iteration
        state = ctx.state
        iteration = state.iterations.get(name)
        result = (
            saves.result_for(ctx, iteration, asked.barrier) if asked.barrier is not None else None
        )
        results = () if result is None else (result,)
        next_save = 0 if iteration is None else iteration.next_save
        to = (state.revision, session, asked.reader, asked.status, asked.seq)
        if iteration is None or iteration.finished:
            finished = iteration is not None or name == OVER
            view = ReaderView(*to, {}, finished, save_results=results, next_save=next_save)
            cache = cache_members.view(ctx, iteration, asked.reader)
            return SendView(replace(view, rounds=_end_of_rounds(iteration), cache=cache))
        known = ctx.notifications.view(state, name)
        if name not in self._waits:
            self._waits[name] = newest_wait(ctx, name, iteration, known, self._now)
        hidden = cache_members.hidden(iteration, known.tasks, asked.reader)
        new = changes(known, asked.known, state.revision, hidden)
        return SendView(
            ReaderView(
                *to,
                new.tasks,
                cache_members.has_all(iteration, asked.reader),
                save_results=results,
                next_save=next_save,
                waiting_for=self._words(name, iteration, asked.reader),
                on_readers=self._waits[name].on_readers,
                held_by=ctx.soft_state.held_by.get(name, ""),
                rounds=self._rounds(name, iteration, asked.reader, known.entries),
                cache=cache_members.view(ctx, iteration, asked.reader),
                more_tasks=ordered_tasks.more_follow(ctx, name, iteration),
                changes_since=new.since,
                over=new.over,
                life=ctx.life,
            )
        )

    def _words(self, name: IterationId, iteration: IterationRecord, reader: ReaderId) -> str:
        """Return what a reader waits for, in words."""
        words = self._waits[name].words
        if not iteration.cached or reader not in iteration.readers:
            return words
        trainer = iteration.readers[reader].trainer
        return "; ".join(
            filter(None, [words, cache_members.waits_for(self._ctx, iteration, trainer)])
        )

    def _rounds(
        self,
        name: IterationId,
        iteration: IterationRecord,
        reader: ReaderId,
        entries: tuple[RoundEntry, ...],
    ) -> RoundsView | None:
        rounds = iteration.rounds
        index = None if rounds is None else rounds.index_of(reader)
        if rounds is None or index is None:
            return None
        if name not in self._lost:
            some = consumers.waited(self._ctx, name, self._now).lost  # each tick notes them
            who = consumers.lost(self._ctx, name, iteration, self._now) if some else ()
            self._lost[name] = who
        first = consumers.place(self._ctx, iteration, index)
        failed = None if rounds.failed is None else iteration.tasks[rounds.failed].failure
        return RoundsView(
            rounds.members[index].start,
            first,
            entries[first - rounds.floor :],
            rounds.last,
            failed,
            self._lost[name],
        )


def _end_of_rounds(iteration: IterationRecord | None) -> RoundsView | None:
    """Return where a pass ended that was read in rounds: whoever comes now begins there."""
    rounds = None if iteration is None else iteration.rounds
    if rounds is None or rounds.last is None:
        return None
    return RoundsView(rounds.last, rounds.last, last=rounds.last)
