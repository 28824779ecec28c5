"""Show a cluster on a screen: running passes first, then a line for each finished pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from rich.console import Group, RenderableType
from rich.text import Text

from penstock.credentials.entrance import Security
from penstock.explanation.trouble import Trouble, counted
from penstock.protocol.types import Versions
from penstock_cluster.cli.grid import Grid, more_of, spoken
from penstock_cluster.cli.job_rows import job_rows, jobs_part
from penstock_cluster.cli.look import Look, state_of
from penstock_cluster.cli.pass_details import pass_details
from penstock_cluster.cli.save_rows import saves_table
from penstock_dispatcher.core.stats import (
    DispatcherStats,
    IterationStats,
    RegistrationStats,
    WorkerSummary,
)
from penstock_dispatcher.page.job_view import Grade
from penstock_dispatcher.page.standing import (
    WorkerLoad,
    WorkerStanding,
    load_of,
    standing_of_worker,
)

FINISHED_SHOWN = 5
"""The number of finished passes that have a line of their own; the newest are shown."""


REGISTERED_SHOWN = 20
"""The number of registered datasets that have a line; the newest are shown."""

JOB_CELLS = "pipeline", "repetition", "mode", "state", "readers", "tasks", "acked"

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
        *_saves(stats),
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
    yield from _saves(stats)
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
        "job",
        "pipeline~",
        "repetition->",
        "mode-",
        "state",
        "readers->",
        "tasks->",
        "acked>",
    )
    rows = [
        ["anonymous" if one["anonymous"] else one["job"], *(_cell(one[name]) for name in JOB_CELLS)]
        for one in jobs(now)
    ]
    return Grid(columns, rows)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def jobs(now: Look) -> list[dict[str, Any]]:
    """Return the facts of each pass that the dispatcher knows, as ``penstock jobs`` tells them."""
    return [
        {
            "job": it.job,
            "anonymous": it.private,
            "pipeline": it.outline,
            "repetition": it.repetition,
            "mode": it.mode,
            "state": state_of(it, now),
            "finished": it.finished,
            "readers": it.live_readers,
            "tasks": len(it.tasks),
            "acked": it.account.acked,
        }
        for it in now.stats.iterations
    ] + [
        {
            "job": was.job,
            "anonymous": False,
            "pipeline": was.outline,
            "repetition": was.repetition,
            "mode": was.mode,
            "state": "failed, forgotten" if was.failed else "unfinished, forgotten",
            "finished": False,
            "readers": 0,
            "tasks": 0,
            "acked": was.acked,
        }
        for was in now.stats.forgotten
    ]


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


def _saves(stats: DispatcherStats) -> Iterator[RenderableType]:
    if saves := [one for one in stats.saves if one.stage == "open"]:
        yield Text("\nsaves", "bold")
        yield saves_table(saves)


def _registrations(known: tuple[RegistrationStats, ...]) -> Iterator[RenderableType]:
    if not known:
        return
    yield Text("\nregistered datasets", "bold")
    columns = ("dataset_id", "fingerprint", "compression-", "read by jobs~")
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


def workers_part(
    workers: Sequence[WorkerSummary], mine: Versions | None, most: int | None
) -> Iterator[RenderableType]:
    """Yield the table of *workers*; the worst *most* of them, if there are more, and a count."""
    order = {standing: i for i, standing in enumerate(WorkerStanding)}
    shown = workers
    if most is not None and len(workers) > most:
        shown = sorted(workers, key=lambda one: order[standing_of_worker(one)])[:most]
    yield workers_table(shown, mine)
    yield from more_of(len(workers) - len(shown), "worker")


def workers_table(
    workers: Sequence[WorkerSummary],
    mine: Versions | None,
) -> Grid:
    """Return a table with a line for each of *workers*; *mine* is what the dispatcher runs.

    Columns that would be empty are left out.
    """
    columns = [
        "worker",
        "state~",
        "version~",
        "tags~",
        "busy cores->",
        "running->",
        "assigned->",
        "produced->",
        "buffered, MB->",
        "sent, MB->",
        "lent->",
        "copied out->",
        "remote files, MB->",
        "retries->",
        "file cache, MB->",
        "file cache hits->",
    ]
    unlike = {worker.versions for worker in workers} - {None, mine}
    lends = any(any(_lent(worker)) for worker in workers)
    empty = {
        *(() if unlike else ("version",)),
        *(() if any(worker.tags for worker in workers) else ("tags",)),
        *(() if lends else ("lent", "copied out")),
        *(() if any(map(_remote_files, workers)) else ("remote files, MB", "retries")),
        *(() if any(map(_file_cache, workers)) else ("file cache, MB", "file cache hits")),
    }
    rows = [_row(worker) for worker in workers]
    shown = [i for i, column in enumerate(columns) if column.rstrip("~->") not in empty]
    return Grid([columns[i] for i in shown], [[row[i] for i in shown] for row in rows])


def _row(worker: WorkerSummary) -> list[str | Text]:
    stats: dict[str, Any] = worker.stats or {}
    buffered = sum(buffer["nbytes"] for buffer in stats.get("buffers", ()))
    lent, copied_out = _lent(worker)
    load = load_of([worker])
    return [
        worker.address,
        _standing(worker),
        spoken(worker.versions),
        " ".join(worker.tags),
        busy_cores(load),
        running_tasks(load),
        f"{load.assigned:,}",
        f"{stats.get('elements_made', 0):,}",
        f"{buffered / 1e6:,.1f}",
        f"{stats.get('bytes_sent', 0) / 1e6:,.1f}",
        *([f"{lent:,}", f"{copied_out:,}"] if lent or copied_out else ["", ""]),
        *(_remote_files(worker) or ("", "")),
        *(_file_cache(worker) or ("", "")),
    ]


def busy_cores(load: WorkerLoad) -> str:
    """Return how many of how many cores are busy, as far as that is known.

    >>> busy_cores(WorkerLoad(1.26, 2, 3, 4)), busy_cores(WorkerLoad(None, None, 0, 4))
    ('1.3 of 2', '-')
    """
    if load.cores is None:
        return "-"
    busy = "-" if load.busy is None else f"{load.busy:,.{1 if load.busy < 100 else 0}f}"
    return f"{busy} of {load.cores:,}"


def running_tasks(load: WorkerLoad) -> str:
    """Return how many tasks run, if that is known."""
    return "-" if load.running is None else f"{load.running:,}"


def _lent(worker: WorkerSummary) -> tuple[int, int]:
    """Return how many frames were lent to readers on the worker's host, and how many copied out."""
    stats: dict[str, Any] = worker.stats or {}
    return stats.get("lent", 0), stats.get("copied_out", 0)


