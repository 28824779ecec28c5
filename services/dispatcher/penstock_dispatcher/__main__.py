"""The dispatcher's process: ``python -m penstock_dispatcher --port 5050``."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from penstock.errors import PenstockError
from penstock.runtime.signals import READY_FD, announce, run_service
from penstock_dispatcher.config import DispatcherConfig
from penstock_dispatcher.server import FORGETFUL, serve
from penstock_dispatcher.service import DispatcherService

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def run(
    port: Annotated[int | None, typer.Option(help="port to listen on; 0 is any free one")] = None,
    host: Annotated[str | None, typer.Option(help="interface to listen on")] = None,
    work_dir: Annotated[
        str | None, typer.Option(help="folder of this dispatcher's own, to go on from at a restart")
    ] = None,
    durability: Annotated[
        str | None,
        typer.Option(help="what is told outlasts the death of the 'process', or 'power' failures"),
    ] = None,
    worker_address: Annotated[
        list[str] | None,
        typer.Option(help="a worker that may register, host or host:port; repeatable"),
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
    gc_dynamic_sharding_jobs: Annotated[
        bool | None,
        typer.Option(
            "--gc-dynamic-sharding-jobs",
            help="forget named DYNAMIC jobs, too: readers that come back get an error",
        ),
    ] = None,
    heartbeat_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats of a worker")
    ] = None,
    refresh_interval: Annotated[
        float | None, typer.Option(help="seconds between heartbeats of a reader")
    ] = None,
) -> None:
    """Run a dispatcher until it is told to stop (SIGTERM or Ctrl-C).

    What is not given is read from PENSTOCK_* variables: PENSTOCK_PORT and so on.
    """
    given = dict(locals())
    workers = given.pop("worker_address")
    try:
        config = DispatcherConfig.from_env(
            **given, worker_addresses=tuple(workers) if workers else None
        )
        run_service(serve(config, _say))
    except PenstockError as exc:
        print(f"penstock_dispatcher: {exc}", file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None


def _say(dispatcher: DispatcherService) -> None:
    """Whoever started this process reads the address alone, a person reads a sentence."""
    if READY_FD in os.environ:
        announce(dispatcher.address)
        return
    announce(f"listening on grpc://{dispatcher.address}")
    if not dispatcher.remembers:
        announce(FORGETFUL)


def main() -> None:
    """Be the command ``penstock-dispatcher``."""
    app()


if __name__ == "__main__":
    main()
