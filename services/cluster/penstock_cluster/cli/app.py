"""The commands of ``penstock``, and their options."""

from __future__ import annotations

import importlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from penstock.credentials.caller import OPERATOR, caller_of
from penstock.errors import ConfigError
from penstock.protocol.types import WorkerId
from penstock.reader.arguments import service_of
from penstock.runtime.settings import misspelt
from penstock.runtime.signals import ExitCode
from penstock.runtime.versions import versions
from penstock_cluster.cli.client import (
    DISPATCHER,
    PATIENCE,
    TARGET,
    Target,
    ask,
    errors,
    explained,
    screen,
    split_places,
)
from penstock_cluster.cli.errors_page import show_error
from penstock_cluster.cli.explain import explanations_json, show_explanations
from penstock_cluster.cli.full_screen import show_until_quit
from penstock_cluster.cli.keys import app as keys_app
from penstock_cluster.cli.launch.run import run as launch
from penstock_cluster.cli.mesh_screen import mesh_screen
from penstock_cluster.cli.save import save
from penstock_cluster.cli.saves import app as saves_app
from penstock_cluster.cli.status import jobs_json, show_jobs, show_status, status_json
from penstock_cluster.cli.top import Order, Subject, drawn, top_once
from penstock_cluster.cli.trace import trace as run_trace
from penstock_cluster.cli.up import up as run_cluster
from penstock_cluster.cli.weights import set_weights, show_weights, turns_of, weights_of
from penstock_cluster.demo.__main__ import main as run_demo
from penstock_health.probe import probe

SERVICES = ("dispatcher", "worker")
"""Commands that run a service. They log misspelt variables themselves."""


class Commands(TyperGroup):
    """The commands of ``penstock``. A command of a service is loaded only if it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*SERVICES, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name; None if there is none."""
        if cmd_name not in SERVICES:
            return super().get_command(ctx, cmd_name)
        found = get_command(importlib.import_module(f"penstock_{cmd_name}.command").app)
        found.name = cmd_name
        return found


app = typer.Typer(
    cls=Commands,
    name="penstock",
    help="Input data for training, prepared by a cluster of workers.",
    epilog="Exit codes: 0 success; 1 failure; 2 wrong usage; 3 no answer from the address.",
    no_args_is_help=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        mine = versions()
        screen.print(f"penstock {mine.penstock}, protocol {mine.protocol}, Python {mine.python}")
        raise typer.Exit


app.command("demo")(explained(run_demo))
app.command()(explained(save))
app.add_typer(saves_app)
app.add_typer(keys_app)


SUBJECTS = [subject.value for subject in Subject]

JobChoice = Annotated[
    str, typer.Option("--job", help="only the job of this name, or jobs whose names contain it")
]
"""The option of commands that show jobs."""

Everything = Annotated[bool, typer.Option("--all", help="show all jobs, workers and tasks")]


@app.callback()
def penstock(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version, help="print the version and exit"
        ),
    ] = False,
) -> None:
    """Input data for training, prepared by a cluster of workers."""
    del version
    if ctx.invoked_subcommand not in SERVICES:
        for sentence in misspelt():
            errors.print(f"warning: {sentence}", markup=False, soft_wrap=True)


@app.command()
@explained
def up(
    workers: Annotated[int, typer.Option(min=0, help="number of worker processes")] = 2,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="port of the dispatcher; by default PENSTOCK_PORT, or else 0: any free port",
        ),
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            envvar="PENSTOCK_WORK_DIR",
            help="folder of the dispatcher's journal; by default a temporary one",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1, help="tasks that each worker runs at once; by default its share of the cores"
        ),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="let only these workers register, for static sharding")
    ] = False,
    http_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            envvar="PENSTOCK_HTTP_PORT",
            help="port of the status page and the metrics; by default none",
        ),
    ] = None,
) -> None:
    """Run a dispatcher and workers on this machine, in the foreground. Ctrl-C stops them."""
    folder = str(work_dir) if work_dir is not None else None
    run_cluster(workers, port, folder, slots, fixed=fixed, http_port=http_port)


@app.command(context_settings={"allow_interspersed_args": False})
@explained
def run(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="a script and its arguments, or -m and a module", metavar="COMMAND"),
    ] = None,
    data_workers: Annotated[
        str, typer.Option(help="workers to start on this host: a number, or auto")
    ] = "auto",
    work_dir: Annotated[
        Path | None,
        typer.Option(help="folder of the dispatcher's journal; by default a temporary one"),
    ] = None,
    module: Annotated[
        str | None, typer.Option("-m", help="run a module instead of a script", metavar="MODULE")
    ] = None,
) -> None:
    """Run a training script, with a dispatcher and workers that end with it.

    Use the same command on every host of a launcher such as Slurm or torchrun. The chief starts the
    dispatcher; each training host starts workers next to the script.
    """
    program = [*(["-m", module] if module else []), *(command or [])]
    folder = str(work_dir) if work_dir is not None else None
    raise typer.Exit(launch(program, _count_of(data_workers), folder))


def _count_of(data_workers: str) -> int | None:
    if data_workers == "auto":
        return None
    if not data_workers.isdecimal():
        raise ConfigError(f"--data-workers must be 'auto' or a number, not {data_workers!r}")
    return int(data_workers)


