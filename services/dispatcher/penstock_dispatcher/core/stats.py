"""What the dispatcher counts: one frozen value that status calls return as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import msgspec

from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.reader_process import ReaderProcess
from penstock.protocol.types import IterationId, Versions
from penstock.runtime.usage import Usage
from penstock_dispatcher.core import account, made_tasks, skipped_errors
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.soft_state import SoftState
from penstock_dispatcher.core.state import DispatcherState

FORGOTTEN_SHOWN = 1000


@dataclass(slots=True)
class Counts:
    """What came in and was decided since the process began."""

    facts: int = 0
    opened: int = 0
    worker_heartbeats: int = 0
    reader_heartbeats: int = 0
    split_requests: int = 0
    splits: int = 0


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """A live worker: what it reports of itself, and for how many readers it is unreachable."""

    address: str
    incarnation: int
    silent: float
    connected: bool
    draining: bool
    tasks: tuple[int, ...]
    stats: Any
    unreachable: int = 0
    versions: Versions | None = None
    host: str = ""
    transports: tuple[str, ...] = ()
    """The names by which readers may read it."""
    tags: tuple[str, ...] = ()
    slots: int = 1
    slots_used: int = 0
    """How many slots have a task that is made now, or are taken by processes of one."""


@dataclass(frozen=True, slots=True)
class TaskStats:
    """A task of an iteration that runs."""

    task: int
    index: int
    attempt: int
    worker: str | None
    head: int
    acked: int
    splits: int
    units: int
    done: bool
    failure: str | None


@dataclass(frozen=True, slots=True)
class ReaderStats:
    """A reader of an iteration that runs; *silent* is None once it has left."""

    reader: int
    status: str
    silent: float | None
    consumed: int
    process: ReaderProcess | None = None
    trainer: str = ""
    transports: Mapping[str, int] = field(default_factory=dict)
    """How many workers it reads by each transport."""
    loop: LoopTime | None = None
    """How much of its time its loop waited, of late."""
    links: tuple[LinkTraffic, ...] = ()
    """What came to it from workers, the most first."""


@dataclass(frozen=True, slots=True)
class ConsumerStats:
    """A consumer of coordinated reads: it took the rounds below *taken*.

    *reader* is its newest process; *lost* says why others wait for it in vain, if they do.
    """

    index: int
    reader: int | None
    taken: int
    lost: str


@dataclass(frozen=True, slots=True)
class RoundsStats:
    """Coordinated reads: so many rounds are *released*, and taken by all below *floor*."""

    released: int
    floor: int
    last: int | None
    consumers: tuple[ConsumerStats, ...]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """A cached pass: so many elements were *made*, and *sent*, each time to one reader.

    *hit_rate* is how often each was sent. What each trainer has is in the account.
    """

    when_full: str
    made: int
    sent: int
    hit_rate: float


@dataclass(frozen=True, slots=True)
class IterationStats:
    """One pass of a job."""

    iteration: int
    job: str
    repetition: int
    dataset: str
    mode: str
    finished: bool
    restored: bool
    next_save: int
    account: Account
    faults: tuple[str, ...]
    """Where the account of a finished pass does not balance: nowhere, or a guarantee was broken."""
    tasks: tuple[TaskStats, ...]
    readers: tuple[ReaderStats, ...]
    private: bool = False
    """Whether its job has no name."""
    outline: str = ""
    """The operators of its pipeline, in words."""
    unread: float | None = None
    """For how long it has had no reader, if it runs and has none."""
    waiting_for: str = ""
    """What keeps it from going on while readers wait, in words."""
    held_by: str = ""
    """What silent readers have unacked, in words."""
    rounds: RoundsStats | None = None
    """Of coordinated reads: how far they are."""
    cache: CacheStats | None = None
    """Of a cached job: what sharing saves."""
    dead_letters: tuple[Any, ...] = ()
    """What is known of the first elements that were left out, with ``on_error="skip"``."""
    target_workers: str = ""
    """Which workers its readers read."""

    @property
    def live_readers(self) -> int:
        """How many readers read it: of a finished pass, none."""
        return 0 if self.finished else sum(r.status == "live" for r in self.readers)


@dataclass(frozen=True, slots=True)
class ForgottenStats:
    """A pass of a named job that was deleted before its end, after *acked* elements."""

    job: str
    repetition: int
    mode: str
    outline: str
    acked: int
    failed: bool


@dataclass(frozen=True, slots=True)
class RegistrationStats:
    """An id that a dataset can be read by, and the jobs with passes that do."""

    dataset_id: str
    dataset: str
    """Its fingerprint."""
    outline: str
    compression: str
    explicit: bool
    """Whether a client chose the id, and it is kept for ever."""
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OpenedPort:
    """Where TensorFlow's clients are answered without credentials, and which *datasets* they get.

    No *address* is nowhere.
    """

    address: str = ""
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DispatcherStats:
    """All that is known of the cluster at one moment. Durations are in seconds."""

    address: str
    revision: int
    datasets: int
    jobs: int
    counts: Counts
    workers: tuple[WorkerSummary, ...]
    iterations: tuple[IterationStats, ...]
    usage: Usage | None = None
    """What the dispatcher's process uses; the service adds it."""
    versions: Versions | None = None
    """What the dispatcher speaks; the service adds it."""
    forgotten: tuple[ForgottenStats, ...] = ()
    """The newest passes that were deleted before their end."""
    registrations: tuple[RegistrationStats, ...] = ()
    """The ids that datasets can be read by."""
    security: str = ""
    """What protects the dispatcher; the service adds it."""
    tensorflow: OpenedPort | None = None
    """What is answered without credentials; the service adds it."""
    http: str = ""
    """Where it answers HTTP, if it does; the service adds it."""
    ending: bool = False
    """Whether the job of its hosts is over, and it ends soon (`linger`); the service adds it."""


