"""The metrics of a worker, from what it reports of itself once a second. Nothing is by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from penstock.credentials.entrance import Entrance
from penstock.runtime.versions import versions
from penstock.web.expiry import certificate_end
from penstock.web.metrics import counter, gauge, gauges, of_every_service
from penstock_worker.service import WorkerService
from penstock_worker.stats import BufferStats

COUNTERS: tuple[tuple[str, str, str], ...] = (
    ("frames_made", "frames_made", "Frames that runners made"),
    ("elements_made", "elements_made", "Elements in them"),
    ("bytes_made", "made_bytes", "Bytes of them"),
    ("frames_sent", "frames_sent", "Frames sent to readers"),
    ("elements_sent", "elements_sent", "Elements sent to readers"),
    ("bytes_sent", "sent_bytes", "Bytes sent to readers, as they travel"),
    ("elements_acked", "elements_acked", "Elements that readers' loops have had"),
    ("requeued", "elements_requeued", "Elements that readers gave back unused"),
    ("in_doubt", "elements_in_doubt", "Elements requeued that an expired reader may have had"),
    ("frames_dropped", "frames_dropped", "Frames dropped while readers have their elements"),
    ("recalls", "recalls", "Requests to loops to give elements back"),
    ("lent", "frames_lent", "Frames that readers on this host read where they were made"),
    ("copied_out", "frames_copied_out", "Frames that they copied, as they keep too many"),
    ("runs_started", "runs_started", "Runs of pipelines that were started"),
    ("runners_lost", "runners_lost", "Runners that died"),
)
"""Fields of `WorkerStats`, and their metrics."""


class WorkerMetrics:
    """What a scrape of *worker* gets."""

    def __init__(self, worker: WorkerService, entrance: Entrance) -> None:
        self._worker, self._entrance = worker, entrance

    def __call__(self) -> Iterable[Metric]:
        """Yield them."""
        stats, entrance = self._worker.recent_stats(), self._entrance
        yield from of_every_service(versions(), entrance.security.value, entrance.calls)
        yield from certificate_end(entrance)
        for field, name, text in COUNTERS:
            yield counter(f"penstock_worker_{name}", text, getattr(stats, field))
        states = Counter(task.state for task in stats.tasks)
        yield gauges(
            "penstock_worker_tasks",
            "Tasks that are here, by what their runners do",
            ["state"],
            (((state,), count) for state, count in states.items()),
        )
        yield gauge("penstock_worker_streams", "Streams of readers that are open", stats.streams)
        yield gauge("penstock_worker_draining", "1 while it hands its tasks on", stats.draining)
        yield from _of_buffers(stats.buffers)
        yield gauge(
            "penstock_worker_cache_bytes",
            "Bytes in the windows of cached jobs",
            sum(window.nbytes for window in stats.caches),
        )
        yield counter(
            "penstock_worker_cpu_seconds",
            "Processor time of this process and all its runners",
            stats.usage.cpu,
        )
        yield gauge(
            "penstock_worker_cores",
            "Cores that this process and all its runners may use",
            stats.usage.cores,
        )
        yield gauge(
            "penstock_worker_memory_bytes",
            "Memory of this process and all its runners; what they share counts once",
            stats.usage.memory,
        )


def _of_buffers(buffers: Iterable[BufferStats]) -> Iterable[Metric]:
    held, bounds = Counter[str](), Counter[str]()
    for one in buffers:
        kind = "frames of tasks" if one.name.startswith("frames of task ") else one.name
        held[kind] += one.nbytes
        bounds[kind] += one.bound
    for name, text, values in (
        ("buffer_bytes", "Bytes in buffers", held),
        ("buffer_limit_bytes", "Bytes that may be in them; 0 is bounded by something else", bounds),
    ):
        rows = (((kind,), float(nbytes)) for kind, nbytes in values.items())
        yield gauges(f"penstock_worker_{name}", text, ["buffer"], rows)
