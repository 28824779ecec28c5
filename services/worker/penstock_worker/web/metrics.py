"""The metrics of a worker, from what it reports of itself once a second. Nothing is by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from penstock.credentials.entrance import Entrance
from penstock.runtime.versions import versions
from penstock.web.metrics import certificate_end, counter, gauge, gauges, of_every_service
from penstock_worker.service import WorkerService
from penstock_worker.stats import BufferStats, WorkerStats

COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("frames_made", "frames_made", "Frames made by runners"),
    ("elements_made", "elements_made", "Elements in the frames that runners made"),
    ("bytes_made", "made_bytes", "Bytes of the frames that runners made"),
    ("frames_sent", "frames_sent", "Frames sent to readers"),
    ("elements_sent", "elements_sent", "Elements sent to readers"),
    ("bytes_sent", "sent_bytes", "Bytes sent to readers, compressed"),
    (
        "elements_acked",
        "elements_acked",
        "Elements that training loops have taken and acknowledged",
    ),
    ("requeued", "elements_requeued", "Elements that readers returned unused"),
    (
        "in_doubt",
        "elements_in_doubt",
        "Elements requeued although a lost reader may have used them",
    ),
    ("frames_dropped", "frames_dropped", "Frames dropped whose elements readers already have"),
    ("recalls", "recalls", "Requests to readers to return elements"),
    ("lent", "frames_lent", "Frames that readers on this host read in shared memory"),
    (
        "copied_out",
        "frames_copied_out",
        "Frames that readers on this host copied from shared memory",
    ),
    ("runs_started", "runs_started", "Tasks started in a runner"),
    ("runners_lost", "runners_lost", "Runners that died"),
)
"""Fields of `WorkerStats`, and their metrics."""

OF_STORAGE: tuple[tuple[str, str, str], ...] = (
    ("requests", "storage_requests", "Requests for bytes of remote files, second ones included"),
    ("nbytes", "storage_bytes", "Bytes read of remote files"),
    ("retries", "storage_retries", "Requests repeated after a failure"),
    ("slow_downs", "storage_slow_downs", "Answers of stores that asked for fewer requests"),
    ("hedges", "storage_hedges", "Second requests, sent because the first one was late"),
    ("hedges_won", "storage_hedges_won", "Second requests that answered first"),
    ("damaged", "storage_damaged", "Pieces of saved datasets with another checksum than written"),
    ("remade", "storage_remade", "Files of saved datasets that their pipeline made again"),
    ("wait_seconds", "storage_wait_seconds", "Time that runners waited for remote files"),
)
"""Fields of `StorageCounts`, and their metrics."""


class WorkerMetrics:
    """Collects the metrics of *worker* for a scrape."""

    def __init__(self, worker: WorkerService, entrance: Entrance) -> None:
        self._worker, self._entrance = worker, entrance

    def __call__(self) -> Iterable[Metric]:
        """Yield them."""
        stats, entrance = self._worker.recent_stats(), self._entrance
        yield from of_every_service(versions(), entrance.security.value, entrance.calls)
        yield from certificate_end(entrance)
        for field, name, text in COUNTERS:
            yield counter(f"penstock_worker_{name}", text, getattr(stats, field))
        for field, name, text in OF_STORAGE:
            yield counter(f"penstock_worker_{name}", text, getattr(stats.storage, field))
        states = Counter(task.state for task in stats.tasks)
        yield gauges(
            "penstock_worker_tasks",
            "Assigned tasks, by state",
            ["state"],
            (((state,), count) for state, count in states.items()),
        )
        yield from _of_file_cache(stats)
        yield gauge("penstock_worker_streams", "Open streams of readers", stats.streams)
        yield gauge("penstock_worker_draining", "1 while the worker drains", stats.draining)
        yield from _of_buffers(stats.buffers)
        yield gauge(
            "penstock_worker_cache_bytes",
            "Bytes in the windows of cross-trainer caches",
            sum(window.nbytes for window in stats.caches),
        )
        yield counter(
            "penstock_worker_cpu_seconds",
            "Processor time of the worker and its runners",
            stats.usage.cpu,
        )
        yield gauge(
            "penstock_worker_cores",
            "Cores that the worker and its runners may use",
            stats.usage.cores,
        )
        yield gauge(
            "penstock_worker_memory_bytes",
            "Memory of the worker and its runners; shared memory counts once",
            stats.usage.memory,
        )


def _of_file_cache(stats: WorkerStats) -> Iterable[Metric]:
    if stats.file_cache is None:
        return
    for name, text in (
        ("hits", "Pieces of remote files that runners read from the host's disk"),
        ("misses", "Pieces of remote files that the host's disk did not have"),
        ("evictions", "Pieces of remote files that were removed for others"),
    ):
        number = getattr(stats.storage, f"cache_{name}")
        yield counter(f"penstock_worker_file_cache_{name}", text, number)
    yield gauge(
        "penstock_worker_file_cache_bytes",
        "Bytes of remote files on the host's disk, for all its workers",
        stats.file_cache.held,
    )
    yield gauge(
        "penstock_worker_file_cache_limit_bytes",
        "Limit of these bytes: the setting, or less if the disk is full",
        stats.file_cache.bound,
    )


def _of_buffers(buffers: Iterable[BufferStats]) -> Iterable[Metric]:
    held, bounds = Counter[str](), Counter[str]()
    for one in buffers:
        kind = "frames of tasks" if one.name.startswith("frames of task ") else one.name
        held[kind] += one.nbytes
        bounds[kind] += one.bound
    for name, text, values in (
        ("buffer_bytes", "Bytes in buffers", held),
        (
            "buffer_limit_bytes",
            "Limit of the bytes in a buffer; 0 if another limit applies",
            bounds,
        ),
    ):
        rows = (((kind,), float(nbytes)) for kind, nbytes in values.items())
        yield gauges(f"penstock_worker_{name}", text, ["buffer"], rows)
