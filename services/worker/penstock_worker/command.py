"""The options of ``penstock-worker``, and of ``penstock worker``."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.runtime.settings import with_defaults
from penstock_worker.config import WorkerConfig

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
@with_defaults(WorkerConfig)
def run(  # noqa: PLR0913, PLR0917  # an option for each setting
    dispatcher_address: Annotated[
        str | None, typer.Option(help="host:port of the dispatcher")
    ] = None,
    worker_address: Annotated[
        str | None, typer.Option(help="address that readers connect to; %port% is the bound port")
    ] = None,
    host: Annotated[str | None, typer.Option(help="interface to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on; 0 is any free one")] = None,
    socket_dir: Annotated[
        str | None,
        typer.Option(help="folder of the socket by which readers on this host share its memory"),
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
    http_port: Annotated[
        int | None,
        typer.Option(help="port of HTTP, to look at it: /metrics, /healthz; 0 is any free one"),
    ] = None,
    http_host: Annotated[str | None, typer.Option(help="interface of HTTP")] = None,
    health_file: Annotated[
        str | None, typer.Option(help="a file that is touched each second while this works")
    ] = None,
    heartbeat_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats")
    ] = None,
    dispatcher_timeout: Annotated[
        float | None, typer.Option(help="seconds that the dispatcher may be absent at the start")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(help="tasks of a DYNAMIC job that run at once; by default one for each core"),
    ] = None,
    buffer_bytes: Annotated[
        int | None, typer.Option(help="bytes of a job that may be produced before they are acked")
    ] = None,
    total_buffer_bytes: Annotated[
        int | None,
        typer.Option(help="the same of all jobs together; by default a quarter of the memory"),
    ] = None,
    max_element_bytes: Annotated[
        int | None, typer.Option(help="bytes of the largest element that is delivered")
    ] = None,
    cross_trainer_cache_size_bytes: Annotated[
        int | None, typer.Option(help="bytes that a job with a cross-trainer cache may keep")
    ] = None,
    runner_memory_bytes: Annotated[
        int | None, typer.Option(help="bytes of memory that a runner may have for itself")
    ] = None,
    runner_niceness: Annotated[
        int | None, typer.Option(help="how much nicer runners are than the worker, 0 to 19")
    ] = None,
    runner_user: Annotated[
        str | None, typer.Option(help="user that runners become; the worker is root then")
    ] = None,
    runner_read_only: Annotated[
        bool | None,
        typer.Option("--runner-read-only", help="let runners change no files, by Landlock"),
    ] = None,
    runner_writable: Annotated[
        list[str] | None,
        typer.Option(help="a path below which runners may change files even so; repeatable"),
    ] = None,
    drain: Annotated[
        float | None, typer.Option(help="seconds that handing over the tasks may take at the stop")
    ] = None,
    worker_tag: Annotated[
        list[str] | None, typer.Option(help="a word shown in the worker's status; repeatable")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="a limit, as max_connections=100; repeatable; see the page Limits"),
    ] = None,
) -> None:
    """Run a worker until it is told to stop (SIGTERM or Ctrl-C): then its tasks go on elsewhere.

    Told again, it stops at once.

    What is not given is read from PENSTOCK_* variables: PENSTOCK_DISPATCHER_ADDRESS and so on.
    """
    given = dict(locals())
    # The command `penstock` has these options in its help: that loads no service.
    from penstock_worker import process  # noqa: PLC0415

    tags, writable = given.pop("worker_tag"), given.pop("runner_writable")
    process.run(
        **given,
        worker_tags=tuple(tags) if tags else None,
        runner_writable=tuple(writable) if writable else None,
    )
