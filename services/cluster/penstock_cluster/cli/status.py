"""``penstock status`` and ``penstock jobs``: what a cluster is doing, on a screen or as JSON."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from penstock.errors import VersionMismatch
from penstock.explanation import mesh
from penstock.protocol.names import all_printable
from penstock_cluster.cli.client import as_json, ask, screen
from penstock_cluster.cli.look import Look, of_job, passes_meant
from penstock_cluster.cli.picture import jobs, jobs_table, picture
from penstock_dispatcher.core.stats import DispatcherStats


def fetch(target: str) -> bytes:
    """Return the counters of the dispatcher at *target*, as JSON."""
    return ask(target, lambda dispatcher: dispatcher.status())


def status_json(target: str, job: str = "") -> str:
    """Return the counters of the dispatcher at *target*; of the passes those that *job* means."""
    known = msgspec.json.decode(fetch(target))
    if job:
        numbers = {it.iteration for it in passes_meant(_stats(target, known).iterations, job)}
        passes = [one for one in known["iterations"] if one["iteration"] in numbers]
        known["iterations"] = passes
    return as_json(**known)


def look(target: str) -> Look:
    """Look at the cluster of *target*.

    Raises:
        VersionMismatch: when what answers counts other things.
    """
    # Names from outside may contain anything: they are made fit for a screen here, once.
    plain = all_printable(msgspec.json.decode(fetch(target)))
    stats = _stats(target, plain)
    return Look(target, time.monotonic(), time.time(), stats, mesh.look(msgspec.json.encode(plain)))


def _stats(target: str, known: Any) -> DispatcherStats:
    try:
        return msgspec.convert(known, DispatcherStats, str_keys=True)
    except msgspec.ValidationError as exc:
        raise VersionMismatch(
            f"the dispatcher at {target} is of another version: {exc}; use --json"
        ) from exc


def show_status(target: str, job: str = "", *, everything: bool = False) -> None:
    """Print what the cluster is doing now, on a screen unless *everything* is to be shown.

    Raises:
        ConfigError: when *job* means none.
    """
    lines = None if everything else screen.height
    screen.print(picture(of_job(look(target), job), lines))


def show_jobs(target: str) -> None:
    """Print a line for each pass that the dispatcher knows."""
    now = look(target)
    known = now.stats.iterations or now.stats.forgotten
    screen.print(jobs_table(now) if known else "no pass is known")


def jobs_json(target: str) -> str:
    """Return an object with a list: one object for each pass that the dispatcher knows."""
    return as_json(jobs=jobs(look(target)))
