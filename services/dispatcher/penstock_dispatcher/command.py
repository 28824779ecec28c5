"""The options of ``penstock-dispatcher``, and of ``penstock dispatcher``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from penstock.runtime.settings import with_defaults
from penstock_dispatcher.config import DURABILITIES, DispatcherConfig

Durability = Enum("Durability", {name.upper(): name for name in DURABILITIES})  # type: ignore[misc]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@with_defaults(DispatcherConfig)
def run(  # noqa: PLR0913, PLR0917  # an option for each setting
    port: Annotated[int | None, typer.Option(help="port to listen on; 0 is any free port")] = None,
    host: Annotated[str | None, typer.Option(help="interface to listen on")] = None,
    work_dir: Annotated[
        str | None, typer.Option(help="folder for the journal, from which a restart continues")
    ] = None,
    durability: Annotated[
        Durability | None,
        typer.Option(help="decisions survive a crash of the process, or a power failure"),
    ] = None,
    worker_address: Annotated[
        list[str] | None,
        typer.Option(help="a worker that may register, as host:port, host or host:*; repeatable"),
    ] = None,
    worker_timeout: Annotated[
        float | None, typer.Option(help="seconds of silence after which a worker is lost")
    ] = None,
    client_timeout: Annotated[
        float | None, typer.Option(help="seconds of silence after which a reader is lost")
    ] = None,
    job_gc_timeout: Annotated[
        float | None, typer.Option(help="seconds to keep a pass without readers")
    ] = None,
    job_gc_check_interval: Annotated[
        float | None,
        typer.Option(help="seconds between searches for passes and datasets to delete"),
    ] = None,
    dataset_gc_timeout: Annotated[
        float | None, typer.Option(help="seconds to keep a dataset that nobody uses")
    ] = None,
    linger: Annotated[
        float | None,
        typer.Option(help="seconds to keep answering after the order to stop"),
    ] = None,
    gc_dynamic_sharding_jobs: Annotated[
        bool | None,
        typer.Option(
            "--gc-dynamic-sharding-jobs",
            help="also delete named DYNAMIC jobs; returning readers get an error",
        ),
    ] = None,
    reassign_static_tasks: Annotated[
        bool | None,
        typer.Option(
            "--reassign-static-tasks",
            help="give the part of an absent listed worker to another worker",
        ),
    ] = None,
    credentials: Annotated[
        str | None, typer.Option(help="folder of credentials, made by `penstock keys init`")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="accept every client that can connect, without TLS"),
    ] = None,
    tensorflow_port: Annotated[
        int | None,
        typer.Option(help="extra port for TensorFlow's own clients, without credentials"),
    ] = None,
    tensorflow_host: Annotated[
        str | None, typer.Option(help="interface of the TensorFlow port; by default that of --host")
    ] = None,
    tensorflow_dataset: Annotated[
        list[str] | None,
        typer.Option(help="a dataset id that TensorFlow's clients may read; repeatable"),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(help="port for HTTP, such as /metrics; 0 is any free port"),
    ] = None,
    http_host: Annotated[str | None, typer.Option(help="interface for HTTP")] = None,
    health_file: Annotated[
        str | None, typer.Option(help="a file to touch every second while the service works")
    ] = None,
    heartbeat_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats of a worker")
    ] = None,
    refresh_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats of a reader")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="a limit, such as max_connections=100; repeatable"),
    ] = None,
) -> None:
    """Run a dispatcher until SIGTERM or Ctrl-C.

    Each option can also be a variable, such as PENSTOCK_PORT.
    """
    given = dict(locals())
    # The command `penstock` has these options in its help: that loads no service.
    from penstock_dispatcher import process  # noqa: PLC0415

    if durability is not None:
        given["durability"] = durability.value
    workers, named = given.pop("worker_address"), given.pop("tensorflow_dataset")
    process.run(
        **given,
        worker_addresses=tuple(workers) if workers else None,
        tensorflow_datasets=tuple(named) if named else None,
    )
