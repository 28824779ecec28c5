"""What a worker reports about its attempts: how far they are, and what their windows hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from penstock.protocol.types import Codec, TaskId
from penstock_worker.core.attempt import Attempt
from penstock_worker.core.runner_history import PastTimes
from penstock_worker.core.shared_cache import SharedCache
from penstock_worker.runner.messages import TimesMeasured
from penstock_worker.stats import (
    BufferStats,
    OperatorStats,
    PastStats,
    RunnerStats,
    RunTimes,
    TrainerStats,
    WindowStats,
)


def task_stats(attempts: Iterable[Attempt]) -> tuple[RunnerStats, ...]:
    """Return how far each attempt is."""
    tasks = []
    for attempt in attempts:
        delivery, run = attempt.delivery, attempt.assignment
        counts, floor = delivery.counts(), delivery.acked.floor
        here = counts.ready, counts.unacked, counts.streams
        place = run.task, run.attempt, delivery.head, floor
        how = attempt.state, _compression(attempt), _times(attempt.times.whole)
        newest = _times(attempt.times.newest)
        tasks.append(RunnerStats(*place, *here, *how, newest, delivery.nbytes, attempt.room))
    return tuple(tasks)


def frame_buffers(attempts: Mapping[TaskId, Attempt]) -> Iterator[BufferStats]:
    """Yield how many bytes of frames of each attempt are here."""
    for task, attempt in attempts.items():
        yield BufferStats(f"frames of task {task}", attempt.delivery.nbytes, attempt.room)


def _compression(attempt: Attempt) -> str:
    codec = attempt.assignment.codec
    if codec is Codec.AUTO:
        return f"AUTO: {attempt.choice or 'none yet'}"
    return codec.value if codec is Codec.NONE else codec.name


def past_stats(times: PastTimes) -> tuple[PastStats, ...]:
    """Return how long operators worked in the newest tasks that are over."""
    found = ((iteration, task, _times(one)) for iteration, task, one in times.known)
    return tuple(PastStats(pass_, task, one) for pass_, task, one in found if one is not None)


def _times(known: TimesMeasured | None) -> RunTimes | None:
    if known is None:
        return None
    operators = tuple(
        OperatorStats(one.label, one.elements, one.worked, one.waited, one.call, one.cpu)
        for one in known.operators
    )
    return RunTimes(known.seconds, known.held_up, known.starved, operators, known.remote)


def cache_stats(attempts: Iterable[Attempt]) -> tuple[WindowStats, ...]:
    """Return what the window of each cached attempt holds."""
    return tuple(
        _of_window(attempt, attempt.delivery)
        for attempt in attempts
        if isinstance(attempt.delivery, SharedCache)
    )


def _of_window(attempt: Attempt, cache: SharedCache) -> WindowStats:
    run, counters = attempt.assignment, attempt.counters
    job = "" if run.cached is None else run.cached.job
    room = cache.nbytes, attempt.room, cache.oldest
    made = counters.produced - counters.replayed
    often = made, counters.sent, counters.sent / made if made else 0.0
    return WindowStats(run.task, job, *room, *often, _of_trainers(cache))


def _of_trainers(cache: SharedCache) -> tuple[TrainerStats, ...]:
    counts = cache.counts_of()
    return tuple(
        TrainerStats(
            name,
            len(place.acked.ranges),
            place.skipped,
            place.before,
            counts[name].ready,
            counts[name].unacked,
            counts[name].streams,
        )
        for name, place in cache.trainers().items()
    )
