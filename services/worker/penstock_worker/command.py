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
    port: Annotated[int | None, typer.Option(help="port to listen on; 0 is any free port")] = None,
    socket_dir: Annotated[
        str | None,
        typer.Option(help="folder of the socket for shared memory with readers on this host"),
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
    http_port: Annotated[
        int | None,
        typer.Option(help="port for HTTP, such as /metrics; 0 is any free port"),
    ] = None,
    http_host: Annotated[str | None, typer.Option(help="interface for HTTP")] = None,
    health_file: Annotated[
        str | None, typer.Option(help="a file to touch every second while the service works")
    ] = None,
    heartbeat_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats")
    ] = None,
    dispatcher_timeout: Annotated[
        float | None, typer.Option(help="seconds to wait for the dispatcher at the start")
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(help="tasks of a DYNAMIC job to run at once; by default one for each core"),
    ] = None,
    buffer_bytes: Annotated[
        int | None, typer.Option(help="bytes that a job may produce ahead of its readers")
    ] = None,
    total_buffer_bytes: Annotated[
        int | None,
        typer.Option(help="the same for all jobs together; by default a quarter of the memory"),
    ] = None,
    max_element_bytes: Annotated[
        int | None, typer.Option(help="bytes of the largest element")
    ] = None,
    cross_trainer_cache_size_bytes: Annotated[
        int | None, typer.Option(help="bytes that a job with a cross-trainer cache may keep")
    ] = None,
    runner_memory_bytes: Annotated[
        int | None, typer.Option(help="bytes of memory for each runner")
    ] = None,
    runner_niceness: Annotated[
        int | None, typer.Option(help="niceness of runners above the worker's, 0 to 19")
    ] = None,
    runner_user: Annotated[
        str | None, typer.Option(help="user of the runners, if the worker runs as root")
    ] = None,
    runner_read_only: Annotated[
        bool | None,
        typer.Option("--runner-read-only", help="forbid runners to change files (Landlock)"),
    ] = None,
    runner_writable: Annotated[
        list[str] | None,
        typer.Option(help="a path below which runners may still change files; repeatable"),
    ] = None,
    drain: Annotated[
        float | None, typer.Option(help="seconds to hand tasks over before the worker stops")
    ] = None,
    worker_tag: Annotated[
        list[str] | None, typer.Option(help="a tag, such as COLOCATED; repeatable")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="a limit, such as max_connections=100; repeatable"),
    ] = None,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C; it then hands its tasks to other workers.

    A second signal stops it at once.

    Each option can also be a variable, such as PENSTOCK_DISPATCHER_ADDRESS.
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
