"""Restoring: a saved state is checked, and becomes a new iteration that goes on from it.

What was acked after the save is delivered again, so readers of the saved iteration are told that
it is superseded. All who restore the same state read the same iteration, as long as one of
them is there; a reader that comes when all have gone begins at the state again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from msgspec import UNSET

from penstock.engine import seeds
from penstock.errors import StateError, Unavailable
from penstock.protocol.control import OpenIterationRequest
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import IterationId, Mode, ReaderStatus, TaskId
from penstock_dispatcher.core import job_state, jobs, listings
from penstock_dispatcher.core.context import REUNION, DecisionContext
from penstock_dispatcher.core.events import OpenIteration
from penstock_dispatcher.core.facts import (
    Fact,
    IterationFinished,
    IterationRestored,
    JobCreated,
    JobParameters,
    ProviderPosition,
    RestoredTask,
)
from penstock_dispatcher.core.job_state import JobState, TaskState
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.records import IterationRecord, JobRecord
from penstock_dispatcher.core.rounds_facts import RestoredRounds
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
    providers = durable.datasets[request.dataset].providers
    state = job_state.decode(request.restore)
    _check_same(state, request, parameters.shards)
    _check_providers(state, providers)
    name = jobs.anonymous(durable) if request.job_name is None else request.job_name
    origin = job_state.digest(request.restore)
    job = durable.jobs.get(name)
    if job is not None:
        jobs.check_same(durable, name, parameters, _among_as_many(job.parameters, parameters))
        known = job.open.get(state.repetition)
        if known is not None and _continues(
            ctx, durable.iterations[known], origin, request.replaces, now
        ):
            jobs.check_same(durable, name, parameters, durable.iterations[known].parameters)
            return jobs.Plan(name, known)
    sources = _providers(state, providers)
    wanted = _find_files(state, sources, providers, event, durable)
    if wanted is not None:
        return replace(wanted, job=name)
    _check(state, sources)
    iteration = IterationId(durable.next_id)
    facts: list[Fact] = []
    if job is None:
        facts.append(JobCreated(name, parameters, state.seed, request.job_name is None))
    rounds = _rounds(state, request)
    facts.append(replace(_restored(state, iteration, name, origin, sources), rounds=rounds))
    if state.finished:
        facts.append(IterationFinished(iteration))
    later = _later(job, state.repetition)
    return jobs.Plan(name, iteration, tuple(facts), superseded=later, providers=tuple(sources))


def _among_as_many(made: JobParameters, asked: JobParameters) -> JobParameters:
    """Return a job's parameters with the number of consumers that it may go on with."""
    if made.num_consumers is None or asked.num_consumers is None:
        return made
    return replace(made, num_consumers=asked.num_consumers)


def _rounds(state: JobState, request: OpenIterationRequest) -> RestoredRounds | None:
    if state.rounds is UNSET or request.num_consumers is None:
        return None
    at = state.rounds
    turn = FIRST if at.turn is None else at.turn
    return RestoredRounds(at.round, turn, request.num_consumers)


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
            patterns[i] = spec.files
        if provider.known.names is not None:
            kept[i] = provider.known.names
    if not patterns:
        return None
    kept = {i: names for i, names in kept.items() if i in patterns}
    return jobs.Plan("", jobs.OVER, patterns=patterns, order_seeds=order_seeds, names=kept)


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
        f"the files of {', '.join(pattern.patterns[:3])} are not those that the state was saved "
        f"over, and by whose numbers it goes on: {listings.difference(was, names)}. Put back the "
        "files that there were, or begin anew"
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
            f"the dispatcher was away, and does not know yet whether others read job "
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
            ProviderPosition(provider.pass_number, provider.offset, provider.listing)
            for provider in providers
        ),
        tuple(_task(TaskId(first + i), task, providers) for i, task in enumerate(tasks)),
        state.next_task,
        job_state.sums(state.account),
    )


def _task(name: TaskId, task: TaskState, providers: Sequence[SplitProvider]) -> RestoredTask:
    ended = task.ended or (0,) * len(providers)
    logs = tuple(map(job_state.log, task.logs, ended, providers))
    engine = job_state.checkpoint(task.checkpoint)
    return RestoredTask(name, task.index, engine, logs, ended, job_state.acked(task.acked))


# --- what a state must be ---


def _check_same(state: JobState, request: OpenIterationRequest, shards: int) -> None:
    if (state.rounds is UNSET) != (request.num_consumers is None):
        saved, asked = "without", "in rounds"
        if state.rounds is not UNSET:
            saved, asked = "in rounds", "without num_consumers"
        raise StateError(f"the saved state is of a job that is read {saved}, not {asked}")
    if (state.ordered is True) != (request.ordered and request.num_consumers is None):
        raise StateError(
            f"the saved state is of a job that is read with ordered={state.ordered is True}: its "
            f"tasks are divided for that. Give the same to distribute, not {request.ordered}"
        )
    differences = [
        f"its {what} is {saved}, not {asked}"
        for what, saved, asked in (
            ("dataset", state.fingerprint, request.dataset),
            ("processing mode", state.mode.value, request.mode.value),
        )
        if saved != asked
    ]
    if differences:
        raise StateError(
            f"the saved state is of another pipeline than this one: {'; '.join(differences)}. "
            "Restore it with the pipeline that it was saved from"
        )
    if request.max_errors is not None and state.account.errors > request.max_errors:
        raise StateError(
            f"before the saved state {state.account.errors} elements were left out, and max_errors "
            f"is {request.max_errors}: give a larger max_errors"
        )
    saved_shards = 0 if state.shards is UNSET else state.shards
    if saved_shards != shards:
        raise StateError(
            f"the saved state is of {saved_shards} fixed parts, one for each of worker_addresses, "
            f"and this dispatcher has {shards} there: each part goes on as it was cut. Restore it "
            f"at a dispatcher with {saved_shards} worker_addresses (any), or begin anew"
        )


