"""All that the page shows, as one value; and what changed since the one before, as another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec import structs

from penstock.credentials.entrance import Security
from penstock.protocol.recording import SaveStage
from penstock_dispatcher.core.stats import DispatcherStats, SaveStats
from penstock_dispatcher.page.headline import Headline, headline
from penstock_dispatcher.page.history import FIELDS, DatedNotice, History, Moment
from penstock_dispatcher.page.job_view import Grade, JobView, job_view
from penstock_dispatcher.page.mesh_view import MeshView, mesh_view, shown_standing
from penstock_dispatcher.page.standing import LOST, WorkerLoad, load_of

RUNNING_SHOWN = 100
"""The most passes that run which the page has; `Totals` counts all."""

FINISHED_SHOWN = 20
"""The most passes that are over which the page has, the newest."""

SAVES_SHOWN = 100
"""The most open saves that the page has."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the mesh. Rates are per second, of passes that run."""

    workers: int
    standings: Mapping[str, int]
    slots: int
    slots_used: int
    load: WorkerLoad
    running: int
    finished: int
    forgotten: int
    readers: int
    tasks: int
    elements: float
    nbytes: float


@dataclass(frozen=True, slots=True)
class DispatcherView:
    """The dispatcher itself."""

    address: str
    penstock: str
    python: str
    insecure: bool
    """Whether everybody who can connect is let in."""
    revision: int
    datasets: int
    memory: int
    cpu: float


class NoticeView(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event, in words."""

    number: int
    at: float
    kind: str
    words: str
    job: str | None = None
    iteration: int | None = None
    task: int | None = None
    worker: str | None = None
    reader: int | None = None


class PageSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The contents of the page at a time. A change leaves out unchanged parts.

    Notices, and the columns of time lines, are appended to those before where it is a *change*.
    """

    number: int
    at: float
    change: bool = False
    dispatcher: DispatcherView | None = None
    headline: Headline | None = None
    totals: Totals | None = None
    jobs: tuple[JobView, ...] | None = None
    mesh: MeshView | None = None
    saves: tuple[SaveStats, ...] | None = None
    """Those that are open, the newest."""
    notices: tuple[NoticeView, ...] = ()
    lines: Mapping[str, Mapping[str, list[float]]] = {}


def whole(history: History, moment: Moment) -> PageSnapshot:
    """Return all that the page shows at *moment*, the last look of *history*."""
    shown = _shown(moment)
    jobs = {job.iteration for job in shown["jobs"]}
    notices = tuple(map(_notice, history.notices))
    lines = {str(it): line.columns() for it, line in history.lines.items() if it in jobs}
    return PageSnapshot(moment.number, moment.at, **shown, notices=notices, lines=lines)


def change(before: PageSnapshot, history: History, moment: Moment) -> PageSnapshot:
    """Return the difference between *moment*, the last look of *history*, and *before*, a whole."""
    shown = _shown(moment)
    last = before.notices[-1].number if before.notices else 0
    return PageSnapshot(
        moment.number,
        moment.at,
        change=True,
        **{name: value for name, value in shown.items() if value != getattr(before, name)},
        notices=tuple(_notice(one) for one in history.notices if one.number > last),
        lines=_newest(shown["jobs"], history),
    )


def applied(before: PageSnapshot, made: PageSnapshot) -> PageSnapshot:
    """Return *before* with the change *made*, to compare the next look with; it has no lines."""
    values = {name: getattr(made, name) for name in _SHOWN}
    known = {name: value for name, value in values.items() if value is not None}
    notices = made.notices or before.notices[-1:]
    return structs.replace(
        before, number=made.number, at=made.at, **known, notices=notices, lines={}
    )


_SHOWN = ("dispatcher", "headline", "totals", "jobs", "mesh", "saves")


def _shown(moment: Moment) -> dict[str, Any]:
    """Return the values of a whole snapshot that a change leaves out if they are as before."""
    jobs = _jobs(moment)
    first = headline(jobs, len(moment.stats.workers), moment.trouble)
    saves = tuple(one for one in moment.stats.saves if one.stage == SaveStage.OPEN)[-SAVES_SHOWN:]
    about = (_dispatcher(moment.stats), first, _totals(moment))
    parts = (*about, jobs, mesh_view(moment), saves)
    return dict(zip(_SHOWN, parts, strict=True))


def _jobs(moment: Moment) -> tuple[JobView, ...]:
    """Return the passes that run, those with trouble or the longest wait first; then others."""
    stats = moment.stats
    running = [it for it in stats.iterations if not it.finished]
    finished = [it for it in reversed(stats.iterations) if it.finished]
    unbalanced = [it for it in finished if it.faults]
    rest = (it for it in finished if not it.faults)
    shown = [*unbalanced[:FINISHED_SHOWN], *islice(rest, FINISHED_SHOWN)]
    views = [job_view(it, moment) for it in running[:RUNNING_SHOWN]]
    views.sort(key=lambda one: (Grade[one.grade.upper()], -one.wait))
    return (*views, *(job_view(it, moment) for it in shown))


def _dispatcher(stats: DispatcherStats) -> DispatcherView:
    versions, usage = stats.versions, stats.usage
    return DispatcherView(
        stats.address,
        "" if versions is None else versions.penstock,
        "" if versions is None else versions.python,
        stats.security == Security.INSECURE.value,
        stats.revision,
        stats.datasets,
        0 if usage is None else usage.memory,
        0.0 if usage is None else round(usage.cpu, 1),
    )


def _totals(moment: Moment) -> Totals:
    stats = moment.stats
    standings: dict[str, int] = {}
    for worker in stats.workers:
        name = shown_standing(worker, moment)
        standings[name] = standings.get(name, 0) + 1
    if moment.lost:
        standings[LOST] = len(moment.lost)
    running = [it for it in stats.iterations if not it.finished]
    return Totals(
        len(stats.workers),
        standings,
        sum(w.slots for w in stats.workers),
        sum(w.slots_used for w in stats.workers),
        load_of(stats.workers),
        len(running),
        len(stats.iterations) - len(running),
        len(stats.forgotten),
        sum(it.live_readers for it in running),
        sum(not task.done for it in running for task in it.tasks),
        round(sum(one.elements for one in moment.samples.values()), 2),
        round(sum(one.nbytes for one in moment.samples.values()), 1),
    )


def _notice(one: DatedNotice) -> NoticeView:
    told = one.notice
    about = told.job, told.iteration, told.task, told.worker, told.reader
    return NoticeView(one.number, round(one.at, 3), told.kind.value, told.words, *about)


def _newest(jobs: tuple[JobView, ...], history: History) -> dict[str, Mapping[str, list[float]]]:
    out: dict[str, Mapping[str, list[float]]] = {}
    for job in jobs:
        line = history.lines.get(job.iteration)
        newest = None if line is None or job.sample is None else line.newest
        if newest is not None:
            columns = {name: [round(getattr(newest, name), 4)] for name in FIELDS}
            out[str(job.iteration)] = columns
    return out
