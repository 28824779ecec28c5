"""Decide what follows for an iteration: create and start tasks, move them, save, finish."""

from __future__ import annotations

from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock_dispatcher.core import rebalancing, runner_shortage, saves
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import OrderSourceFiles
from penstock_dispatcher.core.facts import AttemptStarted, SplitsGranted, TaskCreated
from penstock_dispatcher.core.reachability import ReadersReach, move, places
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.split_provider import DrawRate, split_size


def schedule(desk: DecisionContext, name: IterationId, now: float) -> None:
    """Write what follows for an iteration from what is fact."""
    desk.waiting.discard(name)
    iteration = desk.books.iterations.get(name)
    if iteration is None or iteration.finished:
        return
    if not iteration.live:
        if _abandoned(desk, iteration):
            desk.forget(name)
        return
    able = desk.able(iteration)
    _make(desk, name, iteration, len(able), now)
    reach = ReadersReach.of(desk, iteration)
    able = reach.useful(able)
    for task_name, task in iteration.tasks.items():
        start = (desk, iteration, task_name, task, able, reach, now)
        if task.waits and not _start(*start):
            desk.waiting.add(name)
    roomy = [worker for worker in able if not runner_shortage.is_short(desk, worker, now)]
    if move(desk, iteration, roomy, reach, now):
        return  # and settle again
    in_vain = any(map(reach.nobody, able))
    if not in_vain and rebalancing.rebalance(desk, name, iteration, able, now):
        return  # and settle again
    if iteration.tasks and all(task.done for task in iteration.tasks.values()):
        desk.finish(name, now)  # who is at a cut hears that the pass is over
    else:
        saves.advance_save(desk, name, iteration, now)


def grant_splits(desk: DecisionContext, name: TaskId, stream: int, now: float) -> None:
    """Give a task what comes next of *stream*."""
    iteration = desk.books.iterations[desk.books.owners[name]]
    source, pace = iteration.sources[stream], desk.heard.paces.get((name, stream))
    size = split_size(source, pace, desk.sharing(iteration), now)
    splits = source.draw(iteration.tasks[name].ended[stream], size)
    if not splits:
        return  # nothing was ever to be read
    desk.write(SplitsGranted(name, stream, splits))
    ahead, names = source.ask_ahead(), source.known.names
    if ahead is not None and names is not None:
        desk.out.append(OrderSourceFiles(desk.books.owners[name], stream, names, ahead))
    units = sum(map(len, splits))
    desk.counts.splits += 1
    if pace is None:
        desk.heard.paces[name, stream] = DrawRate(now, units)
    elif units:
        pace.granted(units, now)


def fenced_report(
    desk: DecisionContext, reader: ReaderId, name: TaskId, task: TaskRecord
) -> RangeSet | None:
    """Return what a reader has buffered of a task without worker, if it gave its word on it."""
    known = desk.heard.readers.get(reader)
    holding = None if known is None else known.beat.holdings.get(name)
    return None if holding is None or holding.fence <= task.attempt else holding.buffered


def _make(
    desk: DecisionContext, name: IterationId, iteration: IterationRecord, able: int, now: float
) -> None:
    """Make as many tasks as there were ever workers at once; a late one needs something left."""
    if iteration.origin and not iteration.dynamic and iteration.made:
        return  # a restored copy for each that there was, and no more
    while len(iteration.tasks) < able and not iteration.broken:
        left = not iteration.dynamic or any(source.left for source in iteration.sources)
        if iteration.tasks and not left:
            return
        task = TaskId(desk.books.next_id)
        desk.write(TaskCreated(task, name, iteration.made))
        for stream in range(len(iteration.sources)):
            grant_splits(desk, task, stream, now)  # so that the first order has something to do


def _start(
    desk: DecisionContext,
    iteration: IterationRecord,
    name: TaskId,
    task: TaskRecord,
    able: list[WorkerId],
    reach: ReadersReach,
    now: float,
) -> bool:
    """Start an attempt: when each live reader gave its word on the one before, never earlier."""
    held: dict[ReaderId, RangeSet] = {}
    if not able:
        return False
    taken = desk.taken(name, task)
    for reader in iteration.live if task.attempt else ():
        buffered = fenced_report(desk, reader, name, task)
        if buffered is None:
            return False
        if untaken := buffered - taken.runs:
            held[reader] = untaken
    mine = [sibling.ran_on for sibling in iteration.tasks.values() if not sibling.waits]
    there = places(iteration)

    def cost(worker: WorkerId) -> tuple[bool, bool, int, int, int, int]:
        unserved = len(reach.unserved([*there, worker])) if reach.missed else 0
        short = runner_shortage.is_short(desk, worker, now)
        refusals, load = (
            runner_shortage.refusals(desk, worker, name),
            desk.books.workers[worker].tasks,
        )
        spent = refusals >= runner_shortage.ROUNDS
        return short, spent, unserved, refusals, mine.count(worker), len(load)

    worker = min(able, key=cost)
    unknown = tuple(task.suspects)
    desk.write(AttemptStarted(name, task.attempt + 1, worker, taken, held, unknown))
    return True


def _abandoned(desk: DecisionContext, iteration: IterationRecord) -> bool:
    """Say whether nobody can come back: its one reader had no name for it, and left."""
    standings = {reader.standing for reader in iteration.readers.values()}
    return standings == {ReaderStatus.LEFT} and desk.books.jobs[iteration.job].private
