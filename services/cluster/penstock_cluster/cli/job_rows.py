"""The jobs of a cluster in a table, the worst first; those that are healthy in one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from penstock.explanation.looks import JobLook, MeshLook
from penstock.explanation.trouble import readers_lost
from penstock.explanation.verdict import WAITS, Bottleneck, Explanation, explain_job
from penstock_cluster.cli.words import counted, more_of, rate
from penstock_dispatcher.core.stats import DispatcherStats, IterationStats
from penstock_dispatcher.page.standing import standing_of_worker
from penstock_dispatcher.page.worker_load import NOT_HEARD

HEALTHY_NAMED = 6
"""The most healthy jobs whose names are shown; ``--all`` shows the others."""


class Grade(IntEnum):
    """How a job is, the worst first."""

    FAILED = 0
    STOPPED = 1
    """Its loops do not get elements, or nothing is known of them."""
    WAITS = 2
    UNKNOWN = 3
    """Too little is known of its loops yet."""
    NOTED = 4
    """Its loops do not wait; readers died, or it left out elements."""
    HEALTHY = 5


STYLES = {Grade.FAILED: "red", Grade.STOPPED: "red", Grade.WAITS: "yellow", Grade.NOTED: "yellow"}


@dataclass(frozen=True, slots=True)
class JobRow:
    """A pass that runs. What is not known now is None, rather than an old figure.

    *elements* is how many a second workers make, *steps* how many a second its loops take.
    """

    iteration: int
    name: str
    grade: Grade
    what: str
    """What it waits for, or what is wrong."""
    wait: float | None = None
    steps: float | None = None
    elements: float | None = None


def name_of(it: IterationStats) -> str:
    """Return what the job of a pass is called: without a name, by its pipeline."""
    return it.outline if it.private and it.outline else it.job


def job_rows(stats: DispatcherStats, mesh: MeshLook) -> list[JobRow]:
    """Return the passes that run, the worst first."""
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
    grade, what = _graded(it, look, told)
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


def _graded(it: IterationStats, look: JobLook, told: Explanation) -> tuple[Grade, str]:
    failure = next((task.failure for task in it.tasks if task.failure), None)
    if failure:
        return Grade.FAILED, f"failed: {failure.strip().partition(chr(10))[0]}"
    if stopped := _stopped(it, look, told):
        return Grade.STOPPED, stopped
    died = readers_lost(look.readers.lost, look.readers.silent)
    of = f"{died} of {counted(look.readers.live + look.readers.lost, 'reader')}" if died else ""
    if told.limit is Bottleneck.UNKNOWN and told.wait < WAITS:
        return Grade.UNKNOWN, of or told.sentence
    if told.limit is not Bottleneck.NOTHING:
        return Grade.WAITS, _what(told, it, of)
    errors = it.account.errors
    noted = of or (f"left out {counted(errors, 'error')}" if errors else "")
    return (Grade.NOTED if noted else Grade.HEALTHY), noted


def _stopped(it: IterationStats, look: JobLook, told: Explanation) -> str:
    """Return why the loops of a pass get nothing, if that is so."""
    lost = next((one.lost for one in it.rounds.consumers if one.lost), "") if it.rounds else ""
    if lost:
        return f"lost: {lost}"
    if told.limit in (Bottleneck.STOPPED, Bottleneck.READERS):
        return told.sentence
    return "" if look.running else it.waiting_for


def _what(told: Explanation, it: IterationStats, died: str) -> str:
    """Return for what loops wait, in a few words: `penstock explain` has the sentence."""
    match told.limit:
        case Bottleneck.WORKERS if told.operator:
            what = f"{told.operator} on workers"
        case Bottleneck.HERE if told.operator:
            what = f"{told.operator} in the training process"
        case Bottleneck.DELIVERY:
            what = "what is made to be taken"
        case _:
            what = it.waiting_for or told.sentence
    return f"{what}; {died}" if died else what


def jobs_part(rows: Sequence[JobRow], most: int | None) -> Iterator[RenderableType]:
    """Yield a table of *rows*, with at most so many lines if there is a bound, and what is left."""
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
