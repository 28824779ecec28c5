"""The list of workers: who has which entry, and which tasks wait for an entry's worker.

Each entry is for one worker. Under static sharding task i of an iteration runs at the worker of
entry i, and waits for one; or, if settings say so, moves to another worker when that has taken too
long.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import Refused
from penstock.protocol.types import WorkerId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.settings import is_host_of
from penstock_dispatcher.core.state import DispatcherState

NAMED = 4


def entry_for(ctx: DecisionContext, worker: WorkerId, now: float) -> int | None:
    """Return the entry that *worker* has or may have; None where there is no list.

    An entry for any port of a host is its first worker's until that is gone, or has no stream and
    is silent while another one comes. One that comes back gets the entry that it had, if it can.

    Raises:
        Refused: when it is not in the list, or all entries of its host are taken.
    """
    entries = ctx.settings.worker_addresses
    if not entries:
        return None
    known = ctx.state.workers.get(worker)
    fitting = [i for i, text in enumerate(entries) if worker == text]
    fitting = fitting or [i for i, text in enumerate(entries) if is_host_of(text, worker)]
    if known is not None and known.entry in fitting:
        return known.entry
    free = [i for i in fitting if _is_free(ctx, i, now)]
    if not fitting:
        raise Refused(
            f"worker {worker} is not one of worker_addresses: {', '.join(entries)}; add it to "
            "that list at the dispatcher, or start the worker with an address that is in it "
            "(worker_address)"
        )
    if not free:
        others = ", ".join(str(holder(ctx.state, i)) for i in fitting)
        raise Refused(
            f"worker {worker} is one too many: worker_addresses ({', '.join(entries)}) has "
            f"{len(fitting)} for its host, and other workers are there: {others}; add an entry to "
            "that list at the dispatcher, or stop one of them"
        )
    was = [i for i in free if ctx.state.entries.get(i) == worker]
    empty = [i for i in free if holder(ctx.state, i) is None]
    return [*was, *empty, *free][0]


def holder(state: DispatcherState, entry: int) -> WorkerId | None:
    """Return the registered worker that has *entry*."""
    newest = state.entries.get(entry)
    known = None if newest is None else state.workers.get(newest)
    return newest if known is not None and known.entry == entry else None


def may_run(
    ctx: DecisionContext, task: TaskRecord, able: list[WorkerId], now: float
) -> list[WorkerId]:
    """Return which of *able* a static task may run on: the one that has its entry."""
    there = holder(ctx.state, task.index)
    if there is not None:
        return [there] if there in able else []
    return able if _is_given_up(ctx, task.index, now) else []


def note_vacancies(ctx: DecisionContext, now: float) -> None:
    """Note which entries have no worker; schedule what need not wait for one any longer."""
    vacant = ctx.soft_state.vacant_since
    for entry in range(len(ctx.settings.worker_addresses)):
        if holder(ctx.state, entry) is not None:
            vacant.pop(entry, None)
        else:
            vacant.setdefault(entry, now)
    if not any(_is_given_up(ctx, entry, now) for entry in vacant):
        return
    for name in ctx.waiting:
        if ctx.state.iterations[name].shards:
            ctx.dirty[name] = None


def vacancies(ctx: DecisionContext, iteration: IterationRecord, now: float) -> Iterator[str]:
    """Yield the entries that tasks of *iteration* wait for, in words."""
    if not iteration.shards:
        return
    waiting = sorted(
        task.index
        for task in iteration.tasks.values()
        if task.is_unassigned and holder(ctx.state, task.index) is None
    )
    for entry in waiting[:NAMED]:
        yield _vacancy(ctx, entry, iteration.shards, now)
    if len(waiting) > NAMED:
        yield f"{len(waiting) - NAMED} more of worker_addresses"


def _vacancy(ctx: DecisionContext, entry: int, shards: int, now: float) -> str:
    part, entries = f"part {entry} of {shards}", ctx.settings.worker_addresses
    if entry >= len(entries):
        return (
            f"{part}, which no worker has: worker_addresses had {shards} entries when the job was "
            f"made, and has {len(entries)} now; restart the dispatcher with as many as before"
        )
    since = ctx.soft_state.vacant_since.get(entry, now)
    before = ctx.state.entries.get(entry)
    was = f" ({before} was there before)" if before not in (None, entries[entry]) else ""
    remedy = "start it again at that address"
    if ctx.settings.reassign_static_tasks:
        left = max(0.0, since + ctx.settings.worker_lease - now)
        remedy += f"; in {left:.1f} s another worker runs it"
    else:
        remedy += ", or set reassign_static_tasks at the dispatcher, and another worker runs it"
    return (
        f"worker {entries[entry]} of worker_addresses{was}, which has {part} and is absent for "
        f"{now - since:.1f} s: {remedy}"
    )


def _is_given_up(ctx: DecisionContext, entry: int, now: float) -> bool:
    """Return whether other workers may continue the task of *entry*'s worker."""
    if not ctx.settings.reassign_static_tasks:
        return False
    if entry >= len(ctx.settings.worker_addresses):
        return True
    since = ctx.soft_state.vacant_since.get(entry, now)
    return ctx.soft_state.silence(since, now) >= ctx.settings.worker_lease


def _is_free(ctx: DecisionContext, entry: int, now: float) -> bool:
    there, text = holder(ctx.state, entry), ctx.settings.worker_addresses[entry]
    if there is None or not (there == text or is_host_of(text, there)):
        return True  # the list was another one when it came
    known = ctx.soft_state.workers[there]
    silence = ctx.soft_state.silence(known.last_heard, now)
    return not known.connected and silence > 2 * ctx.settings.heartbeat_interval