def _check_providers(state: JobState, providers: Sequence[SplitProviderSpec]) -> None:
    dynamic = state.mode is Mode.DYNAMIC
    wanted = len(providers) if dynamic and not state.finished else 0
    if len(state.providers) != wanted:
        raise _bad(
            "$.providers",
            f"it has {len(state.providers)}, and the dataset {wanted} split providers",
        )
    for i, (at, spec) in enumerate(zip(state.providers, providers, strict=False)):
        if (at.files is not None) != (spec.files is not None):
            raise _bad(
                f"$.providers[{i}].files", f"this split provider has {_no(spec.files)} files"
            )


def _no(files: FilePattern | None) -> str:
    return "no" if files is None else "other"


def _check(state: JobState, providers: Sequence[SplitProvider]) -> None:
    """Refuse a state that contradicts itself or its dataset.

    Raises:
        StateError: saying where.
    """
    for i, (at, provider) in enumerate(zip(state.providers, providers, strict=True)):
        _check_provider(f"$.providers[{i}]", at, provider)
    indexes = [task.index for task in state.tasks]
    if len(set(indexes)) < len(indexes) or any(index >= state.next_task for index in indexes):
        raise _bad(
            "$.tasks", f"their indexes must differ and be below {state.next_task}: {indexes}"
        )
    if state.rounds is not UNSET:
        if (state.rounds.turn or 0) >= max(1, state.next_task):
            raise _bad("$.rounds.turn", f"there are {state.next_task} tasks")
        if any(task.acked.more for task in state.tasks):
            raise _bad("$.tasks", "of tasks that are read in rounds all is acked up to a place")
    if state.shards is not UNSET and state.next_task not in (0, state.shards):
        raise _bad("$.next_task", f"there are {state.shards} shards, each of which is a task")
    whole = (bool(task.ended) and providers[0].over(task.ended[0]) for task in state.tasks)
    if state.ordered is True and not all(whole):
        raise _bad("$.tasks", "each has its split, and the end, of a job that is read in order")
    if state.finished and state.tasks:
        raise _bad("$.finished", "a pass that is over has no tasks")
    for i, task in enumerate(state.tasks):
        _check_task(f"$.tasks[{i}]", state, task, providers)


def _check_provider(place: str, at: job_state.ProviderState, provider: SplitProvider) -> None:
    within = at.offset == 0 or at.offset < provider.units
    if provider.passes >= 0:
        within &= at.pass_number < provider.passes or (
            at.pass_number == provider.passes and at.offset == 0
        )
    if not within:
        passes = f"{provider.passes} passes" if provider.passes >= 0 else "passes"
        raise _bad(
            place,
            f"unit {at.offset} of pass {at.pass_number} is not within {passes} of {provider.units} "
            "units",
        )


def _check_task(
    place: str, state: JobState, task: TaskState, providers: Sequence[SplitProvider]
) -> None:
    count = len(state.providers)
    if len(task.logs) != count or len(task.ended) not in (0, count):
        raise _bad(f"{place}.logs", f"there must be one for each of {count} split providers")
    if task.acked.floor < task.checkpoint.number:
        raise _bad(
            f"{place}.acked",
            f"the checkpoint is before element {task.checkpoint.number}, and all is acked before "
            f"{task.acked.floor} only",
        )
    for low, high in task.acked.more:
        if low >= high:
            raise _bad(f"{place}.acked.more", f"[{low}, {high}] is empty")
    for i, saved in enumerate(task.logs):
        _check_log(f"{place}.logs[{i}]", saved, providers[i])
    for i, at in enumerate(task.checkpoint.positions):
        known = task.logs[i] if i < count else job_state.LogState()
        if not known.start <= at <= known.start + len(known.splits):
            raise _bad(f"{place}.checkpoint.positions[{i}]", f"the split log has no position {at}")


def _check_log(place: str, saved: job_state.LogState, provider: SplitProvider) -> None:
    for low, high in saved.splits:
        if low > high:
            raise _bad(place, f"[{low}, {high}] is no split")
    beyond = max((high for _, high in saved.splits), default=0)
    if beyond > max(provider.units, 0):
        raise _bad(place, f"unit {beyond - 1} is not within {max(provider.units, 0)}")


def _bad(place: str, why: str) -> StateError:
    return StateError(f"the saved job state is malformed: {why} - at `{place}`")
