"""Restoring: a saved state is checked, and becomes a new iteration that continues from it.

Elements acked after the save are delivered again, so readers of the saved iteration get an error:
it is superseded. All who restore the same state read the same iteration, as long as one of them is
there; a reader that comes when all have gone begins at the state again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from msgspec import UNSET

from penstock.engine import seeds
from penstock.errors import StateError, Unavailable
from penstock.protocol.calls import JobParameters
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.splits import PART_MARK, FilePattern
from penstock.protocol.types import IterationId, ReaderStatus, TaskId
from penstock_dispatcher.core import job_state, jobs, listings, saved_state, strides
from penstock_dispatcher.core.context import REUNION, DecisionContext
from penstock_dispatcher.core.events import OpenIteration
from penstock_dispatcher.core.fact_values import (
    ProviderPosition,
    RestoredRounds,
    RestoredTask,
)
from penstock_dispatcher.core.facts import Fact, IterationFinished, IterationRestored, JobCreated
from penstock_dispatcher.core.job_state import JobState, TaskState
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.records import IterationRecord, JobRecord
from penstock_dispatcher.core.rounds_record import FIRST
from penstock_dispatcher.core.split_provider import ORDERS_KEPT, SplitProvider
from penstock_dispatcher.core.state import DispatcherState


def plan(ctx: DecisionContext, event: OpenIteration, now: float) -> jobs.Plan:
    """Decide what to do about a request that brings a saved state.

    Raises:
        PenstockError: when it cannot be had.
    """
    durable, request = ctx.state, event.request
    parameters = jobs.parameters_of(durable, request, ctx.settings.worker_addresses)
    providers = durable.datasets[parameters.dataset].providers
    state = job_state.decode(request.restore)
    saved_state.check_same(state, parameters)
    saved_state.check_providers(state, providers)
    name = jobs.anonymous(durable) if request.job_name is None else request.job_name
    origin = job_state.digest(request.restore)
    job = durable.jobs.get(name)
    if job is not None:
        jobs.check_same(durable, name, parameters, _as_saved(job.parameters, parameters))
        known = job.open.get(state.repetition)
        if known is not None and _continues(
            ctx, durable.iterations[known], origin, request.replaces, now
        ):
            made = durable.iterations[known].parameters
            jobs.check_same(durable, name, parameters, _with_own_seed(made, parameters))
            return jobs.Plan(name, known)
    sources = _providers(state, providers)
    wanted = _find_files(state, sources, providers, event, durable)
    if wanted is not None:
        return replace(wanted, job=name)
    saved_state.check_whole(state, sources)
    iteration = IterationId(durable.next_id)
    facts: list[Fact] = []
    if job is None:
        facts.append(JobCreated(name, parameters, state.seed, request.job_name is None))
    restored = _restored(state, iteration, name, origin, sources)
    rounds = _rounds(state, parameters, restored.tasks)
    facts.append(replace(restored, rounds=rounds, stride=strides.restored(state, parameters)))
    if state.finished:
        facts.append(IterationFinished(iteration))
    later = _later(job, state.repetition)
    return jobs.Plan(name, iteration, tuple(facts), superseded=later, providers=tuple(sources))


def _as_saved(made: JobParameters, asked: JobParameters) -> JobParameters:
    """Return a job's parameters with the number of consumers that it may continue with."""
    made = _with_own_seed(made, asked)
    if made.num_consumers is not None and asked.num_consumers is not None:
        made = replace(made, num_consumers=asked.num_consumers)
    if made.stride is not None and asked.stride is not None:
        made = replace(made, stride=asked.stride)
    return made


def _with_own_seed(made: JobParameters, asked: JobParameters) -> JobParameters:
    """Return a job's parameters for a reader that leaves the seed to the saved state."""
    return replace(made, seed=None) if asked.seed is None else made


def _rounds(
    state: JobState, parameters: JobParameters, tasks: Sequence[RestoredTask]
) -> RestoredRounds | None:
    if state.rounds is UNSET or parameters.num_consumers is None:
        return None
    at = state.rounds
    turn = FIRST if at.turn is None else at.turn
    names = {task.index: task.task for task in tasks}
    same = parameters.num_consumers == at.consumers  # else a group has another number of elements
    log = tuple(names[index] for index in at.log) if same else ()
    return RestoredRounds(at.round, turn, parameters.num_consumers, log)


def _providers(state: JobState, providers: Sequence[SplitProviderSpec]) -> list[SplitProvider]:
    """Return each split provider at its position; those of files over the state's listing."""
    states = zip(state.providers, providers, strict=False)
    return [_provider(state, i, spec, at.files) for i, (at, spec) in enumerate(states)]


def _provider(
    state: JobState, number: int, spec: SplitProviderSpec, listing: ListingOutline | None
) -> SplitProvider:
    provider = SplitProvider.of(spec, listing, seeds.derive(state.iteration_seed, "files", number))
    provider.pass_number, provider.offset = (
        state.providers[number].pass_number,
        state.providers[number].offset,
    )
    provider.reweigh(job_state.changes(state.providers[number].changes))
    return provider


