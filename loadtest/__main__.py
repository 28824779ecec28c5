"""``python -m loadtest --target host:port --readers 8 --seconds 30``: put load on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from loadtest.plan import Phase, Preset, plan
from loadtest.reading import Input
from loadtest.report import Result, plot, tables
from loadtest.run import Run

SPARKS = " ▁▂▃▄▅▆▇█"
WIDTH = 40


def main(
    target: Annotated[
        str,
        typer.Option(
            envvar="PENSTOCK_TARGET", help="the dispatcher, as host:port or grpc://host:port"
        ),
    ],
    readers: Annotated[int | None, typer.Option(min=1, help="simulated readers")] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="length of the whole test")] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            min=0, help="elements a second for each reader; 0 (the default) is as many as possible"
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=0, help="number of jobs that readers share (1); 0 gives each reader its own"
        ),
    ] = None,
    preset: Annotated[
        Preset | None,
        typer.Option(
            help="smoke, soak (200 readers of 50 jobs), spike, or churn (workers leave and join)"
        ),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="parallel_epochs, distributed_epoch, or a policy such as data")
    ] = "distributed_epoch",
    element_bytes: Annotated[int, typer.Option(min=4, help="bytes of an element")] = 64 * 1024,
    work_ms: Annotated[float, typer.Option(min=0, help="CPU time to make an element")] = 0.1,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="seconds to wait for the dispatcher or a worker")
    ] = 60.0,
    json: Annotated[Path | None, typer.Option(help="write all figures to this file")] = None,
    plot_to: Annotated[
        Path | None,
        typer.Option("--plot", help="draw the figures over time to this file (matplotlib)"),
    ] = None,
) -> None:
    """Read from a running cluster, and say what the readers waited and what it cost.

    Exits with 1 when a reader failed, or nothing came at all.
    """
    console = Console()
    load = plan(preset, readers, seconds, rate, jobs)
    job = f"loadtest-{load.most_readers}" if load.jobs else None
    what = Input(target, mode, job, element_bytes, work_ms / 1000, timeout)
    with Live(console=console, refresh_per_second=4) as live:
        result = Run(what, load, lambda *seen: live.update(_picture(*seen))).go()
    for table in tables(result):
        console.print(table)
    if json is not None:
        json.write_bytes(result.as_json())
    if plot_to is not None:
        plot(result, plot_to)
    for error in result.errors:
        console.print(f"[red]{error}")
    if result.errors or not any(phase.elements for phase in result.phases):
        raise typer.Exit(1)


def _picture(result: Result, phase: Phase, news: str) -> Table:
    last = result.moments[-1]
    course = [moment.elements for moment in result.moments[-WIDTH:]]
    most = max(course) or 1
    sparks = "".join(SPARKS[round((len(SPARKS) - 1) * count / most)] for count in course)
    table = Table.grid(padding=(0, 2))
    table.add_row("phase", f"{phase.name}, {last.readers} readers, {last.at:.0f} s")
    table.add_row("elements/s", f"{2 * last.elements:,}  {sparks}")
    table.add_row("wait", f"p50 {1000 * last.p50:.2f} ms, p99 {1000 * last.p99:.2f} ms")
    for name, cost in last.costs.items():
        table.add_row(name, f"{cost.memory / 1e6:,.0f} MB")
    if news:
        table.add_row("news", news)
    return table


if __name__ == "__main__":
    typer.run(main)
