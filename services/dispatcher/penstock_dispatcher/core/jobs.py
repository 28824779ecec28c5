"""Opening an iteration: how a client's request finds or creates its job and its iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from penstock.engine import seeds
from penstock.errors import (
    DatasetError,
    JobForgotten,
    JobMismatch,
    Refused,
    StateError,
    UnknownDataset,
    VersionMismatch,
)
from penstock.protocol.cache import NOT_SAVED, WhenFull
from penstock.protocol.calls import JobParameters, OnError, OpenIterationRequest
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.rounds import Remainder
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import PROTOCOL, IterationId, Mode, Versions
from penstock_dispatcher.core import strides
from penstock_dispatcher.core.datasets import DatasetRecord
from penstock_dispatcher.core.events import OpenIteration
from penstock_dispatcher.core.facts import Fact, IterationOpened, JobCreated
from penstock_dispatcher.core.records import JobRecord
from penstock_dispatcher.core.split_provider import SplitProvider, order_seed
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.strides import MOST_CONSUMERS

PLAIN = {
    "shared_cache": "cross_trainer_cache",
    "mode": "processing_mode",
    "codec": "compression",
    "shards": "number of shards (the dispatcher's worker_addresses)",
    "stride": "num_consumers (with ordered=True)",
}
"""The names that users know for parameters that have other names here."""

UNLISTED_WORKERS = (
    "ShardingPolicy.{} gives each worker a fixed part, and this dispatcher has no list of workers: "
    "start it with worker_addresses (DispatcherConfig; PENSTOCK_WORKER_ADDRESSES=host-0,host-1; "
    "--worker-address for each), or use ShardingPolicy.DYNAMIC, which needs none"
)

OVER = IterationId(0)
"""Stands for every iteration that was finished and forgotten."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of an opening: files to list first, or the facts to commit, and the iteration."""

    job: str
    iteration: IterationId
    facts: tuple[Fact, ...] = ()
    superseded: tuple[IterationId, ...] = ()
    """The iterations that are abandoned first."""
    patterns: Mapping[int, FilePattern] | None = None
    order_seeds: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The seeds of the orders of files that are needed at once."""
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The files of split providers that need no listing, but an order."""
    providers: tuple[SplitProvider, ...] = ()
    """The split providers of a restored pass, with the known names and orders of their files."""


def plan_opening(
    state: DispatcherState, event: OpenIteration, addresses: tuple[str, ...] = ()
) -> Plan:
    """Decide what to do about a request; *addresses* is the list of workers.

    Raises:
        PenstockError: when it cannot be had.
    """
    request = event.request
    parameters = parameters_of(state, request, addresses)
    seed = event.seed if parameters.seed is None else parameters.seed
    name = anonymous(state) if request.job_name is None else request.job_name
    job = state.jobs.get(name)
    if job is not None:
        check_same(state, name, parameters, job.parameters)
        if request.repetition in job.open:
            return Plan(name, job.open[request.repetition])
        if request.repetition in job.finished:
            return Plan(name, OVER)
        if request.repetition in job.unfinished:
            raise _forgotten(name, request.repetition, job)
    patterns = _patterns(state, parameters)
    if patterns and event.names is None:
        providers = state.datasets[parameters.dataset].providers
        this = seeds.derive(seed if job is None else job.seed, "repetition", request.repetition)
        wanted = _order_seeds(providers, this, patterns)
        return Plan(name, OVER, patterns=patterns, order_seeds=wanted)
    return _new(state, event, name, job or JobRecord(parameters, seed, request.job_name is None))


def _order_seeds(
    providers: Sequence[SplitProviderSpec], seed: int, patterns: Mapping[int, FilePattern]
) -> dict[int, tuple[int, ...]]:
    """Return the seeds of the orders of files of each split provider in its first pass."""
    return {
        i: (order_seed(pattern, seeds.derive(seed, "files", i), providers[i].repeats, 0),)
        for i, pattern in patterns.items()
        if pattern.shuffle
    }


