"""The settings of the core: leases, periods, limits, and entries of the list of workers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """Leases and periods, in seconds; which workers may come (all, if none is named)."""

    worker_lease: float = 5.0
    reader_lease: float = 30.0
    consumer_lease: float = 10.0
    """How long a consumer of coordinated reads may be silent before the others are told."""
    heartbeat_interval: float = 1.0
    refresh_interval: float = 1.0
    idle: float = 300.0
    """How long an iteration without readers is kept."""
    gc_dynamic: bool = False
    """Whether that also ends a shared pass of which some was acked, and some was not."""
    dataset_idle: float = 3600.0
    """How long a dataset is kept that nothing uses, and whose id nobody chose."""
    sweep_interval: float = 10.0
    """How often such iterations are looked for."""
    tick_interval: float = 0.25
    worker_addresses: tuple[str, ...] = ()
    reassign_static_tasks: bool = False
    """Whether a static task moves to another worker when its place was vacant for a worker lease.
    """
    max_jobs: int = 1 << 16
    max_jobs_per_identity: int = 1 << 15
    max_readers: int = 1 << 16
    max_datasets: int = 1 << 16


def is_exact(entry: str) -> bool:
    """Return whether *entry* names one worker by its port."""
    port = _port(entry)
    return port not in ("", "*") and "%port" not in port


def is_host_of(entry: str, worker: str) -> bool:
    """Return whether *entry* names the host of *worker*, and no port."""
    if is_exact(entry):
        return False
    port = _port(entry)
    host = entry[: -len(port) - 1] if port else entry
    return worker.rpartition(":")[0] == host


def _port(entry: str) -> str:
    host, _, port = entry.rpartition(":")
    return port if host and not port.endswith("]") else ""