def _remote_files(worker: WorkerSummary) -> tuple[str, str] | None:
    """Return how many bytes of remote files the worker's runners read, and how many retries."""
    stats: dict[str, Any] = worker.stats or {}
    read = stats.get("storage") or {}
    if not read.get("requests"):
        return None
    return f"{read['nbytes'] / 1e6:,.1f}", f"{read['retries']:,}"


def _file_cache(worker: WorkerSummary) -> tuple[str, str] | None:
    """Return the size and the hit rate of the cache of remote files on the worker's host."""
    stats: dict[str, Any] = worker.stats or {}
    if not stats.get("file_cache"):
        return None
    hits, misses = stats["storage"]["cache_hits"], stats["storage"]["cache_misses"]
    rate = f"{100 * hits / (hits + misses):.0f} %" if hits + misses else "-"
    return f"{stats['file_cache']['held'] / 1e6:,.1f}", rate


def _standing(worker: WorkerSummary) -> str | Text:
    match standing_of_worker(worker):
        case WorkerStanding.DISCONNECTED:
            return Text(f"disconnected, silent for {worker.silent:.1f} s", "yellow")
        case WorkerStanding.UNREACHABLE:
            return Text(f"unreachable for {counted(worker.unreachable, 'reader')}", "yellow")
        case WorkerStanding.SILENT:
            return Text(f"silent for {worker.silent:.1f} s", "yellow")
        case WorkerStanding.DRAINS | WorkerStanding.LIVE as fine:
            return str(fine.value)
        case other:
            assert_never(other)