def _forgotten(name: str, repetition: int, job: JobRecord) -> JobForgotten:
    was = job.unfinished[repetition]
    why = "no reader came for job_gc_timeout, and gc_dynamic_sharding_jobs is on"
    if was.failure is not None:
        why = f"it failed: {str(was.failure.error()).partition(chr(10))[0]}"
    return JobForgotten(
        f"repetition {repetition} of job {name!r} (dataset {job.parameters.dataset}) was forgotten "
        f"after {was.acked} of its elements had been acked: {why}. Read from the beginning, it "
        "would deliver these again. To do that, use another job_name; to continue, restore a saved "
        "state of the job"
    )


def check_protocol(peer: str, versions: Versions) -> None:
    """Refuse a peer of another protocol version."""
    if versions.protocol != PROTOCOL:
        older = peer if versions.protocol < PROTOCOL else "the dispatcher"
        raise VersionMismatch(
            f"{peer} (penstock {versions.penstock}) speaks protocol {versions.protocol}, this "
            f"dispatcher speaks {PROTOCOL}: upgrade {older}"
        )


def parameters_of(
    state: DispatcherState, request: OpenIterationRequest, addresses: tuple[str, ...] = ()
) -> JobParameters:
    """Return the parameters of *request*, checked.

    Raises:
        PenstockError: when they cannot be served.
    """
    asked = request.parameters
    _check_target(asked)
    _check_rounds(request)
    strides.check_request(request)
    _check_cache(request)
    _check_errors(asked)
    if request.job_name == "":
        raise Refused("job_name must not be empty; None makes the job private")
    if asked.seed is not None and asked.seed < 0:
        raise Refused(f"seed must not be negative: {asked.seed}")
    if request.repetition < 0:
        raise Refused(f"repetition must not be negative: {request.repetition}")
    dataset = state.datasets.get(asked.dataset)
    if dataset is None:
        raise UnknownDataset(
            f"dataset {asked.dataset} is not registered here; a dispatcher without a journal "
            "forgets datasets when it restarts: register it again"
        )
    if asked.mode is Mode.DYNAMIC and dataset.unsplittable:
        raise DatasetError(dataset.unsplittable)
    parameters = replace(
        asked,
        shared_cache=request.trainer is not None,
        shards=len(addresses) if asked.mode.is_static else 0,
    )
    if asked.ordered and asked.num_consumers is None:
        _check_ordered(parameters, dataset)
    if asked.mode.is_static and not addresses:
        raise DatasetError(UNLISTED_WORKERS.format(asked.mode.name))
    return parameters


def _check_ordered(asked: JobParameters, dataset: DatasetRecord) -> None:
    """Refuse datasets without an order of their own."""
    if asked.mode is not Mode.DYNAMIC or asked.shared_cache:
        what = f"processing mode {asked.mode.value!r}"
        if asked.shared_cache:
            what = "cross_trainer_cache"
        raise DatasetError(
            f"ordered=True and {what} do not go together: the one order is that of the splits, "
            "which ShardingPolicy.DYNAMIC divides"
        )
    if dataset.unordered:
        raise DatasetError(dataset.unordered)


def _check_target(asked: JobParameters) -> None:
    """Refuse workers that cannot be told apart in rounds."""
    consumers = (asked.num_consumers or asked.stride) is not None
    if asked.target_workers is TargetWorkers.LOCAL and consumers:
        raise DatasetError(
            "target_workers='LOCAL' and num_consumers do not go together: all consumers read each "
            "task"
        )


def _check_rounds(request: OpenIterationRequest) -> None:
    """Refuse what makes no sense of reading in rounds, or without."""
    asked = request.parameters
    if asked.patience is not None and asked.patience < 0:
        raise DatasetError(f"patience must not be negative: {asked.patience}")
    if asked.num_consumers is None:
        if asked.remainder is not Remainder.DROP or asked.patience is not None:
            raise DatasetError("remainder and patience are for coordinated reads: num_consumers")
        return
    if not 1 <= asked.num_consumers <= MOST_CONSUMERS:
        raise DatasetError(
            f"num_consumers must be from 1 to {MOST_CONSUMERS}, not {asked.num_consumers}"
        )
    if request.job_name is None:
        raise DatasetError(f"num_consumers={asked.num_consumers} needs a job_name to meet under")