def collect(
    state: DispatcherState,
    soft_state: SoftState,
    counts: Counts,
    address: str,
    waits: Mapping[IterationId, str],
    rounds: Mapping[IterationId, RoundsStats],
    now: float,
) -> DispatcherStats:
    """Return all counters. *waits* says of some passes what they wait for, *rounds* how far."""
    return DispatcherStats(
        address,
        state.revision,
        len(state.datasets),
        len(state.jobs),
        counts,
        tuple(_workers(state, soft_state, now)),
        tuple(
            replace(_iteration(n, state, soft_state, waits.get(n, ""), now), rounds=rounds.get(n))
            for n in state.iterations
        ),
        forgotten=tuple(islice(_forgotten(state), FORGOTTEN_SHOWN)),
        registrations=tuple(_registrations(state)),
    )


def _registrations(state: DispatcherState) -> Iterator[RegistrationStats]:
    jobs = defaultdict[str, dict[str, None]](dict)
    for iteration in state.iterations.values():
        jobs[iteration.parameters.dataset_id][iteration.job] = None
    for dataset_id, known in state.registrations.items():
        yield RegistrationStats(
            dataset_id,
            known.dataset,
            state.datasets[known.dataset].outline,
            known.codec.value,
            known.explicit,
            tuple(jobs.get(dataset_id, ())),
        )


def _forgotten(state: DispatcherState) -> Iterator[ForgottenStats]:
    for name, job in reversed(state.jobs.items()):
        dataset, mode = state.datasets.get(job.parameters.dataset), job.parameters.mode.value
        outline = dataset.outline if dataset is not None else ""
        for repetition, was in reversed(job.unfinished.items()):
            failed = was.failure is not None
            yield ForgottenStats(name, repetition, mode, outline, was.acked, failed)


def _iteration(
    name: IterationId, state: DispatcherState, soft_state: SoftState, waiting_for: str, now: float
) -> IterationStats:
    iteration = state.iterations[name]
    balance = account.of(iteration, soft_state)
    job, dataset = state.jobs.get(iteration.job), state.datasets.get(iteration.parameters.dataset)
    idle = None if iteration.finished or iteration.live else soft_state.idle_since.get(name)
    return IterationStats(
        name,
        iteration.job,
        iteration.repetition,
        iteration.parameters.dataset,
        iteration.parameters.mode.value,
        iteration.finished,
        bool(iteration.origin),
        iteration.next_save,
        balance,
        balance.faults(),
        tuple(_tasks(iteration, soft_state)),
        tuple(_readers(iteration, soft_state, now)),
        job is not None and job.private,
        dataset.outline if dataset is not None else "",
        soft_state.silence(idle, now) if idle is not None else None,
        waiting_for,
        "" if iteration.finished else soft_state.held_by.get(name, ""),
        cache=_cache(iteration, balance),
        dead_letters=skipped_errors.dead_letters(iteration),
        target_workers=iteration.parameters.target_workers,
    )


def _cache(iteration: IterationRecord, balance: Account) -> CacheStats | None:
    if not iteration.cached:
        return None
    made, sent = balance.produced, balance.sent
    return CacheStats(iteration.parameters.when_full, made, sent, sent / made if made else 0.0)


def _workers(state: DispatcherState, soft_state: SoftState, now: float) -> list[WorkerSummary]:
    missed = Counter(
        (worker, report.incarnation)
        for liveness in soft_state.readers.values()
        for worker, report in liveness.heartbeat.unreachable.items()
    )
    return [
        WorkerSummary(
            name,
            worker.incarnation,
            soft_state.silence(liveness.last_heard, now),
            liveness.connected,
            liveness.leaving,
            tuple(worker.tasks),
            _parsed(liveness.stats),
            missed[name, worker.incarnation],
            liveness.versions,
            worker.profile.host,
            worker.profile.offered,
            worker.profile.tags,
            worker.slots,
            made_tasks.slots_used(state, soft_state, name),
        )
        for name, worker in state.workers.items()
        for liveness in [soft_state.workers[name]]
    ]


def _parsed(stats: bytes) -> Any:
    try:
        return msgspec.json.decode(stats) if stats else None
    except msgspec.DecodeError:
        return None


def _tasks(iteration: IterationRecord, soft_state: SoftState) -> list[TaskStats]:
    out = []
    for name, task in iteration.tasks.items():
        progress = soft_state.progress.get(name)
        acked = account.acked_now(name, task, soft_state)
        out.append(
            TaskStats(
                name,
                task.index,
                task.attempt,
                task.worker,
                account.head_of(task, progress, acked),
                len(acked.ranges),
                task.splits,
                task.units,
                task.done,
                str(task.failure.error()) if task.failure is not None else None,
            )
        )
    return out


def _readers(iteration: IterationRecord, soft_state: SoftState, now: float) -> list[ReaderStats]:
    out = []
    for name, reader in iteration.readers.items():
        liveness = soft_state.readers.get(name)
        silence = soft_state.silence(liveness.last_heard, now) if liveness is not None else None
        consumed = max(reader.consumed, liveness.heartbeat.consumed if liveness is not None else 0)
        status, process = reader.status.value, reader.process
        known = ReaderStats(name, status, silence, consumed, process, reader.trainer)
        if liveness is not None:
            told = liveness.heartbeat
            by = dict(told.transports)
            known = replace(known, transports=by, loop=told.loop, links=told.links)
        out.append(known)
    return out
