"""Checks of a saved state: it must be of the same job and free of contradictions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from penstock.errors import StateError
from penstock.protocol.calls import JobParameters
from penstock.protocol.definition import ENDLESS, SplitProviderSpec
from penstock.protocol.mixture import MOST_PARTS
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import Mode
from penstock_dispatcher.core import job_state
from penstock_dispatcher.core.job_state import JobState, TaskState
from penstock_dispatcher.core.split_provider import SplitProvider


def check_same(state: JobState, asked: JobParameters) -> None:
    """Refuse the state of another pipeline, or of one that is read otherwise.

    Raises:
        StateError: naming the difference.
    """
    if (state.rounds is UNSET) != (asked.num_consumers is None):
        saved, wanted = "without", "in rounds"
        if state.rounds is not UNSET:
            saved, wanted = "in rounds", "without num_consumers"
        raise StateError(f"the saved state is of a job that is read {saved}, not {wanted}")
    if (state.ordered is True) != (asked.ordered and asked.num_consumers is None):
        raise StateError(
            f"the saved state is of a job that is read with ordered={state.ordered is True}: its "
            f"tasks are divided for that. Give the same to distribute, not {asked.ordered}"
        )
    if (state.stride is UNSET) != (asked.stride is None):
        saved, wanted = ("without", "with") if state.stride is UNSET else ("with", "without")
        raise StateError(
            f"the saved state is of a job that is read in one order {saved} num_consumers, not "
            f"{wanted}: give any number of consumers where there were some, and else none"
        )
    differences = [
        f"its {what} is {saved}, not {wanted}"
        for what, saved, wanted in (
            ("dataset", state.fingerprint, asked.dataset),
            ("processing mode", state.mode.value, asked.mode.value),
        )
        if saved != wanted
    ]
    if differences:
        raise StateError(
            f"the saved state is of another pipeline than this one: {'; '.join(differences)}. "
            "Restore it with the pipeline that it was saved from"
        )
    if asked.seed is not None and state.seed != asked.seed:
        raise StateError(
            f"the saved state is of a job with the seed {state.seed}, not {asked.seed}: it "
            "continues with its own. Give the same seed, or none"
        )
    if asked.max_errors is not None and state.account.errors > asked.max_errors:
        raise StateError(
            f"before the saved state {state.account.errors} elements were left out, and max_errors "
            f"is {asked.max_errors}: give a larger max_errors"
        )
    saved_shards = 0 if state.shards is UNSET else state.shards
    if saved_shards != asked.shards:
        raise StateError(
            f"the saved state is of {saved_shards} fixed parts, one for each of worker_addresses, "
            f"and this dispatcher has {asked.shards} there: each part keeps its files. Restore it "
            f"at a dispatcher with {saved_shards} worker_addresses (any), or begin again"
        )


def check_providers(state: JobState, providers: Sequence[SplitProviderSpec]) -> None:
    """Refuse a state that has other split providers; raises as `check_same` does."""
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
        _check_changes(f"$.providers[{i}].changes", at.changes, spec)
    for i, known in enumerate(() if state.weights is UNSET else state.weights):
        if known.provider >= len(providers):
            raise _bad(f"$.weights[{i}].provider", f"there are {len(providers)} split providers")
        spec = providers[known.provider]
        _check_changes(f"$.weights[{i}].changes", known.changes, spec)


def _check_changes(
    place: str, changes: Sequence[job_state.ChangeState], spec: SplitProviderSpec
) -> None:
    """Refuse changes of weights that are of another mixture, or of none."""
    sources = 0 if spec.mixture is None else len(spec.mixture.names)
    last = -1, 0
    for i, each in enumerate(changes):
        before = len(each.before)
        if len(each.parts) != sources or before not in (
            (0, sources) if not each.begin else (sources,)
        ):
            raise _bad(f"{place}[{i}]", f"the mixture has {sources} sources")
        if not 0 < sum(each.parts) <= MOST_PARTS:
            raise _bad(f"{place}[{i}].parts", f"their sum must be from 1 to {MOST_PARTS}")
        if (each.pass_number, each.begin) <= last or each.begin >= ENDLESS:
            raise _bad(f"{place}[{i}].begin", "changes must be in the order of their turns")
        last = each.pass_number, each.begin


def _no(files: FilePattern | None) -> str:
    return "no" if files is None else "other"


def check_whole(state: JobState, providers: Sequence[SplitProvider]) -> None:
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
    _check_rounds(state, indexes)
    _check_places(state)
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


def _check_rounds(state: JobState, tasks: Sequence[int]) -> None:
    """Refuse rounds that are not of the *tasks* that the state has."""
    if state.rounds is UNSET:
        return
    if (state.rounds.turn or 0) >= max(1, state.next_task):
        raise _bad("$.rounds.turn", f"there are {state.next_task} tasks")
    if not set(state.rounds.log).issubset(tasks):
        raise _bad("$.rounds.log", f"the state has the tasks {list(tasks)}")
    if any(task.acked.more for task in state.tasks):
        raise _bad("$.tasks", "of tasks that are read in rounds all is acked up to a place")


def _check_places(state: JobState) -> None:
    """Refuse places in one order that do not follow from one another."""
    if state.stride is UNSET:
        return
    counted, there = state.stride.tasks, {task.index for task in state.tasks}
    if counted > state.next_task or not there.issuperset(range(counted, state.next_task)):
        raise _bad("$.stride.tasks", f"{counted} tasks are counted, and others are not there")
    places = [task.place for task in state.tasks if task.index <= counted]
    known = [place for place in places if place is not UNSET and place <= state.stride.elements]
    if len(known) < len(places) or sorted(known) != known:
        raise _bad("$.tasks", "their places must be known, in order, up to the first not counted")
    if any(task.place is not UNSET for task in state.tasks if task.index > counted):
        raise _bad("$.tasks", "the place of a task behind one that is not counted is not known")


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
    if provider.changes:
        return  # passes of a mixture whose weights changed may have other numbers of units
    beyond = max((high for _, high in saved.splits), default=0)
    if beyond > max(provider.units, 0):
        raise _bad(place, f"unit {beyond - 1} is not within {max(provider.units, 0)}")


def _bad(place: str, why: str) -> StateError:
    return StateError(f"the saved job state is malformed: {why} - at `{place}`")
