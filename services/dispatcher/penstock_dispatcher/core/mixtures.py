"""New weights for a job's mixture while it is read: from which turn on, and what is refused.

A change holds from a turn that no task was granted. So splits alone say what each turn takes, and
a split that was granted never changes.
"""

from __future__ import annotations

from penstock.errors import DatasetError, PenstockError
from penstock.protocol.mixture import MOST_PARTS_OF_CHANGE, WeightStage, parts_of
from penstock.protocol.names import printable
from penstock.protocol.types import Failure, IterationId, Mode
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import ReplyToCall, SetWeights
from penstock_dispatcher.core.fact_values import WeightChange
from penstock_dispatcher.core.facts import WeightsChanged
from penstock_dispatcher.core.mixture_record import MixtureRecord, next_pass
from penstock_dispatcher.core.records import JobRecord
from penstock_dispatcher.core.split_provider import SplitProvider
from penstock_dispatcher.core.state import DispatcherState

MOST_CHANGES = 4096
"""The most changes that a mixture has: each split and each saved state names them."""


def on_set_weights(ctx: DecisionContext, event: SetWeights) -> None:
    """Change the weights of a job's mixture, and reply with the turn from which they hold."""
    answer: int | Failure
    try:
        fact, answer = _decide(ctx.state, event)
    except PenstockError as exc:
        fact, answer = None, Failure.of(exc)
    if fact is not None:
        ctx.commit(fact)
    ctx.effects.append(ReplyToCall(event.call, answer))


def _decide(state: DispatcherState, event: SetWeights) -> tuple[WeightsChanged | None, int]:
    """Return the fact that *event* leads to, if any, and the turn from which its weights hold.

    Raises:
        DatasetError: when it cannot be.
    """
    job = state.jobs.get(event.job)
    if job is None:
        known = ", ".join(sorted(map(printable, list(state.jobs)[-5:]))) or "none"
        raise DatasetError(
            f"there is no job {printable(event.job)!r} at this dispatcher; it knows {known}"
        )
    number, iteration, provider, mixture = _mixture(state, job, event)
    current, first = provider.pass_number, mixture.turn_at(provider.offset)
    parts = parts_of(event.weights, mixture.outline.names, MOST_PARTS_OF_CHANGE)
    planned, last = mixture.stages(current, first)[-1], _last(mixture, current, first)
    at = first if event.at is None else event.at
    if planned.parts == parts and planned.begin <= at:
        return None, planned.begin  # that may be by this call, which is made again
    if at < first:
        raise DatasetError(
            f"{_named(event)} cannot change at turn {at}: tasks have the turns before {first}. "
            f"Give at={first} or a later turn, or leave it out"
        )
    if at > last:
        raise DatasetError(f"{_named(event)} cannot change at turn {at}: turn {last} is the last")
    change = WeightChange(current, WeightStage(at, parts, mixture.counts(current, at)))
    after, later = mixture.plus(change), MixtureRecord(mixture.outline, next_pass((change,)))
    if len(after.changes) > MOST_CHANGES:
        raise DatasetError(
            f"{_named(event)} have changed {MOST_CHANGES} times, which is the most that a saved "
            "state holds: change them less often"
        )
    if _last(after, current, at) < at or _last(later, 0, 0) < 0:
        raise DatasetError(
            f"{_named(event)} cannot become {dict(event.weights)!r}: these sources have no more "
            "elements. Give a weight to a source that has some"
        )
    return WeightsChanged(event.job, iteration, number, change), at


def _named(event: SetWeights) -> str:
    return f"the weights of job {printable(event.job)!r}"


def _last(mixture: MixtureRecord, pass_number: int, turn: int) -> int:
    """Return the last turn of a pass; -1 if there is none."""
    units = mixture.units(pass_number, turn)
    return units[-1] if units else -1


def _mixture(
    state: DispatcherState, job: JobRecord, event: SetWeights
) -> tuple[int, IterationId | None, SplitProvider, MixtureRecord]:
    """Return the split provider that *event* is about, with its number, pass and mixture.

    It is that of the newest pass. If all of it was granted, it is that of the next pass.
    """
    specs = state.datasets[job.parameters.dataset].providers
    names = {i: spec.mixture.names for i, spec in enumerate(specs) if spec.mixture is not None}
    about = f"job {printable(event.job)!r}"
    if not names:
        raise DatasetError(
            f"{about} reads no mixture whose turns the dispatcher hands out: use Dataset.mixture "
            'with unit="elements" over inputs that have an index, right before distribute or '
            "with operators on its elements after it. A mixture within another one keeps its "
            "weights"
        )
    if job.parameters.mode is not Mode.DYNAMIC:
        raise DatasetError(
            f"{about} is read with processing mode {job.parameters.mode.value!r}, in which the "
            "dispatcher hands out no turns of its mixture: use ShardingPolicy.DYNAMIC"
        )
    found = [i for i, known in names.items() if set(event.weights) <= set(known)] or list(names)
    if len(found) > 1:
        raise DatasetError(
            f"{about} reads {len(found)} mixtures that have these sources: give the sources of "
            "each mixture other names"
        )
    number = found[0]
    iteration: IterationId | None = None
    provider = SplitProvider.of(specs[number], None, 0)
    provider.reweigh(job.weights.get(number, ()))
    for _, newest in sorted(job.open.items())[-1:]:
        reading = state.iterations[newest].providers
        if reading and reading[number].left:
            iteration, provider = newest, reading[number]
    if provider.mixture is None or not provider.left:
        raise DatasetError(f"{about} reads a mixture without turns")
    return number, iteration, provider, provider.mixture