def _find_files(
    state: JobState,
    sources: list[SplitProvider],
    providers: Sequence[SplitProviderSpec],
    event: OpenIteration,
    durable: DispatcherState,
) -> jobs.Plan | None:
    """Set in *sources* the files that the state's numbers are of, or plan to list and order them.

    Raises:
        StateError: saying which files differ.
    """
    patterns: dict[int, FilePattern] = {}
    order_seeds, kept = {}, {}
    for i, (at, spec) in enumerate(zip(state.providers, providers, strict=False)):
        if at.files is None or spec.files is None:
            continue
        same, names = durable.provider_over(at.files), (event.names or {}).get(i)
        if same is not None:  # whatever files are there now
            sources[i] = provider = _provider(state, i, spec, same.listing)
            provider.learn_from(same)
        elif names is not None:
            listing = event.listings[i]
            if listing.digest != at.files.digest:
                raise _changed(spec.files, at.files, names)
            sources[i] = provider = _provider(state, i, spec, listing)
            provider.set_names(names, {})
        else:
            provider = sources[i]
        provider.known.add(event.orders.get(i, {}))
        order_seeds[i] = provider.missing_orders(_pass_number(state, i, provider))
        if provider.known.names is None or (order_seeds[i] and names is None):
            patterns[i] = _as_listed(spec.files, at.files)
        if provider.known.names is not None:
            kept[i] = provider.known.names
    if not patterns:
        return None
    kept = {i: names for i, names in kept.items() if i in patterns}
    return jobs.Plan("", jobs.OVER, patterns=patterns, order_seeds=order_seeds, names=kept)


def _as_listed(pattern: FilePattern, was: ListingOutline) -> FilePattern:
    """Return *pattern* in whole files, if *was* is of a version that did not divide its files."""
    if any(PART_MARK in each.first for each in was.ranges):
        return pattern
    return replace(pattern, part_bytes=0)


def _pass_number(state: JobState, number: int, provider: SplitProvider) -> Sequence[int]:
    """Return the newest passes whose file names are needed; the state may contradict itself."""
    found = {provider.reading, *provider.soon}
    for task in state.tasks:
        if number >= len(task.logs):
            continue
        splits = task.logs[number].splits
        pass_number = task.ended[number] if number < len(task.ended) else 0
        pass_number -= sum(low == high for low, high in splits)
        for low, high in splits:
            if low < high:
                found.add(pass_number)
            pass_number += low == high
    return sorted(n for n in found if 0 <= n <= provider.reading + 1)[-ORDERS_KEPT:]


def _changed(pattern: FilePattern, was: ListingOutline, names: Sequence[str]) -> StateError:
    return StateError(
        f"the files of {', '.join(pattern.patterns[:3])} are not the files of the saved state, "
        f"which has their numbers: {listings.difference(was, names)}. Put back those "
        "files, or begin again"
    )


def _later(job: JobRecord | None, repetition: int) -> tuple[IterationId, ...]:
    """Return the passes that are abandoned when a job goes back to *repetition*."""
    opened = job.open.items() if job is not None else ()
    return tuple(name for number, name in opened if number >= repetition)


def _continues(
    ctx: DecisionContext,
    iteration: IterationRecord,
    origin: str,
    replaced: Sequence[str],
    now: float,
) -> bool:
    """Return whether sessions other than *replaced* restored the same state, and read on.

    Raises:
        Unavailable: when that cannot be known yet.
    """
    if iteration.origin != origin:
        return False
    readers = iteration.readers.values()
    live = {r.session for r in readers if r.status is ReaderStatus.LIVE}.difference(replaced)
    if not iteration.readers or any(session in ctx.soft_state.connected for session in live):
        return True
    if iteration.finished:
        return False
    found = (ctx.soft_state.readers.get(reader) for reader in iteration.live)
    others = [liveness for liveness in found if liveness and liveness.heartbeat.session in live]
    unheard = any(liveness.heartbeat.seq < 0 for liveness in others)
    if unheard and now < ctx.soft_state.since + REUNION:
        raise Unavailable(
            f"the dispatcher was restarted, and does not know yet whether others read job "
            f"{iteration.job!r} from this saved state: try again"
        )
    # A reader whose connection was cut sends its next heartbeat by another one; a process that
    # ended does not. Until then both look alike.
    soon = 2 * ctx.settings.refresh_interval
    if any(now - liveness.last_heard < soon for liveness in others if liveness.heartbeat.seq >= 0):
        raise Unavailable(
            f"the connection of one that reads job {iteration.job!r} from this saved state was cut "
            "just now, and it may be back: try again"
        )
    return False


def _restored(
    state: JobState,
    iteration: IterationId,
    name: str,
    origin: str,
    providers: Sequence[SplitProvider],
) -> IterationRestored:
    first = iteration + 1
    # Readers in order go by the tasks' names: those are in the order of the splits.
    tasks = sorted(state.tasks, key=attrgetter("index")) if state.ordered is True else state.tasks
    return IterationRestored(
        iteration,
        name,
        state.repetition,
        state.iteration_seed,
        state.seed,
        origin,
        tuple(
            ProviderPosition(
                provider.pass_number, provider.offset, provider.listing, provider.changes
            )
            for provider in providers
        ),
        tuple(_task(TaskId(first + i), task, providers) for i, task in enumerate(tasks)),
        state.next_task,
        job_state.sums(state.account),
        weights=job_state.weights(state),
    )


def _task(name: TaskId, task: TaskState, providers: Sequence[SplitProvider]) -> RestoredTask:
    ended = task.ended or (0,) * len(providers)
    logs = tuple(map(job_state.log, task.logs, ended, providers))
    engine = job_state.checkpoint(task.checkpoint)
    acked, place = job_state.acked(task.acked), None if task.place is UNSET else task.place
    return RestoredTask(name, task.index, engine, logs, ended, acked, place)