@app.command()
@explained
def status(
    target: Target,
    watch: Annotated[
        bool, typer.Option("--watch", help="full screen, updated every second; q quits")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print all counters as JSON")] = False,
    job: JobChoice = "",
    everything: Everything = False,
) -> None:
    """Show the jobs and workers of a cluster, those with problems first."""
    if as_json:
        print(status_json(target, job))  # noqa: T201  as it is, not as rich would fold it
    elif watch:
        with suppress(KeyboardInterrupt):
            show_until_quit(target, partial(mesh_screen, job=job))
    else:
        show_status(target, job, everything=everything)


@app.command()
@explained
def top(
    ctx: typer.Context,
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TARGET] [SUBJECTS]...",
            help=f"{DISPATCHER}; then any of {', '.join(SUBJECTS)}: all by default",
            autocompletion=lambda: SUBJECTS,
        ),
    ] = None,
    sort: Annotated[
        Order, typer.Option(help="order: busiest, most or fewest elements/s, or by name")
    ] = Order.TIME,
    once: Annotated[
        bool, typer.Option("--once", help="measure for two seconds, print the lists and exit")
    ] = False,
    job: JobChoice = "",
) -> None:
    """List the busiest operators, tasks and workers, updated every second. q quits."""
    target, named = split_places(ctx, places, within=SUBJECTS)
    wanted = list(dict.fromkeys(Subject(one) for one in named)) or list(Subject)
    if once:
        top_once(target, wanted, sort, job)
        return
    with suppress(KeyboardInterrupt):
        show_until_quit(target, drawn(wanted, sort, job))


@app.command()
@explained
def explain(
    target: Target,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    job: JobChoice = "",
    everything: Everything = False,
) -> None:
    """Say what training waits for, and what would help."""
    if as_json:
        print(explanations_json(target, job))  # noqa: T201  as it is, not as rich would fold it
    else:
        show_explanations(target, job, everything=everything)


@app.command()
@explained
def trace(
    target: Target,
    seconds: Annotated[float, typer.Option(min=0.1, max=600, help="how long to record")] = 5.0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="the file to write", dir_okay=False)
    ] = Path("trace.json"),
) -> None:
    """Record when each frame is made, sent and read, as a file for ui.perfetto.dev."""
    run_trace(target, seconds, output)


@app.command()
@explained
def jobs(
    target: Target,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """List all passes that the dispatcher knows, one a line."""
    if as_json:
        print(jobs_json(target))  # noqa: T201  as it is, not as rich would fold it
    else:
        show_jobs(target)


@app.command()
@explained
def weights(
    ctx: typer.Context,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[TARGET] JOB [SOURCE=WEIGHT]...",
            help=f"{DISPATCHER}; then the name of the job; then a weight for each source",
        ),
    ],
    at: Annotated[
        int | None,
        typer.Option(min=0, help="turn from which they hold; by default the first possible one"),
    ] = None,
    turns: Annotated[
        str | None,
        typer.Option(metavar="FIRST:END", help="show the shares in these turns only"),
    ] = None,
) -> None:
    """Show the shares of a job's mixture, or change them while the job runs."""
    pairs = [word for word in places if "=" in word]
    *before, job = [word for word in places if "=" not in word] or [""]
    if not job:
        ctx.fail("give JOB, the name of a job")
    if at is not None and not pairs:
        ctx.fail("--at is for new weights: give SOURCE=WEIGHT for each source")
    if turns is not None and pairs:
        ctx.fail("--turns shows shares: leave out SOURCE=WEIGHT, or --turns")
    target, _ = split_places(ctx, before)
    if pairs:
        set_weights(target, job, weights_of(pairs), at)
    else:
        show_weights(target, job, None if turns is None else turns_of(turns))


@app.command()
@explained
def drain(
    ctx: typer.Context,
    places: Annotated[
        list[str],
        typer.Argument(
            metavar="[TARGET] WORKER", help=f"{DISPATCHER}; then the worker's host:port"
        ),
    ],
) -> None:
    """Stop a worker cleanly: it hands its tasks to other workers, then ends."""
    *before, worker = places
    target, _ = split_places(ctx, before)
    ask(target, lambda dispatcher: dispatcher.drain(WorkerId(worker)))
    screen.print(f"worker {worker} drains")


@app.command()
@explained
def health(
    address: Annotated[
        str,
        typer.Argument(envvar=TARGET, help="host:port of a dispatcher or worker"),
    ],
    timeout: Annotated[
        float, typer.Option(min=0.1, help="seconds to wait for an answer")
    ] = PATIENCE,
) -> None:
    """Check that a dispatcher or worker serves; exit with 1 if not."""
    place = service_of(address)
    answer = probe(place, timeout, caller_of(place, role=OPERATOR).tls)
    screen.print(answer.text, soft_wrap=True)
    raise typer.Exit(ExitCode.DONE if answer.serves else ExitCode.FAILED)


@app.command("errors")
@explained
def explain_error(
    name: Annotated[
        str | None, typer.Argument(help="name of an error, such as WaitedTooLong")
    ] = None,
) -> None:
    """Explain an error and what to do. Without a name, list all errors."""
    show_error(name)


def main() -> None:
    """Be the command ``penstock``."""
    app()


if __name__ == "__main__":
    main()
