"""A worker, a task, or the workers of a group: things with a place of their own on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from penstock_dispatcher.core.stats import IterationStats, TaskStats, WorkerSummary
from penstock_dispatcher.page.history import Moment
from penstock_dispatcher.page.job_view import OperatorShare, operators_of
from penstock_dispatcher.page.mesh_view import (
    buffered,
    called,
    median_of,
    shown_standing,
    standing_of_reader,
    worker_groups,
)
from penstock_dispatcher.page.standing import LOST, NO_LOAD, WorkerLoad, load_of, memory_of

LISTED = 200
"""The most workers, tasks and readers of a list; it says how many there are."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker in a list. *rate* is elements a second."""

    address: str
    standing: str
    slots: int
    slots_used: int
    tasks: int
    rate: float
    buffered: int
    silent: float
    median: float | None = None
    """The rate that the median of its peers would reach with its tasks, if it has peers."""
    host: str = ""
    load: WorkerLoad = NO_LOAD
    memory: int | None = None
    """Bytes that its processes use, if it has said so of late."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task in a list. *rate* is elements a second."""

    task: int
    iteration: int
    job: str
    worker: str | None
    attempt: int
    head: int
    acked: int
    splits: int
    rate: float
    standing: str
    failure: str
    number: int
    """Its number within its pass, by which people call it."""


@dataclass(frozen=True, slots=True)
class ReaderRow:
    """A reader in a list. *nbytes* is bytes a second that come to it."""

    reader: int
    label: str
    iteration: int
    job: str
    standing: str
    consumed: int
    wait: float
    steps: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of a list, and how many there are in all."""

    total: int
    workers: tuple[WorkerRow, ...] = ()
    tasks: tuple[TaskRow, ...] = ()
    readers: tuple[ReaderRow, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerDetail:
    """A worker with its tasks. *stats* are its own counts."""

    worker: WorkerRow
    host: str
    tags: tuple[str, ...]
    transports: tuple[str, ...]
    incarnation: int
    unreachable: int
    tasks: tuple[TaskRow, ...]
    operators: tuple[OperatorShare, ...]
    stats: Any


@dataclass(frozen=True, slots=True)
class TaskDetail:
    """A task, and its operators. Shares are of the time since its runner began."""

    task: TaskRow
    compression: str
    ready: int
    unacked: int
    nbytes: int
    room: int
    held_up: float
    starved: float
    operators: tuple[OperatorShare, ...]


def workers_listed(moment: Moment, group: str = "") -> Listing:
    """Return the workers of *group*, as the picture of the mesh has it; of none all."""
    members: Sequence[WorkerSummary] = (
        worker_groups(moment).get(group, []) if group else moment.stats.workers
    )
    lost = moment.lost if group in ("", LOST) else {}
    gone = [WorkerRow(name, LOST, 0, 0, 0, 0.0, 0, round(ago)) for name, ago in lost.items()]
    rows = (*gone, *(worker_row(one, moment) for one in members[:LISTED]))
    return Listing(len(members) + len(gone), workers=rows[:LISTED])


def tasks_listed(moment: Moment, iteration: int) -> Listing:
    """Return the tasks of a pass that are not done; of none if there is no such pass."""
    found = [it for it in moment.stats.iterations if it.iteration == iteration]
    going = [(it, task) for it in found for task in it.tasks if not task.done]
    rows = tuple(task_row(it, task, moment) for it, task in going[:LISTED])
    return Listing(len(going), tasks=rows)


def readers_listed(moment: Moment, iteration: int) -> Listing:
    """Return the readers of a pass, those that have not left first."""
    found = [it for it in moment.stats.iterations if it.iteration == iteration]
    known = [(it, one) for it in found for one in it.readers]
    known.sort(key=lambda pair: pair[1].status == "left")
    rows = tuple(
        ReaderRow(
            one.reader,
            called(one.reader, one.process),
            it.iteration,
            it.job,
            standing_of_reader(one),
            one.consumed,
            round(one.loop.share, 4) if one.loop is not None else 0.0,
            round(one.loop.steps / one.loop.seconds, 2) if one.loop and one.loop.seconds else 0.0,
            round(sum(link.rate for link in one.links), 1),
        )
        for it, one in known[:LISTED]
    )
    return Listing(len(known), readers=rows)


def worker_detail(moment: Moment, address: str) -> WorkerDetail | None:
    """Return the details of the worker at *address*; None if there is none."""
    found = next((one for one in moment.stats.workers if one.address == address), None)
    if found is None:
        return None
    running = (it for it in moment.stats.iterations if not it.finished)
    own = ((it, t) for it in running for t in it.tasks if t.worker == address and not t.done)
    looks = (look for job in moment.looks.values() for look in job.tasks if look.worker == address)
    return WorkerDetail(
        worker_row(found, moment),
        found.host,
        found.tags,
        found.transports,
        found.incarnation,
        found.unreachable,
        tuple(task_row(it, task, moment) for it, task in islice(own, LISTED)),
        operators_of(looks),
        found.stats,
    )


def task_detail(moment: Moment, task: int) -> TaskDetail | None:
    """Return the details of a task; None if there is none, or its pass is over."""
    running = (it for it in moment.stats.iterations if not it.finished)
    found = next(((it, t) for it in running for t in it.tasks if t.task == task), None)
    if found is None:
        return None
    row = task_row(*found, moment)
    look = next((t for job in moment.looks.values() for t in job.tasks if t.task == task), None)
    if look is None:
        return TaskDetail(row, "", 0, 0, 0, 0, 0.0, 0.0, ())
    held, starved = (
        round(part / look.seconds, 4) if look.seconds > 0 else 0.0
        for part in (look.held_up, look.starved)
    )
    here = look.compression, look.ready, look.unacked, look.nbytes, look.room
    return TaskDetail(row, *here, held, starved, operators_of([look]))


def worker_row(worker: WorkerSummary, moment: Moment) -> WorkerRow:
    """Return *worker* as a row of a list."""
    return WorkerRow(
        worker.address,
        shown_standing(worker, moment),
        worker.slots,
        worker.slots_used,
        len(worker.tasks),
        round(moment.by_worker.get(worker.address, 0.0), 2),
        buffered(worker),
        round(worker.silent, 1),
        median_of([worker], moment),
        worker.host,
        load_of([worker]),
        memory_of(worker),
        "" if worker.versions is None else worker.versions.penstock,
    )


def task_row(it: IterationStats, task: TaskStats, moment: Moment) -> TaskRow:
    """Return a task of the pass *it* as a row of a list."""
    if task.done:
        standing = "done"
    elif task.failure:
        standing = "failed"
    else:
        standing = "runs" if task.worker else "waits for a worker"
    return TaskRow(
        task.task,
        it.iteration,
        it.job,
        task.worker,
        task.attempt,
        task.head,
        task.acked,
        task.splits,
        round(moment.by_task.get(task.task, 0.0), 2),
        standing,
        task.failure or "",
        task.index,
    )
