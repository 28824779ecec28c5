"""The books: all that lasts. Facts go in, and nothing else changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from penstock.engine import seeds
from penstock.messages import Mode
from penstock.numbers import (
    NOTHING,
    DatasetId,
    EngineState,
    IterationId,
    Runs,
    Split,
    SplitLog,
    Standing,
    Taken,
    TaskId,
    WorkerId,
)
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Begun,
    DatasetRegistered,
    Fact,
    Finished,
    IterationForgotten,
    IterationOpened,
    IterationRestored,
    JobFact,
    JobMade,
    PeerFact,
    ReaderJoined,
    ReaderParted,
    ReaderTold,
    SaveJudged,
    Settled,
    SplitsGranted,
    StateSaved,
    TaskDone,
    TaskFact,
    TaskFailed,
    TaskMade,
    WorkerLost,
    WorkerSeen,
)
from penstock_dispatcher.core.listings import Outline
from penstock_dispatcher.core.records import (
    Dataset,
    Iteration,
    Job,
    Reader,
    Task,
    Worker,
    totals,
)
from penstock_dispatcher.core.sources import Source

JOBS_KEPT = 100_000
"""Of a job without iterations one line stays, of the newest so many."""

FAILURES_KEPT = 4
"""So many of an iteration's newest verdicts are kept. The one before a save that succeeded is not:
all readers were at that save, and had heard it."""

SUPERSEDED_KEPT = 1000
"""Of so many iterations the reason why they are gone is known to readers that come late."""


@dataclass(slots=True)
class Books:
    """All that lasts. *length* is how many facts went in."""

    birth: int = 0
    length: int = 0
    next_id: int = 1
    """Iterations, tasks and readers share one row of ids: none is ever used twice."""
    datasets: dict[DatasetId, Dataset] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    iterations: dict[IterationId, Iteration] = field(default_factory=dict)
    owners: dict[TaskId, IterationId] = field(default_factory=dict)
    """Whose each task is."""
    workers: dict[WorkerId, Worker] = field(default_factory=dict)
    superseded: dict[IterationId, str] = field(default_factory=dict)
    """Iterations in whose place a saved state was restored, and their jobs."""

    @property
    def as_of(self) -> int:
        """The date of these books, in this and all other histories."""
        return self.birth * 1000 + self.length

    def task(self, name: TaskId) -> Task | None:
        """Return the task *name*, unless it is over and forgotten."""
        owner = self.owners.get(name)
        return None if owner is None else self.iterations[owner].tasks[name]

    @property
    def datasets_used(self) -> set[DatasetId]:
        """The datasets that jobs refer to."""
        used = {job.parameters.dataset for job in self.jobs.values()}
        return used.union(one.parameters.dataset for one in self.iterations.values())

    @property
    def listings_used(self) -> set[str]:
        """The digests of the listings that passes refer to."""
        sources = (source for one in self.iterations.values() for source in one.sources)
        return {source.listing.digest for source in sources if source.listing is not None}

    def source_over(self, listing: Outline) -> Source | None:
        """Return a source of a pass that goes on over the files of *listing*, if there is one."""
        found = (source for one in self.iterations.values() for source in one.sources)
        same = (s for s in found if s.listing is not None and s.listing.digest == listing.digest)
        return next((s for s in same if s.known.names is not None), None)

    def apply(self, fact: Fact) -> None:
        """Let *fact* be true."""
        self.length += 1
        if isinstance(fact, TaskFact):
            self._apply_to_task(fact)
        elif isinstance(fact, PeerFact):
            self._apply_to_peers(fact)
        else:
            self._apply_to_jobs(fact)

    def _apply_to_jobs(self, fact: JobFact) -> None:
        match fact:
            case Begun(birth):
                self.birth, self.next_id = birth, birth + 1
            case DatasetRegistered(dataset, streams, unsplittable, inexact, outline, python):
                known = self.datasets.get(dataset)
                pythons = {*(known.pythons if known is not None else ()), python} - {""}
                about = (streams, unsplittable, inexact, outline, tuple(sorted(pythons)))
                self.datasets[dataset] = Dataset(*about)
            case JobMade(job, parameters, seed, private):
                self.jobs[job] = Job(parameters, seed, private)
            case IterationOpened():
                self._opened(fact)
            case IterationRestored():
                self._restored(fact)
            case SaveJudged(iteration, verdict):
                judged = self.iterations[iteration]
                before = [] if verdict.state else judged.verdicts
                judged.verdicts = [*before, verdict][-FAILURES_KEPT:]
                judged.saves = verdict.number + 1
            case Finished():
                self._finished(fact)
            case IterationForgotten():
                self._forgotten(fact)
            case _:
                assert_never(fact)

    def _apply_to_peers(self, fact: PeerFact) -> None:
        match fact:
            case WorkerSeen(worker, incarnation):
                self.workers[worker] = Worker(incarnation)
            case WorkerLost():
                self._lost(fact)
            case ReaderJoined(iteration, reader, token, process):
                self.iterations[iteration].readers[reader] = Reader(token, process=process)
                self.iterations[iteration].tokens[token] = reader
                self._used(reader)
            case ReaderParted():
                self._parted(fact)
            case ReaderTold(iteration, reader, handed, last):
                known = self.iterations[iteration].readers[reader]
                known.handed, known.told = max(known.handed, handed), last
            case _:
                assert_never(fact)

    def _apply_to_task(self, fact: TaskFact) -> None:
        if isinstance(fact, TaskMade):
            self._made(fact)
            return
        iteration = self.iterations[self.owners[fact.task]]
        task = iteration.tasks[fact.task]
        match fact:
            case AttemptStarted():
                self._started(iteration, task, fact)
            case AttemptEnded(_, spent):
                self._release(fact.task, task)
                task.over(spent)
            case Settled():
                _settled(iteration, task, fact)
            case SplitsGranted(_, stream, splits):
                iteration.sources[stream].grant(splits)
                _granted(task, stream, splits)
            case StateSaved(_, state):
                _saved(task, state)
            case TaskDone(_, taken, spent):
                self._release(fact.task, task)
                task.over(spent)
                task.done, task.logs, task.taken, task.failure = True, (), task.taken | taken, None
                task.state, task.held, task.suspects = EngineState(), {}, {}
            case TaskFailed(_, failure):
                task.failure = failure
            case _:
                assert_never(fact)

    def _used(self, number: int) -> None:
        self.next_id = max(self.next_id, number + 1)

    def _opened(self, fact: IterationOpened) -> None:
        job = self.jobs[fact.job]
        sources = self._sources(job, fact.seed, fact.listings)
        self._add(
            fact, Iteration(fact.job, fact.repetition, fact.seed, job.parameters, sources), job
        )

    def _restored(self, fact: IterationRestored) -> None:
        job = self.jobs[fact.job]
        listings = {i: at.listing for i, at in enumerate(fact.sources)}
        sources = self._sources(job, fact.seed, listings) if fact.sources else []
        for source, was in zip(sources, fact.sources, strict=True):
            source.turn, source.offset = was.turn, was.offset
        iteration = Iteration(
            fact.job, fact.repetition, fact.seed, job.parameters, sources, fact.made, fact.origin
        )
        iteration.before = fact.before
        job.seed = fact.job_seed
        job.finished = job.finished & Runs.of((0, fact.repetition))
        kept = {n: one for n, one in job.unfinished.items() if n < fact.repetition}
        job.unfinished = kept
        self._add(fact, iteration, job)
        for at in fact.tasks:
            iteration.tasks[at.task] = Task(
                fact.iteration, at.index, at.logs, at.ended, state=at.state, taken=at.taken
            )
            self.owners[at.task] = fact.iteration
            self._used(at.task)

    def _sources(self, job: Job, seed: int, listings: Mapping[int, Outline | None]) -> list[Source]:
        streams = self.datasets[job.parameters.dataset].streams
        return [
            Source.of(stream, listings.get(i), seeds.derive(seed, "files", i))
            for i, stream in enumerate(streams if job.parameters.mode is Mode.DYNAMIC else ())
        ]

    def _add(self, fact: IterationOpened | IterationRestored, made: Iteration, job: Job) -> None:
        self.iterations[fact.iteration] = made
        job.open[fact.repetition] = fact.iteration
        self._used(fact.iteration)

    def _finished(self, fact: Finished) -> None:
        iteration = self.iterations[fact.iteration]
        for reader, handed in fact.handed.items():
            iteration.readers[reader].handed = handed
        iteration.before, iteration.doubts = totals(iteration), []
        self._drop_tasks(iteration)
        iteration.finished = True
        job = self.jobs[iteration.job]
        job.finished = job.finished | Runs.of((iteration.repetition, iteration.repetition + 1))

    def _forgotten(self, fact: IterationForgotten) -> None:
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

    def _drop_tasks(self, iteration: Iteration) -> None:
        for name, task in iteration.tasks.items():
            self._release(name, task)
            del self.owners[name]
        iteration.tasks, iteration.sources = {}, []

    def _lost(self, fact: WorkerLost) -> None:
        for name in self.workers.pop(fact.worker).tasks:
            task = self.iterations[self.owners[name]].tasks[name]
            task.worker = None
            if name in fact.spent:
                task.over(fact.spent[name])

    def _made(self, fact: TaskMade) -> None:
        iteration = self.iterations[fact.iteration]
        count = len(iteration.sources)
        iteration.tasks[fact.task] = Task(
            fact.iteration, fact.index, (SplitLog(),) * count, (0,) * count
        )
        iteration.made = max(iteration.made, fact.index + 1)
        self.owners[fact.task] = fact.iteration
        self._used(fact.task)

    def _started(self, iteration: Iteration, task: Task, fact: AttemptStarted) -> None:
        for reader in fact.unknown:
            iteration.doubt((reader,), None)
        task.attempt, task.worker, task.ran_on = fact.attempt, fact.worker, fact.worker
        task.taken, task.held = task.taken | fact.taken, dict(fact.held)
        task.suspects, task.doubted = {}, 0
        self.workers[fact.worker].tasks[fact.task] = None

    def _release(self, name: TaskId, task: Task) -> None:
        if task.worker is not None:
            self.workers[task.worker].tasks.pop(name, None)
            task.worker = None

    def _parted(self, fact: ReaderParted) -> None:
        iteration = self.iterations[fact.iteration]
        reader = iteration.readers[fact.reader]
        reader.standing, reader.heard = fact.standing, fact.heard
        reader.handed = max(reader.handed, fact.handed)
        reader.told = fact.standing is Standing.LEFT
        for name, task in iteration.tasks.items():
            if task.done:
                continue
            task.taken = task.taken | fact.taken.get(name, NOTHING)
            if fact.standing is Standing.GONE and task.attempt and name not in fact.doubted:
                task.suspects[fact.reader] = self.as_of
        iteration.doubt((fact.reader,), sum(map(len, fact.doubted.values())))


def _settled(iteration: Iteration, task: Task, fact: Settled) -> None:
    for reader in fact.readers:
        task.suspects.pop(reader, None)
    task.doubted += fact.doubted
    task.taken = task.taken | fact.taken
    iteration.doubt(fact.readers, fact.doubted)


def _granted(task: Task, stream: int, splits: tuple[Split, ...]) -> None:
    logs, ended = list(task.logs), list(task.ended)
    logs[stream] = logs[stream].plus(splits)
    ended[stream] += sum(not split for split in splits)
    task.logs, task.ended = tuple(logs), tuple(ended)
    task.splits += sum(map(bool, splits))
    task.units += sum(map(len, splits))


def _saved(task: Task, state: EngineState) -> None:
    task.state, task.taken = state, task.taken | Taken(state.number)
    places = (*state.positions, *(0 for _ in task.logs[len(state.positions) :]))
    task.logs = tuple(log.forget(at) for log, at in zip(task.logs, places, strict=False))
