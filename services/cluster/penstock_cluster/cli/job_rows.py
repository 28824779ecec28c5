"""The jobs of a cluster in a table, the worst first; healthy jobs share one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock.explanation.looks import JobLook, MeshLook
from penstock.explanation.trouble import counted
from penstock.explanation.verdict import Bottleneck, explain_job
from penstock_cluster.cli.grid import more_of, rate
from penstock_cluster.cli.look import name_of
from penstock_dispatcher.core.stats import DispatcherStats, IterationStats
from penstock_dispatcher.page.job_view import Grade, graded
from penstock_dispatcher.page.standing import NOT_HEARD, standing_of_worker

HEALTHY_NAMED = 6
"""The number of healthy jobs whose names are shown; ``--all`` shows the others."""


STYLES = {Grade.FAILED: "red", Grade.STOPPED: "red", Grade.WAITS: "yellow", Grade.NOTED: "yellow"}


@dataclass(frozen=True, slots=True)
class JobRow:
    """A running pass. A figure that is not known now is None, not an old value.

    *elements* is how many elements per second its workers produce, *steps* how many steps per
    second its training loops take.
    """

    iteration: int
    name: str
    grade: Grade
    what: str
    """The reason why it waits, or the problem it has."""
    wait: float | None = None
    steps: float | None = None
    elements: float | None = None


def job_rows(stats: DispatcherStats, mesh: MeshLook) -> list[JobRow]:
    """Return the running passes, the worst first."""
    looks = {look.iteration: look for look in mesh.jobs}
    heard = {one.address for one in stats.workers if standing_of_worker(one) not in NOT_HEARD}
    running = [it for it in stats.iterations if not it.finished]
    often = Counter(map(name_of, running))
    rows = []
    for it in running:
        name = name_of(it)
        name += f", repetition {it.repetition}" if often[name] > 1 else ""
        rows.append(_row(it, name, looks.get(it.iteration), heard))
    return sorted(rows, key=_badness)


def _badness(row: JobRow) -> tuple[int, float]:
    return row.grade, -(row.wait or 0.0)


def _row(it: IterationStats, name: str, look: JobLook | None, heard: Collection[str]) -> JobRow:
    if look is None:
        return JobRow(it.iteration, name, Grade.UNKNOWN, "not known yet")
    told = explain_job(look)
    grade, what = graded(it, look, told)
    if told.limit in (Bottleneck.STOPPED, Bottleneck.READERS):
        return JobRow(it.iteration, name, grade, what)
    made = [
        task.operators[0].elements / task.seconds
        for task in look.tasks
        if task.worker in heard and task.operators and task.seconds > 0
    ]
    known = told.limit is not Bottleneck.UNKNOWN
    return JobRow(
        it.iteration,
        name,
        grade,
        what,
        told.wait if known else None,
        sum(loop.rate for loop in look.loops) if look.loops else None,
        sum(made) if made and look.running else None,
    )


def jobs_part(rows: Sequence[JobRow], most: int | None) -> Iterator[RenderableType]:
    """Yield a table of *rows*, at most *most* lines if that is given, and a line on the rest."""
    healthy = [] if most is None else [row for row in rows if row.grade is Grade.HEALTHY]
    others = rows if most is None else [row for row in rows if row.grade is not Grade.HEALTHY]
    shown = others[:most]
    if shown:
        yield _table(shown)
    yield from more_of(len(others) - len(shown), "job")
    if said := healthy_jobs(healthy):
        yield Text(said, "green", no_wrap=True, overflow="ellipsis")


def healthy_jobs(rows: Iterable[JobRow]) -> str:
    """Return in a line how many of *rows* are healthy, and the first of them; empty if none is."""
    names = [row.name for row in rows if row.grade is Grade.HEALTHY]
    more = ", …" if len(names) > HEALTHY_NAMED else ""
    there = f"{counted(len(names), 'job is', 'jobs are')} healthy"
    return f"{there}: {', '.join(names[:HEALTHY_NAMED])}{more}" if names else ""


def _table(rows: Sequence[JobRow]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("job", overflow="fold")
    table.add_column("waits", justify="right", no_wrap=True)
    table.add_column("for", no_wrap=True, overflow="ellipsis")
    for name in ("steps/s", "elements/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        style = STYLES.get(row.grade, "")
        table.add_row(
            Text(row.name),
            Text("-" if row.wait is None else f"{100 * row.wait:.0f} %", style),
            Text(row.what or "healthy", style),
            _rate(row.steps),
            _rate(row.elements),
        )
    return table


def _rate(number: float | None) -> str:
    return "-" if number is None else rate(number)
