"""Show a cluster on a screen: running passes first, then a line for each finished pass."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.credentials.entrance import Security
from penstock.explanation.trouble import Trouble
from penstock_cluster.cli.grid import Give, Grid, GridColumn
from penstock_cluster.cli.job_rows import job_rows, jobs_part
from penstock_cluster.cli.look import Look, state_of
from penstock_cluster.cli.pass_details import pass_details
from penstock_cluster.cli.words import counted, spoken
from penstock_cluster.cli.workers import workers_part
from penstock_dispatcher.core.stats import (
    DispatcherStats,
    ForgottenStats,
    IterationStats,
    RegistrationStats,
)
from penstock_dispatcher.page.job_grade import Grade

FINISHED_SHOWN = 5
"""The number of finished passes that have a line of their own; the newest are shown."""


REGISTERED_SHOWN = 20
"""The number of registered datasets that have a line; the newest are shown."""

LEAST = 4
"""The fewest rows of a table that is cut to fit the screen."""

AROUND = 14
"""Lines besides rows on a screen with several jobs: heads, frames and counts."""


def picture(now: Look, lines: int | None = None) -> RenderableType:
    """Return tables of the cluster's workers and jobs, or all details if one pass runs.

    Args:
        now: the present state of the cluster.
        lines: about how many lines fit the screen; other rows are counted. None shows all.
    """
    stats = now.stats
    running = [it for it in stats.iterations if not it.finished]
    finished = [it for it in stats.iterations if it.finished]
    head = _head(now, len(running), len(finished)), *_trouble(now.mesh.trouble)
    if len(running) > 1:
        return Group(*head, *_overview(now, lines))
    most = None if lines is None else max(LEAST, lines // 4)
    return Group(
        *head,
        *(workers_part(stats.workers, stats.versions, most) if stats.workers else [_no_worker()]),
        *(part for it in running for part in pass_details(it, now, most)),
        *_finished(finished, now.target),
        *_registrations(stats.registrations),
        *_forgotten(now),
    )


def _overview(now: Look, lines: int | None) -> Iterator[RenderableType]:
    """Yield the running jobs, the worst first, then the workers, then the rest."""
    stats = now.stats
    rows = job_rows(stats, now.mesh)
    jobs = workers = None
    if lines is not None:
        room = max(2 * LEAST, lines - AROUND)
        unwell = sum(row.grade is not Grade.HEALTHY for row in rows)
        jobs = min(unwell, room - min(LEAST, len(stats.workers)))
        workers = room - jobs
    yield from jobs_part(rows, jobs)
    if stats.workers:
        yield from workers_part(stats.workers, stats.versions, workers)
    else:
        yield _no_worker()
    if lines is None:
        yield from _registrations(stats.registrations)
    elif stats.registrations:
        yield Text(f"{counted(len(stats.registrations), 'registered dataset')}: --all", "dim")
    for it in stats.iterations:
        yield from _unbalanced(it)
    yield from _forgotten(now)
    yield Text("all of one job: --job NAME", "dim")


def jobs_table(now: Look) -> RenderableType:
    """Return a table with a line for each pass."""
    columns = (
        GridColumn("job"),
        GridColumn("pipeline", Give.WRAP),
        GridColumn("repetition", Give.LEAVE, "right"),
        GridColumn("mode", Give.LEAVE),
        GridColumn("state"),
        GridColumn("readers", Give.LEAVE, "right"),
        GridColumn("tasks", Give.LEAVE, "right"),
        GridColumn("acked", justify="right"),
    )
    rows = [_job_row(it, now) for it in now.stats.iterations]
    return Grid(columns, rows + [_forgotten_row(was) for was in now.stats.forgotten])


def _job_row(it: IterationStats, now: Look) -> list[str]:
    return [
        "anonymous" if it.private else it.job,
        it.outline,
        str(it.repetition),
        it.mode,
        state_of(it, now),
        str(it.live_readers),
        str(len(it.tasks)),
        f"{it.account.acked:,}",
    ]


def forgotten_state(was: ForgottenStats) -> str:
    """Return how a deleted pass ended."""
    return "failed, forgotten" if was.failed else "unfinished, forgotten"


def _forgotten_row(was: ForgottenStats) -> list[str]:
    about = [was.job, was.outline, str(was.repetition), was.mode, forgotten_state(was)]
    return [*about, "0", "0", f"{was.acked:,}"]


def _head(now: Look, running: int, finished: int) -> Text:
    stats = now.stats
    speaks = f"  {spoken(stats.versions)}" if stats.versions is not None else ""
    return Text.assemble(
        (now.target, "bold"),
        f"{speaks}  {counted(len(stats.workers), 'worker')}, "
        f"{counted(running, 'pass', 'passes')} running, {finished} finished",
        ("  insecure: whoever can connect may run code" if _is_open(stats) else "", "red"),
        (_opened(stats), "yellow"),
    )


def _is_open(stats: DispatcherStats) -> bool:
    return stats.security == Security.INSECURE.value


def _opened(stats: DispatcherStats) -> str:
    """Return the address and datasets that need no credentials, or an empty text."""
    opened = stats.tensorflow
    if opened is None or not opened.address:
        return ""
    return f"  without credentials, at {opened.address}: {', '.join(opened.datasets)}"


def _trouble(found: Trouble | None) -> Iterator[Text]:
    """Yield the worst problem, which is shown above everything else."""
    if found is not None:
        yield Text(found.sentence, "bold red")


def _no_worker() -> Text:
    return Text("no worker is registered", "yellow")


def _finished(passes: list[IterationStats], target: str) -> Iterator[Text]:
    if passes:
        yield Text("\nfinished", "bold")
    for it in passes[-FINISHED_SHOWN:]:
        pipeline = f" ({it.outline})" if it.private and it.outline else ""
        yield Text(
            f"{it.job}{pipeline}, repetition {it.repetition}: "
            f"{counted(it.account.acked, 'element')} acked by {counted(len(it.readers), 'reader')}"
        )
    if len(passes) > FINISHED_SHOWN:
        yield Text(f"{len(passes) - FINISHED_SHOWN} more: penstock jobs {target}")
    for it in passes:
        yield from _unbalanced(it)


def _unbalanced(it: IterationStats) -> Iterator[Text]:
    for fault in it.faults:
        name = f"{it.job}, repetition {it.repetition}"
        yield Text(f"{name}: the account does not balance: {fault}", "red")


def _registrations(known: tuple[RegistrationStats, ...]) -> Iterator[RenderableType]:
    if not known:
        return
    yield Text("\nregistered datasets", "bold")
    columns = (
        GridColumn("dataset_id"),
        GridColumn("fingerprint"),
        GridColumn("compression", Give.LEAVE),
        GridColumn("read by jobs", Give.WRAP),
    )
    rows = [
        (one.dataset_id, one.dataset, one.compression, ", ".join(one.jobs))
        for one in known[-REGISTERED_SHOWN:]
    ]
    yield Grid(columns, rows)
    if len(known) > REGISTERED_SHOWN:
        yield Text(f"{len(known) - REGISTERED_SHOWN} more: penstock status --json")


def _forgotten(now: Look) -> Iterator[Text]:
    if now.stats.forgotten:
        passes = counted(len(now.stats.forgotten), "pass was", "passes were")
        yield Text(f"{passes} forgotten unfinished: penstock jobs {now.target}")