def _check_cache(request: OpenIterationRequest) -> None:
    """Refuse what makes no sense of a cached job, or of another one."""
    asked = request.parameters
    if request.trainer is None:
        if asked.when_full:
            raise DatasetError("when_full is for cached jobs: cross_trainer_cache")
        return
    known = [one.value for one in WhenFull]
    if asked.when_full not in known:
        raise DatasetError(f"when_full must be one of {', '.join(known)}, not {asked.when_full!r}")
    if not request.trainer:
        raise DatasetError("the trainer of cross_trainer_cache must have a name")
    if asked.num_consumers is not None:
        raise DatasetError(
            "cross_trainer_cache and num_consumers do not go together: an element of a round goes "
            "to one consumer"
        )
    if request.job_name is None:
        raise DatasetError("cross_trainer_cache needs a job_name, under which trainers meet")
    if request.restore:
        raise StateError(
            f"job {request.job_name!r} has a cross-trainer cache, so no state restores it: "
            f"{NOT_SAVED}"
        )


def _check_errors(asked: JobParameters) -> None:
    """Refuse what makes no sense of elements that cannot be made."""
    skips = asked.on_error is OnError.SKIP
    if asked.max_errors is not None and (asked.max_errors < 0 or not skips):
        raise DatasetError(
            f"max_errors={asked.max_errors} must not be negative, and is for on_error='skip'"
        )
    if skips and asked.mode.is_static:
        raise DatasetError(
            "on_error='skip' and static sharding do not go together: what fails in one task only "
            "would move parts against each other"
        )
    if skips and (asked.num_consumers or asked.stride) is not None:
        raise DatasetError(
            "on_error='skip' and num_consumers do not go together: a skipped element would move "
            "all elements after it to other rounds"
        )


def anonymous(state: DispatcherState) -> str:
    """Return a name for a job without one."""
    number: int = state.next_id
    while f"anonymous_{number}" in state.jobs:
        number += 1
    return f"anonymous_{number}"


def check_same(
    state: DispatcherState, name: str, asked: JobParameters, made: JobParameters
) -> None:
    """Refuse to read a job with other parameters than it was created with."""
    pairs = [(f.name, getattr(made, f.name), getattr(asked, f.name)) for f in fields(JobParameters)]
    differences = [
        f"{PLAIN.get(name, name)} is {_plain(mine)}, not {_plain(theirs)}"
        for name, mine, theirs in pairs
        if mine != theirs
    ]
    if differences:
        remedy = "Use another job_name, or the same parameters"
        if asked.dataset != made.dataset:
            remedy += (
                ": all readers of a job build the same pipeline, without anything of their own in "
                "it (no rank in shard), and share its elements, each once"
                f"{_pythons(state, made, asked)}"
            )
        raise JobMismatch(
            f"job {name!r} exists with other parameters: its {'; its '.join(differences)}. "
            f"{remedy}",
            made.dataset if asked.dataset != made.dataset else "",
        )


def _pythons(state: DispatcherState, made: JobParameters, asked: JobParameters) -> str:
    """Return a remark if the datasets may differ by nothing but the Python that made them."""
    known = [state.datasets.get(each.dataset) for each in (made, asked)]
    versions = [() if each is None else each.pythons for each in known]
    if not all(versions) or not set(versions[0]).isdisjoint(versions[1]):
        return ""
    first, second = (", ".join(each) for each in versions)
    return (
        f". The one was made by Python {first}, the other by {second}: functions are the same "
        "under equal minor versions only. Read with the same in all processes"
    )


def _plain(value: Any) -> str:
    return repr(value.value if isinstance(value, Enum) else value)


def _patterns(state: DispatcherState, parameters: JobParameters) -> dict[int, FilePattern]:
    providers = state.datasets[parameters.dataset].providers
    if parameters.mode is not Mode.DYNAMIC:
        return {}
    return {i: s.files for i, s in enumerate(providers) if s.files is not None}


def _new(state: DispatcherState, event: OpenIteration, name: str, job: JobRecord) -> Plan:
    iteration, request = IterationId(state.next_id), event.request
    made = JobCreated(name, job.parameters, job.seed, job.private)
    opened = IterationOpened(
        iteration,
        name,
        request.repetition,
        seeds.derive(job.seed, "repetition", request.repetition),
        event.listings,
    )
    return Plan(name, iteration, (opened,) if name in state.jobs else (made, opened))
