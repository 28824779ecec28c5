"""The books: all that lasts. Facts go in, and nothing else changes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from penstock.engine import seeds
from penstock.messages import Failure, Mode
from penstock.numbers import (
    NO_RUNS,
    NOTHING,
    DatasetId,
    EngineState,
    IterationId,
    ReaderId,
    Runs,
    Split,
    SplitLog,
    Standing,
    Taken,
    TaskId,
    WorkerId,
)
from penstock.sharding import Stream
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    AttemptStarted,
    Begun,
    DatasetRegistered,
    Fact,
    Finished,
    IterationForgotten,
    IterationOpened,
    JobFact,
    JobMade,
    JobParameters,
    PeerFact,
    ReaderJoined,
    ReaderParted,
    Settled,
    SplitsGranted,
    StateSaved,
    TaskDone,
    TaskFact,
    TaskFailed,
    TaskLost,
    TaskMade,
    WorkerLost,
    WorkerSeen,
)
from penstock_dispatcher.core.sources import Source

BEGINNING = EngineState()

JOBS_KEPT = 100_000
"""Of a job without iterations one line stays, of the newest so many."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A registered pipeline: what can be said of it without its functions."""

    streams: tuple[Stream, ...]
    unsplittable: str


@dataclass(slots=True)
class Job:
    """A named use of a dataset, and which of its repetitions are open or finished."""

    parameters: JobParameters
    seed: int
    private: bool
    open: dict[int, IterationId] = field(default_factory=dict)
    finished: Runs = NO_RUNS


@dataclass(slots=True)
class Reader:
    """A reader of an iteration."""

    token: str
    standing: Standing = Standing.LIVE


@dataclass(slots=True)
class Task:
    """One numbered stream of elements. It has a worker while an attempt of it runs."""

    iteration: IterationId
    index: int
    logs: tuple[SplitLog, ...]
    ended: tuple[int, ...]
    """How many passes end in each log."""
    splits: int = 0
    units: int = 0
    state: EngineState = BEGINNING
    taken: Taken = NOTHING
    attempt: int = 0
    worker: WorkerId | None = None
    ran_on: WorkerId | None = None
    """The worker of the newest attempt, also when that is over."""
    held: dict[ReaderId, Runs] = field(default_factory=dict)
    done: bool = False
    failure: Failure | None = None
    lost: WorkerId | None = None
    suspect: int = 0
    """When a reader was given up that this attempt's worker may know more about; 0 is never."""

    @property
    def open(self) -> bool:
        """Whether something may still come of it."""
        return not (self.done or self.failure is not None or self.lost is not None)


@dataclass(slots=True)
class Iteration:
    """One pass of a job. Once finished it is a line: no tasks, no sources."""

    job: str
    repetition: int
    seed: int
    parameters: JobParameters
    sources: list[Source]
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    readers: dict[ReaderId, Reader] = field(default_factory=dict)
    tokens: dict[str, ReaderId] = field(default_factory=dict)
    finished: bool = False

    @property
    def live(self) -> list[ReaderId]:
        """The readers that must be asked."""
        return [name for name, r in self.readers.items() if r.standing is Standing.LIVE]

    @property
    def broken(self) -> bool:
        """Whether it can never finish: a task failed or was lost."""
        return any(t.failure is not None or t.lost is not None for t in self.tasks.values())

    @property
    def dynamic(self) -> bool:
        """Whether tasks draw splits."""
        return self.parameters.mode is Mode.DYNAMIC


