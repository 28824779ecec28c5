"""Checks of who may join: histories, versions of Python, limits on jobs, readers and datasets."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import Overloaded, PenstockError, Refused, VersionMismatch
from penstock.protocol.control import SplitRequest, WorkerHeartbeat
from penstock.protocol.types import DatasetId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.jobs import check_protocol
from penstock_dispatcher.core.records import TaskRecord
from penstock_dispatcher.core.state import DispatcherState

LOST_HISTORY = "this dispatcher's history was lost or rolled back"


def check_worker(ctx: DecisionContext, heartbeat: WorkerHeartbeat) -> None:
    """Refuse a worker that cannot be part of this cluster.

    An older process is one as long as the newer one is connected: behind that, the clock of its
    host may have been set back.

    Raises:
        PenstockError: saying why.
    """
    state = ctx.state
    if heartbeat.versions is not None:
        check_protocol(f"worker {heartbeat.worker}", heartbeat.versions)
    known = state.workers.get(heartbeat.worker)
    newer = known is not None and heartbeat.incarnation < known.incarnation
    if newer and ctx.soft_state.workers[heartbeat.worker].connected:
        raise Refused(f"a newer process answers at {heartbeat.worker}: this one is out of date")
    unborn = [task for task in heartbeat.progress if task >= state.next_id]
    if heartbeat.revision > state.revision or unborn:
        raise Refused(
            f"worker {heartbeat.worker} is at revision {heartbeat.revision}, and this dispatcher "
            f"at {state.revision}: {LOST_HISTORY}; restart the worker"
        )


def copied(heartbeat: WorkerHeartbeat) -> PenstockError:
    """Return the error for a copy of a worker's process, which repeats an earlier message."""
    return Refused(
        f"worker {heartbeat.worker} reports an earlier state than before: there is a copy of that "
        "process, as a snapshot of its host makes one; restart the worker"
    )


def check_split_request(task: TaskRecord, request: SplitRequest) -> None:
    """Refuse a request for a position that the split log does not have.

    Raises:
        PenstockError: saying which.
    """
    fault = None
    if not 0 <= request.provider < len(task.logs):
        fault = f"it draws from {len(task.logs)} split providers"
    elif request.position < task.logs[request.provider].start:
        fault = f"the split log begins at {task.logs[request.provider].start}"
    elif request.position > task.logs[request.provider].stop:
        fault = f"the split log ends at {task.logs[request.provider].stop}: {LOST_HISTORY}"
    if fault:
        raise Refused(
            f"worker {request.worker} asks for position {request.position} of split provider "
            f"{request.provider} of task {request.task}, but {fault}"
        )


def check_registered_python(ctx: DecisionContext, dataset: DatasetId, python: str) -> None:
    """Refuse to register a pipeline that *python* made if no worker can run it then.

    Raises:
        VersionMismatch: naming both versions, and what to do.
    """
    known = ctx.state.datasets.get(dataset)
    made_by = {*(known.pythons if known is not None else ()), python} - {""}
    if mismatch := _mismatch(ctx, sorted(made_by)):
        raise VersionMismatch(mismatch)


def check_python(ctx: DecisionContext, dataset: DatasetId) -> None:
    """Refuse a dataset that no worker can run, if there are workers.

    Functions travel between equal minor versions of Python only.

    Raises:
        VersionMismatch: naming both versions.
    """
    if mismatch := python_mismatch(ctx, dataset):
        raise VersionMismatch(mismatch)


def python_mismatch(ctx: DecisionContext, dataset: DatasetId) -> str:
    """Return why no worker can run *dataset*; nothing if one can, or none is registered."""
    return _mismatch(ctx, ctx.state.datasets[dataset].pythons)


def _mismatch(ctx: DecisionContext, made_by: Sequence[str]) -> str:
    known = [ctx.soft_state.workers[worker] for worker in ctx.state.workers]
    if not known or any(worker.loads(made_by) for worker in known):
        return ""
    have = sorted({worker.versions.minor for worker in known if worker.versions is not None})
    return (
        f"the pipeline was made by Python {', '.join(made_by)}; workers have {', '.join(have)}: "
        "functions travel between equal minor versions only. Start a worker with "
        f"{made_by[-1]}, or read with {have[-1]}"
    )


def check_job(ctx: DecisionContext, who: str, *, new: bool) -> None:
    """Refuse to open a *new* iteration where there are as many as there may be, in all or of *who*.

    Raises:
        Overloaded: when there are.
    """
    iterations, most = ctx.state.iterations, ctx.settings.max_jobs
    if new:
        _check_jobs_of(ctx, who)
    if not new or len(iterations) < most:  # of those that are over, some are kept for a while
        return
    open_now = sum(1 for iteration in iterations.values() if not iteration.finished)
    if open_now >= most:
        raise Overloaded(
            f"{open_now} jobs are being read here, which is all that may be: end some, wait until "
            "those that nobody reads are forgotten (job_gc_timeout), or start the dispatcher with "
            "a larger limit max_jobs"
        )


def _check_jobs_of(ctx: DecisionContext, who: str) -> None:
    opened_by, most = ctx.soft_state.opened_by, ctx.settings.max_jobs_per_identity
    if len(opened_by) < most:
        return
    theirs = sum(1 for name in opened_by.values() if name == who)
    if theirs >= most:
        raise Overloaded(
            f"{who} opened {theirs} jobs that are being read here, which is all that one identity "
            "may have: end some, wait until those that nobody reads are forgotten "
            "(job_gc_timeout), or start the dispatcher with a larger limit max_jobs_per_identity"
        )


def check_reader(ctx: DecisionContext, session: str) -> None:
    """Refuse the reader *session* where there are as many others as there may be.

    Raises:
        Overloaded: when there are.
    """
    others = ctx.soft_state.connected
    if session not in others and len(others) >= ctx.settings.max_readers:
        raise Overloaded(
            f"{len(others)} readers are connected here, which is all that may be: close some, or "
            "start the dispatcher with a larger limit max_readers"
        )


def check_dataset(state: DispatcherState, most: int) -> None:
    """Refuse another dataset where there are *most*.

    Raises:
        Overloaded: when there are.
    """
    if len(state.datasets) >= most:
        raise Overloaded(
            f"{len(state.datasets)} datasets are registered here, which is all that may be: wait "
            "until those that nothing uses are forgotten (dataset_gc_timeout), or start the "
            "dispatcher with a larger limit max_datasets"
        )
