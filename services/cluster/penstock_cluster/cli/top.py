"""``penstock top``: operators, tasks and workers; the slowest or the most productive first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from operator import attrgetter
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.errors import ConfigError
from penstock.protocol.names import printable
from penstock_cluster.cli.client import screen
from penstock_cluster.cli.grid import Grid, rate
from penstock_cluster.cli.look import passes_meant
from penstock_cluster.cli.picture import busy_cores, running_tasks
from penstock_cluster.cli.status import look
from penstock_dispatcher.page.details import task_row, worker_row
from penstock_dispatcher.page.history import History, Moment
from penstock_dispatcher.page.job_view import OperatorShare, job_view
from penstock_dispatcher.page.standing import load_of

R = TypeVar("R")

LOOK_FOR = 2.0
"""Seconds over which rates are measured if the tables are printed once."""

EVERY_LINE = 1 << 20
"""More lines than there are."""

LINES_AROUND = 4
"""Lines of a table besides its rows: its frame and its head."""


class Subject(Enum):
    """The kinds of things that can be listed."""

    OPERATORS = "operators"
    TASKS = "tasks"
    WORKERS = "workers"


class Order(Enum):
    """The order of rows: slowest first, most or least productive first, or by name."""

    TIME = "time"
    RATE = "rate"
    SLOWEST = "slowest"
    NAME = "name"


def drawn(
    subjects: Sequence[Subject], order: Order, job: str = ""
) -> Callable[..., RenderableType]:
    """Return a function for `full_screen.show_until_quit` that draws *subjects* of *job*."""

    def draw(_: History, moment: Moment, lines: int) -> RenderableType:
        return top(moment_of_job(moment, job), subjects, order, lines)

    return draw


def top_once(target: str, subjects: Sequence[Subject], order: Order, job: str = "") -> None:
    """Ask the cluster of *target* twice, and print the tables of the second answer."""
    history = History()
    for pause in (0.0, LOOK_FOR):
        time.sleep(pause)
        now = look(target)
        moment = history.look(now.stats, now.mesh, now.date)
    passes_meant(now.stats.iterations, job)
    screen.print(top(moment_of_job(moment, job), subjects, order, EVERY_LINE))


def moment_of_job(moment: Moment, job: str) -> Moment:
    """Reduce *moment* to the passes that *job* names and the workers that run their tasks."""
    if not job:
        return moment
    stats = moment.stats
    try:
        passes = passes_meant(stats.iterations, job)
    except ConfigError:
        passes = ()  # it may come while it is looked at
    tasks = {task.task for it in passes for task in it.tasks}
    workers = tuple(one for one in stats.workers if tasks & set(one.tasks))
    return replace(moment, stats=replace(stats, iterations=passes, workers=workers))


def top(moment: Moment, subjects: Sequence[Subject], order: Order, lines: int) -> RenderableType:
    """Return a table for each of *subjects* at *moment*, in about *lines* lines in all."""
    rows = max(3, (lines - 2) // len(subjects) - LINES_AROUND - 3)
    at = time.strftime("%H:%M:%S", time.localtime(moment.at))
    how = "slowest first" if order is Order.SLOWEST else f"by {order.value}"
    head = Text.assemble(
        (f"penstock {moment.stats.address}", "bold"), f"  {at}  {how}", ("  q ends", "dim")
    )
    return Group(head, *(part for one in subjects for part in _table(moment, one, order, rows)))


def _table(moment: Moment, subject: Subject, order: Order, rows: int) -> Iterator[RenderableType]:
    columns, rows_of = {
        Subject.OPERATORS: (_OPERATORS, _operator_rows),
        Subject.TASKS: (_TASKS, _task_rows),
        Subject.WORKERS: (_WORKERS, _worker_rows),
    }[subject]
    found = rows_of(moment, order)
    yield Text(f"\n{subject.value}" + ("" if found else ": none"), "bold")
    if found:
        yield Grid(columns, found[:rows])
    if len(found) > rows:
        yield Text(f"{len(found) - rows:,} more", "dim")


_OPERATORS = ("operator~", "job~", "works>", "waits->", "elements/s->", "elements->")
_TASKS = ("task", "worker", "elements/s>", "job-", "state-", "works->", "produced->", "attempt->")
_WORKERS = (
    "worker",
    "state~",
    "elements/s>",
    "busy cores->",
    "works->",
    "running->",
    "assigned->",
    "buffered, MB->",
)


def _operator_rows(moment: Moment, order: Order) -> list[list[str]]:
    found: list[tuple[OperatorShare, str, float]] = []
    for it in moment.stats.iterations:
        if not it.finished:
            view = job_view(it, moment)
            made = _per_element(moment, it.iteration)
            found += [(one, printable(it.job), made.get(one.label, 0.0)) for one in view.operators]
    found = _sorted(found, order, lambda row: row[0].worked, _made, lambda row: row[0].label)
    return [
        [
            one.label,
            job,
            _percent(one.worked),
            _percent(one.waited),
            rate(made),
            f"{one.elements:,}",
        ]
        for one, job, made in found
    ]


def _per_element(moment: Moment, iteration: int) -> dict[str, float]:
    """Return each operator's elements per second in a pass, since its tasks began."""
    out: dict[str, float] = {}
    look = moment.looks.get(iteration)
    for task in look.tasks if look is not None else ():
        for one in task.operators if task.seconds > 0 else ():
            out[one.label] = out.get(one.label, 0.0) + one.elements / task.seconds
    return out