@dataclass(slots=True)
class Worker:
    """A live worker, and the tasks that it shall run."""

    incarnation: int
    tasks: dict[TaskId, None] = field(default_factory=dict)


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
    tasks: dict[TaskId, Task] = field(default_factory=dict)
    workers: dict[WorkerId, Worker] = field(default_factory=dict)

    @property
    def as_of(self) -> int:
        """The date of these books, in this and all other histories."""
        return self.birth * 1000 + self.length

    def apply(self, fact: Fact) -> None:
        """Let *fact* be true."""
        self.length += 1
        if isinstance(fact, JobFact):
            self._apply_to_jobs(fact)
        elif isinstance(fact, PeerFact):
            self._apply_to_peers(fact)
        else:
            self._apply_to_task(fact)

    def _apply_to_jobs(self, fact: JobFact) -> None:
        match fact:
            case Begun(birth):
                self.birth, self.next_id = birth, birth + 1
            case DatasetRegistered(dataset, streams, unsplittable):
                self.datasets[dataset] = Dataset(streams, unsplittable)
            case JobMade(job, parameters, seed, private):
                self.jobs[job] = Job(parameters, seed, private)
            case IterationOpened():
                self._opened(fact)
            case Finished(iteration):
                self._finished(self.iterations[iteration])
            case IterationForgotten(iteration):
                self._forgotten(iteration)
            case _:
                assert_never(fact)

    def _apply_to_peers(self, fact: PeerFact) -> None:
        match fact:
            case WorkerSeen(worker, incarnation):
                self.workers[worker] = Worker(incarnation)
            case WorkerLost(worker):
                for task in self.workers.pop(worker).tasks:
                    self.tasks[task].worker = None
            case ReaderJoined(iteration, reader, token):
                self.iterations[iteration].readers[reader] = Reader(token)
                self.iterations[iteration].tokens[token] = reader
                self._used(reader)
            case ReaderParted():
                self._parted(fact)
            case _:
                assert_never(fact)

    def _apply_to_task(self, fact: TaskFact) -> None:
        if isinstance(fact, TaskMade):
            self._made(fact)
            return
        task = self.tasks[fact.task]
        match fact:
            case AttemptStarted():
                self._started(task, fact)
            case AttemptEnded():
                self._release(fact.task)
            case Settled():
                task.suspect = 0
            case SplitsGranted(_, stream, splits):
                self._granted(task, stream, splits)
            case StateSaved(_, state):
                _saved(task, state)
            case TaskDone():
                self._release(fact.task)
                task.done, task.logs = True, ()
            case TaskFailed(_, failure):
                task.failure = failure
            case TaskLost(_, worker):
                task.lost = worker
            case _:
                assert_never(fact)

    def _used(self, number: int) -> None:
        self.next_id = max(self.next_id, number + 1)

    def _opened(self, fact: IterationOpened) -> None:
        job = self.jobs[fact.job]
        streams = self.datasets[job.parameters.dataset].streams
        dynamic = job.parameters.mode is Mode.DYNAMIC
        sources = [
            Source.of(stream, fact.names.get(i, ()), seeds.derive(fact.seed, "files", i))
            for i, stream in enumerate(streams if dynamic else ())
        ]
        self.iterations[fact.iteration] = Iteration(
            fact.job, fact.repetition, fact.seed, job.parameters, sources
        )
        job.open[fact.repetition] = fact.iteration
        self._used(fact.iteration)

    def _finished(self, iteration: Iteration) -> None:
        self._drop_tasks(iteration)
        iteration.finished = True
        job = self.jobs[iteration.job]
        job.finished = job.finished | Runs.of((iteration.repetition, iteration.repetition + 1))

    def _forgotten(self, name: IterationId) -> None:
        iteration = self.iterations.pop(name)
        self._drop_tasks(iteration)
        job = self.jobs.pop(iteration.job)
        del job.open[iteration.repetition]
        if job.private and not job.open:
            return
        self.jobs[iteration.job] = job  # the newest line is the last
        if len(self.jobs) > JOBS_KEPT:
            oldest = next((name for name, job in self.jobs.items() if not job.open), None)
            if oldest is not None:
                del self.jobs[oldest]

    def _drop_tasks(self, iteration: Iteration) -> None:
        for task in iteration.tasks:
            self._release(task)
            del self.tasks[task]
        iteration.tasks, iteration.sources = {}, []

    def _made(self, fact: TaskMade) -> None:
        iteration = self.iterations[fact.iteration]
        count = len(iteration.sources)
        task = Task(fact.iteration, fact.index, (SplitLog(),) * count, (0,) * count)
        self.tasks[fact.task] = iteration.tasks[fact.task] = task
        self._used(fact.task)

    def _started(self, task: Task, fact: AttemptStarted) -> None:
        task.attempt, task.worker, task.ran_on = fact.attempt, fact.worker, fact.worker
        task.taken, task.held, task.suspect = task.taken | fact.taken, dict(fact.held), 0
        self.workers[fact.worker].tasks[fact.task] = None

    def _release(self, name: TaskId) -> None:
        task = self.tasks[name]
        if task.worker is not None:
            self.workers[task.worker].tasks.pop(name, None)
            task.worker = None

    def _granted(self, task: Task, stream: int, splits: tuple[Split, ...]) -> None:
        self.iterations[task.iteration].sources[stream].grant(splits)
        logs, ended = list(task.logs), list(task.ended)
        logs[stream] = logs[stream].plus(splits)
        ended[stream] += sum(not split for split in splits)
        task.logs, task.ended = tuple(logs), tuple(ended)
        task.splits += sum(map(bool, splits))
        task.units += sum(map(len, splits))

    def _parted(self, fact: ReaderParted) -> None:
        iteration = self.iterations[fact.iteration]
        iteration.readers[fact.reader].standing = fact.standing
        for name, task in iteration.tasks.items():
            if not task.done:
                task.taken = task.taken | fact.taken.get(name, NOTHING)
                if fact.standing is Standing.GONE:
                    task.suspect = self.as_of


def _saved(task: Task, state: EngineState) -> None:
    task.state, task.taken = state, task.taken | Taken(state.number)
    places = (*state.positions, *(0 for _ in task.logs[len(state.positions) :]))
    task.logs = tuple(log.forget(at) for log, at in zip(task.logs, places, strict=False))
