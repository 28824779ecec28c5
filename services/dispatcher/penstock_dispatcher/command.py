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
    port: Annotated[int | None, typer.Option(help="port to listen on; 0 is any free one")] = None,
    host: Annotated[str | None, typer.Option(help="interface to listen on")] = None,
    work_dir: Annotated[
        str | None, typer.Option(help="folder of this dispatcher's own, to go on from at a restart")
    ] = None,
    durability: Annotated[
        Durability | None,
        typer.Option(help="what is told outlasts the death of the process, or a power failure"),
    ] = None,
    worker_address: Annotated[
        list[str] | None,
        typer.Option(help="a worker that may register: host:port, host or host:*; repeatable"),
    ] = None,
    worker_timeout: Annotated[
        float | None, typer.Option(help="seconds that a worker may be silent")
    ] = None,
    client_timeout: Annotated[
        float | None, typer.Option(help="seconds that a reader may be silent")
    ] = None,
    job_gc_timeout: Annotated[
        float | None, typer.Option(help="seconds that an iteration without readers is kept")
    ] = None,
    job_gc_check_interval: Annotated[
        float | None, typer.Option(help="seconds between looks for what may be forgotten")
    ] = None,
    dataset_gc_timeout: Annotated[
        float | None, typer.Option(help="seconds that a pipeline is kept that nothing uses")
    ] = None,
    linger: Annotated[
        float | None,
        typer.Option(
            help="seconds to answer on, and to say that it ends, after it is told to stop"
        ),
    ] = None,
    gc_dynamic_sharding_jobs: Annotated[
        bool | None,
        typer.Option(
            "--gc-dynamic-sharding-jobs",
            help="forget named DYNAMIC jobs, too: readers that come back get an error",
        ),
    ] = None,
    reassign_static_tasks: Annotated[
        bool | None,
        typer.Option(
            "--reassign-static-tasks",
            help="give the part of a listed worker that is not there to another one",
        ),
    ] = None,
    credentials: Annotated[
        str | None, typer.Option(help="folder of its credentials, which `penstock keys init` makes")
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option("--insecure", help="let in everybody who can connect, without TLS"),
    ] = None,
    tensorflow_port: Annotated[
        int | None,
        typer.Option(help="another port, for TensorFlow's clients, which have no credentials"),
    ] = None,
    tensorflow_host: Annotated[
        str | None, typer.Option(help="interface of that port; by default the other one's")
    ] = None,
    tensorflow_dataset: Annotated[
        list[str] | None,
        typer.Option(help="an id that may be read without credentials there; repeatable"),
    ] = None,
    http_port: Annotated[
        int | None,
        typer.Option(help="port of HTTP, to look at it: /metrics, /healthz; 0 is any free one"),
    ] = None,
    http_host: Annotated[str | None, typer.Option(help="interface of HTTP")] = None,
    health_file: Annotated[
        str | None, typer.Option(help="a file that is touched each second while this works")
    ] = None,
    heartbeat_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats of a worker")
    ] = None,
    refresh_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats of a reader")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="a limit, as max_connections=100; repeatable; see the page Limits"),
    ] = None,
) -> None:
    """Run a dispatcher until it is told to stop (SIGTERM or Ctrl-C).

    What is not given is read from PENSTOCK_* variables: PENSTOCK_PORT and so on.
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
