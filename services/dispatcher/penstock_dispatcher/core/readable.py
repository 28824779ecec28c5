"""The workers that an iteration's readers may read, as `target_workers` and workers' tags have it.

Readers report which workers are in their own processes. A worker gets tasks once some reader is
known to read it; it loses them when it is known that none does, to one that is read.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.protocol.nearness import TargetWorkers, may_read
from penstock.protocol.types import WorkerId
from penstock_dispatcher.core.records import IterationRecord, WorkerRecord
from penstock_dispatcher.core.soft_state import SoftState
from penstock_dispatcher.core.state import DispatcherState


def readable(
    state: DispatcherState,
    soft_state: SoftState,
    iteration: IterationRecord,
    workers: Iterable[WorkerId],
) -> list[WorkerId]:
    """Return those of *workers* that a live reader of *iteration* is known to read."""
    known, target = state.workers, _target(iteration)
    return [
        worker
        for worker in workers
        if may_read(target, known[worker].profile, in_process=False)
        or _is_read(soft_state, iteration, worker, known[worker], unheard=False)
    ]


def barred(
    state: DispatcherState,
    soft_state: SoftState,
    iteration: IterationRecord,
    workers: Iterable[WorkerId],
) -> list[WorkerId]:
    """Return those of *workers* that no live reader of *iteration* may read, as all have said.

    Of a cached job, all of whose trainers need all tasks, those that some trainer does not read.
    """
    known, target = state.workers, _target(iteration)
    return [
        worker
        for worker in dict.fromkeys(workers)
        if not may_read(target, known[worker].profile, in_process=False)
        and not _is_read(soft_state, iteration, worker, known[worker], unheard=True)
    ]


def why_barred(iteration: IterationRecord, worker: WorkerId) -> str:
    """Return, in words, that nobody reads *worker*."""
    why = "target_workers='LOCAL' reads the workers in a reader's own process only"
    if _target(iteration) is TargetWorkers.AUTO:
        why = "it is tagged COLOCATED, and target_workers='AUTO' reads it from its own process only"
    who = "not every trainer" if iteration.cached else "no reader"
    return f"{who} may read worker {worker}: {why}"


def _target(iteration: IterationRecord) -> TargetWorkers:
    if iteration.rounds is not None:
        return TargetWorkers.ANY  # each round is for all consumers
    return iteration.parameters.target_workers


def _is_read(
    soft_state: SoftState,
    iteration: IterationRecord,
    worker: WorkerId,
    known: WorkerRecord,
    *,
    unheard: bool,
) -> bool:
    """Return whether *worker* is read from its own process, if it is not from others.

    All readers are asked, or of a cached job those of each trainer; *unheard* stands for what those
    would say that are not heard yet.
    """
    target = _target(iteration)
    by_trainer: dict[str, bool] = {}
    for reader in iteration.live:
        liveness, trainer = soft_state.readers.get(reader), iteration.readers[reader].trainer
        reads = unheard
        if liveness is not None and liveness.heartbeat.seq >= 0:
            inside = liveness.heartbeat.in_process.get(worker) == known.incarnation
            reads = may_read(target, known.profile, in_process=inside)
        by_trainer[trainer] = by_trainer.get(trainer, False) or reads
    return bool(by_trainer) and all(by_trainer.values())
