"""One order that goes to several consumers: where each task begins, and which consumers are there.

A task's place is known when all before it were made. See `penstock.protocol.rounds`.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from penstock.errors import DatasetError, Refused
from penstock.protocol.calls import JobParameters, OpenIterationRequest
from penstock.protocol.control import ReaderHeartbeat
from penstock_dispatcher.core import ordered_tasks
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.fact_values import RestoredStride
from penstock_dispatcher.core.facts import TaskCounted
from penstock_dispatcher.core.job_state import JobState
from penstock_dispatcher.core.records import IterationRecord, TaskRecord

MOST_CONSUMERS = 4096
"""The most consumers of a job: each report of coordinated reads is compared with what all others
have, and a worker keeps a list for each consumer of one order."""

NAMED = 4
"""How many consumers a message names."""


def count(ctx: DecisionContext, iteration: IterationRecord) -> None:
    """Commit how many elements tasks have that were made, in order, as far as that is known.

    The elements that a task made before it failed count: so loops that continue after the failure
    stay in step.
    """
    if iteration.stride is None:
        return
    for name, task in list(iteration.tasks.items()):
        if task.index < iteration.counted[0]:
            continue
        progress = ctx.soft_state.progress.get(name)
        if progress is not None and (progress.ended or progress.failure is not None):
            ctx.commit(TaskCounted(name, progress.head))
            ordered_tasks.finish_if_read(ctx, name, task)  # if it is empty
        elif task.failure is not None and task.worker is None:
            ctx.commit(TaskCounted(name, task.head))
        else:
            return


def note_progress(ctx: DecisionContext, iteration: IterationRecord, task: TaskRecord) -> None:
    """Count, if *task* is the first that is not counted: others wait for it, and it for none."""
    if task.index == iteration.counted[0]:
        count(ctx, iteration)


def restored(state: JobState, parameters: JobParameters) -> RestoredStride | None:
    """Return how the pass saved in *state* continues, if several consumers divide its one order."""
    if state.stride is UNSET or parameters.stride is None:
        return None
    return RestoredStride(parameters.stride, state.stride.tasks, state.stride.elements)


def check_request(request: OpenIterationRequest) -> None:
    """Refuse a number of consumers that makes no sense.

    Raises:
        DatasetError: naming it.
    """
    asked = request.parameters
    if asked.stride is None:
        return
    if not 1 <= asked.stride <= MOST_CONSUMERS:
        raise DatasetError(f"num_consumers must be 1 to {MOST_CONSUMERS}, not {asked.stride}")
    if asked.num_consumers is not None or not asked.ordered:
        raise DatasetError("consumers of one order read no rounds: stride needs ordered, alone")
    if request.job_name is None:
        raise DatasetError(f"num_consumers={asked.stride} needs a job_name to meet under")


def check(heartbeat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Refuse a reader that is no consumer where others are, or the other way round.

    Raises:
        PenstockError: saying why.
    """
    index, consumers = heartbeat.consumer, iteration.stride
    if index is None and consumers is None:
        return
    if consumers is None:
        raise Refused(
            f"job {iteration.job!r} is shared first come, first served, and this reader is "
            f"consumer {index}: all readers of a job give the same num_consumers, or none"
        )
    if index is None:
        raise Refused(
            f"job {iteration.job!r} goes to {consumers} consumers in one order, and this reader "
            "does not say which of them it is: give consumer_index and num_consumers"
        )
    if not 0 <= index < consumers:
        raise DatasetError(f"consumer_index must be below num_consumers, {consumers}, not {index}")


def waits(ctx: DecisionContext, iteration: IterationRecord) -> Iterator[str]:
    """Yield which consumers are not there: in the end others wait for their elements."""
    if iteration.stride is None:
        return
    there = set()
    for reader in iteration.live:
        known = ctx.soft_state.readers.get(reader)
        if known is None or known.heartbeat.seq < 0:
            return  # after a restart it is not known yet
        there.add(known.heartbeat.consumer)
    absent = [index for index in range(iteration.stride) if index not in there]
    if absent:
        named = ", ".join(map(str, absent[:NAMED]))
        more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
        who = "consumers" if len(absent) > 1 else "consumer"
        yield f"{who} {named}{more} of {iteration.stride}, of which no reader is there"
