"""The table of a cluster's workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

from rich.console import RenderableType
from rich.text import Text

from penstock.protocol.types import Versions
from penstock_cluster.cli.grid import Give, Grid, GridColumn
from penstock_cluster.cli.words import counted, more_of, spoken
from penstock_dispatcher.core.stats import WorkerSummary
from penstock_dispatcher.page.standing import WorkerStanding, standing_of_worker
from penstock_dispatcher.page.worker_load import WorkerLoad, load_of


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
        GridColumn("worker"),
        GridColumn("state", Give.WRAP),
        GridColumn("version", Give.WRAP),
        GridColumn("tags", Give.WRAP),
        GridColumn("busy cores", Give.LEAVE, "right"),
        GridColumn("running", Give.LEAVE, "right"),
        GridColumn("assigned", Give.LEAVE, "right"),
        GridColumn("produced", Give.LEAVE, "right"),
        GridColumn("buffered, MB", Give.LEAVE, "right"),
        GridColumn("sent, MB", Give.LEAVE, "right"),
        GridColumn("lent", Give.LEAVE, "right"),
        GridColumn("copied out", Give.LEAVE, "right"),
    ]
    unlike = {worker.versions for worker in workers} - {None, mine}
    lends = any(any(_lent(worker)) for worker in workers)
    empty = {
        *(() if unlike else ("version",)),
        *(() if any(worker.tags for worker in workers) else ("tags",)),
        *(() if lends else ("lent", "copied out")),
    }
    rows = [_row(worker) for worker in workers]
    shown = [i for i, column in enumerate(columns) if column.name not in empty]
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
