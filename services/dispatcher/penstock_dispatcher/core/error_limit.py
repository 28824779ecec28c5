"""What follows from elements that were left out: they are counted, and too many end the pass."""

from __future__ import annotations

from penstock.protocol.control import SkippedErrors
from penstock.protocol.types import Failure, TaskId
from penstock_dispatcher.core import skipped_errors
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.error_facts import ErrorsSkipped
from penstock_dispatcher.core.facts import AttemptEnded, TaskFailed
from penstock_dispatcher.core.records import IterationRecord, TaskRecord

LETTERS_KEPT = 32
"""How many dead letters of a pass are kept, the first that were reported."""

LONGEST = 1 << 16
"""Characters of a dead letter that is kept: workers shorten theirs."""


def report(
    ctx: DecisionContext, name: TaskId, task: TaskRecord, reported: SkippedErrors | None
) -> None:
    """Commit what was left out of a task since the last report."""
    known, iteration = task.errors, ctx.state.iterations[task.iteration]
    if (
        reported is None
        or reported.count <= known.count
        or not skipped_errors.are_skipped(iteration)
    ):
        return
    kept = len(iteration.before.letters)
    kept += sum(len(each.errors.first) for each in iteration.tasks.values())
    new = [one for one in reported.first if one.number > known.count and len(one.letter) <= LONGEST]
    ctx.commit(ErrorsSkipped(name, reported.count, tuple(new[: max(0, LETTERS_KEPT - kept)])))
    if skipped_errors.too_many(iteration):
        ctx.dirty[task.iteration] = None


def stop(ctx: DecisionContext, iteration: IterationRecord) -> None:
    """Commit that a pass goes no further that left out too many: all its tasks fail."""
    failure = Failure.of(skipped_errors.error(iteration))
    for name, task in iteration.tasks.items():
        if not task.done and task.failure is None:
            ctx.task_over(TaskFailed(name, failure))
        if task.worker is not None:
            ctx.task_over(AttemptEnded(name, ctx.totals_of(name)))
