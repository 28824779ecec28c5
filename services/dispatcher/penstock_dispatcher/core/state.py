"""The durable state: facts are applied to it, and nothing else changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from penstock.engine import seeds
from penstock.protocol.ranges import RangeSet
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import (
    Checkpoint,
    DatasetId,
    IterationId,
    Mode,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_dispatcher.core import datasets, recordings, task_state
from penstock_dispatcher.core.datasets import DatasetFact, DatasetRecord, RegistrationRecord
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    AttemptStarted,
    CacheFact,
    CheckpointSaved,
    ConsumerEnded,
    ConsumerJoined,
    ConsumptionReported,
    ErrorsSkipped,
    Fact,
    HistoryStarted,
    InDoubtResolved,
    IterationDeleted,
    IterationFinished,
    IterationOpened,
    IterationRestored,
    JobCreated,
    JobFact,
    PeerFact,
    ReaderJoined,
    ReaderRemoved,
    RoundsAdvanced,
    SaveCompleted,
    SplitsGranted,
    TaskCounted,
    TaskCreated,
    TaskDone,
    TaskFact,
    TaskFailed,
    WeightsChanged,
    WorkerLost,
    WorkerRegistered,
)
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.recordings import RecordingFact, RecordingRecord
from penstock_dispatcher.core.records import (
    IterationRecord,
    JobRecord,
    ReaderRecord,
    TaskRecord,
    WorkerRecord,
    totals,
)
from penstock_dispatcher.core.rounds_record import RoundsAccount
from penstock_dispatcher.core.split_provider import SplitProvider

JOBS_KEPT = 10_000
"""The most jobs without iterations that are remembered, the newest: about 1 KiB each."""

FAILURES_KEPT = 4
"""The most results of saves that an iteration keeps. All readers got the results before a success.
"""

SUPERSEDED_KEPT = 1000
"""The most iterations for which late readers are told why they are gone."""


@dataclass(slots=True)
class DispatcherState:
    """All that lasts. *length* is how many facts went in."""

    history: int = 0
    length: int = 0
    next_id: int = 1
    """Iterations, tasks and readers share one row of ids: none is ever used twice."""
    datasets: dict[DatasetId, DatasetRecord] = field(default_factory=dict)
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    iterations: dict[IterationId, IterationRecord] = field(default_factory=dict)
    owners: dict[TaskId, IterationId] = field(default_factory=dict)
    """The iteration of each task."""
    workers: dict[WorkerId, WorkerRecord] = field(default_factory=dict)
    entries: dict[int, WorkerId] = field(default_factory=dict)
    """The newest worker of each place in the list of workers, also when that is gone."""
    superseded: dict[IterationId, str] = field(default_factory=dict)
    """Iterations in whose place a saved state was restored, and their jobs."""
    registrations: dict[str, RegistrationRecord] = field(default_factory=dict)
    """The ids that datasets can be read by."""
    recordings: dict[str, RecordingRecord] = field(default_factory=dict)
    """The saves that workers host or hosted, by id; the last one changed last."""

    @property
    def revision(self) -> int:
        """The revision of this state, comparable between histories."""
        return self.history * 1000 + self.length

    def task(self, name: TaskId) -> TaskRecord | None:
        """Return the task *name*, unless it is over and forgotten."""
        owner = self.owners.get(name)
        return None if owner is None else self.iterations[owner].tasks[name]

    @property
    def listings_used(self) -> set[str]:
        """The digests of the listings that passes refer to."""
        providers = (provider for one in self.iterations.values() for provider in one.providers)
        return {provider.listing.digest for provider in providers if provider.listing is not None}

    def provider_over(self, listing: ListingOutline) -> SplitProvider | None:
        """Return a source of a running pass over the files of *listing*, if there is one."""
        found = (provider for one in self.iterations.values() for provider in one.providers)
        same = (s for s in found if s.listing is not None and s.listing.digest == listing.digest)
        return next((s for s in same if s.known.names is not None), None)

    def apply(self, fact: Fact) -> None:
        """Let *fact* be true."""
        self.length += 1
        if isinstance(fact, TaskFact):
            self._apply_to_task(fact)
        elif isinstance(fact, PeerFact):
            self._apply_to_peers(fact)
        elif isinstance(fact, CacheFact):
            task_state.apply_cache(self.iterations[self.owners[fact.task]].tasks[fact.task], fact)
        elif isinstance(fact, DatasetFact):
            datasets.apply(self.datasets, self.registrations, fact)
        elif isinstance(fact, RecordingFact):
            recordings.apply(self.recordings, fact)
        elif isinstance(fact, ErrorsSkipped):
            self.iterations[self.owners[fact.task]].tasks[fact.task].add_errors(fact)
        else:
            self._apply_to_jobs(fact)

    def _apply_to_jobs(self, fact: JobFact) -> None:
        match fact:
            case HistoryStarted(birth):
                self.history, self.next_id = birth, birth + 1
            case JobCreated(job, parameters, seed, private):
                self.jobs[job] = JobRecord(parameters, seed, private)
            case IterationOpened():
                self._opened(fact)
            case IterationRestored():
                self._restored(fact)
            case SaveCompleted(iteration, result):
                record = self.iterations[iteration]
                before = [] if result.state else record.save_results
                record.save_results = [*before, result][-FAILURES_KEPT:]
                record.next_save = result.number + 1
            case IterationFinished():
                self._finished(fact)
            case IterationDeleted():
                self._forgotten(fact)
            case WeightsChanged(job, iteration):
                reads = None if iteration is None else self.iterations[iteration]
                task_state.reweigh(self.jobs[job], reads, fact)
            case _:
                assert_never(fact)

    def _apply_to_peers(self, fact: PeerFact) -> None:
        match fact:
            case WorkerRegistered(worker, incarnation, entry, profile):
                self.workers[worker] = WorkerRecord(incarnation, entry=entry, profile=profile)
                if entry is not None:
                    self.entries[entry] = worker
            case WorkerLost():
                self._lost(fact)
            case ReaderJoined(iteration, reader, session, process, trainer):
                made = ReaderRecord(session, process=process, trainer=trainer)
                self.iterations[iteration].readers[reader] = made
                self.iterations[iteration].sessions[session] = reader
                self.iterations[iteration].unreplaced -= self.iterations[iteration].unreplaced > 0
                self._used(reader)
            case ReaderRemoved():
                self._removed(fact)
            case ConsumerJoined() | ConsumerEnded() | RoundsAdvanced():
                task_state.apply_rounds(self.iterations[fact.iteration], fact)
            case ConsumptionReported():
                self._reported(self.iterations[fact.iteration], fact)
            case _:
                assert_never(fact)

    def _apply_to_task(self, fact: TaskFact) -> None:
        if isinstance(fact, TaskCreated):
            self._created(fact)
            return
        iteration = self.iterations[self.owners[fact.task]]
        task = iteration.tasks[fact.task]
        match fact:
            case AttemptStarted():
                self._started(iteration, task, fact)
            case AttemptEnded(_, totals):
                self._release(fact.task, task)
                task_state.attempt_over(iteration, task)
                task.add_attempt(totals)
            case InDoubtResolved():
                task_state.resolve(iteration, task, fact)
            case SplitsGranted(_, provider, splits):
                iteration.providers[provider].grant(splits)
                task_state.grant(task, provider, splits)
            case CheckpointSaved(_, state):
                task_state.save(task, state)
            case TaskCounted(_, total):
                iteration.count(total)
            case TaskDone():
                self._done(iteration, task, fact)
            case TaskFailed(_, failure):
                task.failure = failure
            case _:
                assert_never(fact)

    def _done(self, iteration: IterationRecord, task: TaskRecord, fact: TaskDone) -> None:
        self._release(fact.task, task)
        task.add_attempt(fact.totals)
        task.done, task.logs, task.acked, task.failure = True, (), task.acked | fact.acked, None
        task.checkpoint, task.unacked, task.expired_holders = Checkpoint(), {}, {}
        if iteration.rounds is not None:
            task_state.finish_rounds(iteration, fact.task, fact.acked)
        if iteration.ordered:
            task_state.settle(iteration, fact.task)
            del self.owners[fact.task]

    def _used(self, number: int) -> None:
        self.next_id = max(self.next_id, number + 1)

    def _opened(self, fact: IterationOpened) -> None:
        job = self.jobs[fact.job]
        providers = self._sources(job, fact.seed, fact.listings)
        task_state.begin_weights(job, providers)
        made = IterationRecord(fact.job, fact.repetition, fact.seed, job.parameters, providers)
        self._add(fact, made, job)

    def _restored(self, fact: IterationRestored) -> None:
        job = self.jobs[fact.job]
        listings = {i: at.listing for i, at in enumerate(fact.providers)}
        providers = self._sources(job, fact.seed, listings) if fact.providers else []
        for provider, was in zip(providers, fact.providers, strict=True):
            provider.pass_number, provider.offset = was.pass_number, was.offset
            provider.reweigh(was.changes)
        iteration = IterationRecord(
            fact.job,
            fact.repetition,
            fact.seed,
            job.parameters,
            providers,
            fact.next_task,
            fact.origin,
        )
        iteration.before = fact.before
        job.seed, job.weights = fact.job_seed, dict(fact.weights)
        if fact.rounds is not None:
            task_state.restore_rounds(job, iteration, fact.rounds)
        if fact.stride is not None:
            job.parameters = replace(job.parameters, stride=fact.stride.consumers)
            iteration.parameters = job.parameters
            iteration.counted = fact.stride.tasks, fact.stride.elements
        job.finished = job.finished & RangeSet.of((0, fact.repetition))
        kept = {n: one for n, one in job.unfinished.items() if n < fact.repetition}
        job.unfinished = kept
        self._add(fact, iteration, job)
        for at in fact.tasks:
            iteration.tasks[at.task] = TaskRecord(
                fact.iteration,
                at.index,
                at.logs,
                at.ended,
                checkpoint=at.checkpoint,
                acked=at.acked,
                place=at.place,
            )
            if iteration.rounds is not None:
                iteration.rounds.add_task(at.task, at.index, at.acked.floor)
            self.owners[at.task] = fact.iteration
            self._used(at.task)

    def _sources(
        self, job: JobRecord, seed: int, listings: Mapping[int, ListingOutline | None]
    ) -> list[SplitProvider]:
        providers = self.datasets[job.parameters.dataset].providers
        return [
            SplitProvider.of(spec, listings.get(i), seeds.derive(seed, "files", i))
            for i, spec in enumerate(providers if job.parameters.mode is Mode.DYNAMIC else ())
        ]

    def _add(
        self, fact: IterationOpened | IterationRestored, made: IterationRecord, job: JobRecord
    ) -> None:
        if made.rounds is None:
            made.rounds = task_state.rounds_of(made.parameters)
        self.iterations[fact.iteration] = made
        job.open[fact.repetition] = fact.iteration
        self._used(fact.iteration)

    def _finished(self, fact: IterationFinished) -> None:
        iteration = self.iterations[fact.iteration]
        for reader, consumed in fact.consumed.items():
            known = iteration.readers[reader]
            known.consumed = max(known.consumed, consumed)
        for task in iteration.tasks.values():
            for reader in task.expired_holders:  # of a cached task, whose worker is lost
                iteration.add_in_doubt((reader,), None)
        iteration.before, iteration.in_doubt = totals(iteration), []
        self._drop_tasks(iteration)
        iteration.finished = True
        job = self.jobs[iteration.job]
        job.finished = job.finished | RangeSet.of((iteration.repetition, iteration.repetition + 1))

    def _forgotten(self, fact: IterationDeleted) -> None:
        iteration = self.iterations.pop(fact.iteration)
        self._drop_tasks(iteration)
        job = self.jobs.pop(iteration.job)
        del job.open[iteration.repetition]
        if fact.unfinished is not None:
            job.unfinished[iteration.repetition] = fact.unfinished
        if fact.superseded:
            self.superseded[fact.iteration] = iteration.job
            if len(self.superseded) > SUPERSEDED_KEPT:
                del self.superseded[next(iter(self.superseded))]
        if job.private and not job.open:
            return
        self.jobs[iteration.job] = job  # the newest line is the last
        if len(self.jobs) > JOBS_KEPT:
            oldest = next((name for name, job in self.jobs.items() if not job.open), None)
            if oldest is not None:
                del self.jobs[oldest]

    def _drop_tasks(self, iteration: IterationRecord) -> None:
        for name, task in iteration.tasks.items():
            self._release(name, task)
            del self.owners[name]
        iteration.tasks, iteration.providers = {}, []
        if iteration.rounds is not None:
            iteration.rounds.tasks, iteration.rounds.log = {}, []
            iteration.rounds.account = RoundsAccount()  # it is in what came before

    def _lost(self, fact: WorkerLost) -> None:
        recordings.lose(self.recordings, fact.worker)
        for name in self.workers.pop(fact.worker).tasks:
            iteration = self.iterations[self.owners[name]]
            task = iteration.tasks[name]
            task.worker = None
            task_state.attempt_over(iteration, task)
            if name in fact.totals:
                task.add_attempt(fact.totals[name])

    def _created(self, fact: TaskCreated) -> None:
        iteration = self.iterations[fact.iteration]
        count = len(iteration.providers)
        iteration.tasks[fact.task] = TaskRecord(
            fact.iteration, fact.index, (SplitLog(),) * count, (0,) * count
        )
        iteration.next_task = max(iteration.next_task, fact.index + 1)
        if fact.index == iteration.counted[0]:
            iteration.tasks[fact.task].place = iteration.counted[1]
        if iteration.rounds is not None:
            iteration.rounds.add_task(fact.task, fact.index)
        self.owners[fact.task] = fact.iteration
        self._used(fact.task)

    def _started(self, iteration: IterationRecord, task: TaskRecord, fact: AttemptStarted) -> None:
        for reader in fact.unknown:
            iteration.add_in_doubt((reader,), None)
        task.attempt, task.worker, task.ran_on = fact.attempt, fact.worker, fact.worker
        task.acked, task.unacked = task.acked | fact.acked, dict(fact.unacked)
        task.expired_holders, task.in_doubt = {}, 0
        task_state.report(task, fact.trainers)
        self.workers[fact.worker].tasks[fact.task] = None

    def _release(self, name: TaskId, task: TaskRecord) -> None:
        if task.worker is not None:
            self.workers[task.worker].tasks.pop(name, None)
            task.worker = None

    def _reported(self, iteration: IterationRecord, fact: ConsumptionReported) -> None:
        known = iteration.readers[fact.reader]
        known.consumed, known.final = max(known.consumed, fact.consumed), fact.last
        if iteration.rounds is not None:
            iteration.rounds.correct(known.session, fact.taken)

    def _removed(self, fact: ReaderRemoved) -> None:
        iteration = self.iterations[fact.iteration]
        reader = iteration.readers[fact.reader]
        reader.status, reader.last_heard = fact.status, fact.last_heard
        reader.consumed = max(reader.consumed, fact.consumed)
        reader.final = reader.final or fact.status is ReaderStatus.LEFT
        iteration.unreplaced += fact.status is ReaderStatus.EXPIRED
        if iteration.rounds is not None:
            iteration.rounds.remove(fact.reader, fact.taken)
            return
        task_state.remove_reader(iteration, reader.trainer, fact, self.revision)
        iteration.add_in_doubt((fact.reader,), sum(map(len, fact.in_doubt.values())))
