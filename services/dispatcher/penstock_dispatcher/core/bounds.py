"""How much there may be of what callers bring about: jobs, readers, datasets."""

from __future__ import annotations

from penstock.errors import Overloaded
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.state import DispatcherState


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
            "a larger max_jobs"
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
            "(job_gc_timeout), or start the dispatcher with a larger max_jobs_per_identity"
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
            "start the dispatcher with a larger max_readers"
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
            "dispatcher with a larger max_datasets"
        )