def _task_rows(moment: Moment, order: Order) -> list[list[str]]:
    busy = _busy(moment)
    running = (it for it in moment.stats.iterations if not it.finished)
    found = [task_row(it, task, moment) for it in running for task in it.tasks if not task.done]
    found = _sorted(
        found, order, lambda row: busy.get(row.task, 0.0), attrgetter("rate"), attrgetter("task")
    )
    return [
        [
            str(one.task),
            one.worker or "",
            rate(one.rate),
            printable(one.job),
            one.standing,
            _percent(busy.get(one.task, 0.0)),
            f"{one.head:,}",
            str(one.attempt),
        ]
        for one in found
    ]


def _worker_rows(moment: Moment, order: Order) -> list[list[str]]:
    busy = _busy(moment)
    by_worker = {
        w.address: sum(busy.get(task, 0.0) for task in w.tasks) for w in moment.stats.workers
    }
    load = {one.address: load_of([one]) for one in moment.stats.workers}
    found = [worker_row(one, moment) for one in moment.stats.workers]
    found = _sorted(
        found, order, lambda row: by_worker[row.address], attrgetter("rate"), attrgetter("address")
    )
    return [
        [
            one.address,
            one.standing,
            rate(one.rate),
            busy_cores(load[one.address]),
            _percent(by_worker[one.address]),
            running_tasks(load[one.address]),
            f"{load[one.address].assigned:,}",
            f"{one.buffered / 1e6:,.1f}",
        ]
        for one in found
    ]


def _busy(moment: Moment) -> dict[int, float]:
    """Return for each task the share of its time that its operators worked."""
    return {
        task.task: sum(one.worked for one in task.operators) / task.seconds
        for look in moment.looks.values()
        for task in look.tasks
        if task.seconds > 0
    }


def _sorted(
    rows: Iterable[R],
    order: Order,
    time_of: Callable[[R], float],
    rate_of: Callable[[R], float],
    name_of: Callable[[R], Any],
) -> list[R]:
    key: Callable[[R], Any]
    key, down = {
        Order.TIME: (time_of, True),
        Order.RATE: (rate_of, True),
        Order.SLOWEST: (rate_of, False),
        Order.NAME: (name_of, False),
    }[order]
    return sorted(rows, key=key, reverse=down)


def _made(row: tuple[OperatorShare, str, float]) -> float:
    return row[2]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
