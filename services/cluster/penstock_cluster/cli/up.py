"""``penstock up``: a cluster in the foreground."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace

from penstock.runtime.cores import cores
from penstock_cluster.cli.client import screen
from penstock_cluster.launch.supervision import look_after
from penstock_cluster.local import LocalCluster
from penstock_dispatcher.config import DispatcherConfig
from penstock_worker.config import WorkerConfig

LOOPBACK = WorkerConfig().host
"""Where its workers are."""


def up(
    workers: int,
    port: int,
    work_dir: str | None,
    slots: int | None,
    *,
    fixed: bool,
    http_port: int | None = None,
) -> None:
    """Run a dispatcher and *workers* workers until Ctrl-C or SIGTERM; all of them end with it.

    Each worker has so many *slots*; by default they divide the cores among them. *fixed* gives the
    dispatcher a list of as many entries, so that no others may register.
    With *http_port* the dispatcher also serves its page and metrics.
    """
    over = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: over.set())
    entries = (LOOPBACK,) * workers if fixed else ()
    config = replace(DispatcherConfig(), port=port, worker_addresses=entries, http_port=http_port)
    each = max(1, cores() // max(1, workers)) if slots is None else slots
    settings = WorkerConfig(slots=each)
    with LocalCluster(workers, work_dir=work_dir, dispatcher=config, worker=settings) as cluster:
        screen.print(f"[bold]{cluster.target}[/bold]  a dispatcher and {workers} worker(s)")
        screen.print(f"slots of each worker: {each}")
        if http_port is not None:
            screen.print(f"page: http://{config.http_host}:{http_port}/")
        screen.print(f"work directory: {cluster.work_dir}")
        for worker in cluster.workers:
            screen.print(f"{worker.name}: {worker.address}, pid {worker.pid}")
        screen.print("Ctrl-C ends all of them.")
        look_after(cluster.dispatcher, cluster.workers, over, screen.print)
    screen.print("ended")
