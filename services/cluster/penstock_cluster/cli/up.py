"""``penstock up``: a cluster in the foreground."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace

from penstock.runtime.cores import cores
from penstock.runtime.settings import variable
from penstock_cluster.cli.client import errors, screen
from penstock_cluster.local import LocalCluster
from penstock_cluster.member import look_after
from penstock_dispatcher.config import DispatcherConfig
from penstock_worker.config import WorkerConfig

OWN = {
    name: getattr(WorkerConfig(), name)
    for name in (
        "dispatcher_address", "worker_address", "data_transfer_address", "port", "http_port",
        "health_file", "tensorflow_port", "tensorflow_host",
    )
}  # fmt: skip
"""Settings that workers do not read from variables: each worker, or the dispatcher, has its own."""

IGNORED = "dispatcher_address", "worker_address", "data_transfer_address"
"""Settings of a worker that `up` never uses."""


def ignored(env: Mapping[str, str]) -> list[str]:
    """Return a sentence for each variable of *env* that `up` cannot honour.

    >>> ignored({"PENSTOCK_WORKER_ADDRESS": "10.0.0.7:7001"})
    ['PENSTOCK_WORKER_ADDRESS is ignored: penstock up gives each of its workers an address']
    """
    return [
        f"{variable(name)} is ignored: penstock up gives each of its workers an address"
        for name in IGNORED
        if env.get(variable(name))
    ]


def settings_of(
    env: Mapping[str, str],
    workers: int,
    slots: int | None,
    *,
    fixed: bool,
    port: int | None = None,
    http_port: int | None = None,
) -> tuple[DispatcherConfig, WorkerConfig]:
    """Return the settings of the dispatcher and of each worker; options override variables.

    Raises:
        ConfigError: if a variable is malformed, or settings contradict each other.
    """
    worker = replace(WorkerConfig.from_env(env=env, slots=slots), **OWN)
    if worker.slots is None:
        worker = replace(worker, slots=max(1, cores() // max(1, workers)))
    entries = (worker.host,) * workers if fixed else None
    given = {"port": port, "http_port": http_port, "worker_addresses": entries}
    return DispatcherConfig.from_env(env=env, **given), worker


def up(
    workers: int,
    port: int | None,
    work_dir: str | None,
    slots: int | None,
    *,
    fixed: bool,
    http_port: int | None = None,
) -> None:
    """Run a dispatcher and *workers* workers until Ctrl-C or SIGTERM; all of them end with it.

    Each worker has *slots* slots; by default the workers divide the cores among them. With *fixed*,
    the dispatcher gets a list with these workers only, so that no others may register.
    With *http_port* the dispatcher also serves its page and metrics. Other settings come from
    ``PENSTOCK_*`` variables, as for a dispatcher or a worker that is started alone.
    """
    for sentence in ignored(os.environ):
        errors.print(sentence, markup=False)
    config, settings = settings_of(
        os.environ, workers, slots, fixed=fixed, port=port, http_port=http_port
    )
    over = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: over.set())
    with LocalCluster(workers, work_dir=work_dir, dispatcher=config, worker=settings) as cluster:
        screen.print(f"[bold]{cluster.target}[/bold]  a dispatcher and {workers} worker(s)")
        screen.print(f"slots of each worker: {settings.slots}")
        if config.http_port is not None:
            scheme = "http" if config.credentials is None else "https"
            screen.print(f"page: {scheme}://{config.http_host}:{config.http_port}/")
        screen.print(f"work directory: {cluster.work_dir}")
        for worker in cluster.workers:
            screen.print(f"{worker.name}: {worker.address}, pid {worker.pid}")
        screen.print("Ctrl-C ends all of them.")
        look_after(cluster.dispatcher, cluster.workers, over, screen.print)
    screen.print("ended")
