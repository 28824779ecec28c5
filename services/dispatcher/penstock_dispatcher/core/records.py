"""The records of the durable state: a record a dataset, job, iteration, task, reader and worker."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from operator import attrgetter

from penstock.protocol.calls import JobParameters
from penstock.protocol.control import ElementCounts, SaveResult, SkippedErrors
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.measures import merged
from penstock.protocol.names import printable
from penstock.protocol.nearness import UNKNOWN_WORKER, WorkerProfile
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import (
    AT_START,
    Checkpoint,
    Failure,
    IterationId,
    Mode,
    ReaderId,
    ReaderStatus,
    TaskId,
    WorkerId,
)
from penstock_dispatcher.core.cache_record import TrainerRecord, acked_by_any, sum_up
from penstock_dispatcher.core.fact_values import (
    AccountTotals,
    AttemptTotals,
    InDoubt,
    Unfinished,
    WeightChange,
)
from penstock_dispatcher.core.facts import ErrorsSkipped
from penstock_dispatcher.core.rounds_record import RoundsRecord
from penstock_dispatcher.core.split_provider import SplitProvider


@dataclass(slots=True)
class JobRecord:
    """A named use of a dataset, and which of its repetitions are open or finished."""

    parameters: JobParameters
    seed: int
    private: bool
    open: dict[int, IterationId] = field(default_factory=dict)
    finished: RangeSet = NO_RANGES
    unfinished: dict[int, Unfinished] = field(default_factory=dict)
    """The repetitions that were deleted before their end, after some of it was acked."""
    weights: dict[int, tuple[WeightChange, ...]] = field(default_factory=dict)
    """The changes of weights with which the next pass begins, by split provider."""


@dataclass(slots=True)
class ReaderRecord:
    """A reader of an iteration."""

    session: str
    status: ReaderStatus = ReaderStatus.LIVE
    consumed: int = 0
    """How many elements its loop got, under whatever id, as far as that is written down."""
    final: bool = False
    """Whether *consumed* is final: reported when it left, or when the pass was over."""
    last_heard: float = 0.0
    """When the last heartbeat of an expired one came, in seconds since 1970."""
    process: ReaderProcess | None = None
    trainer: str = ""
    """The trainer that it belongs to, of a cached job."""


@dataclass(slots=True)
class TaskRecord:
    """One numbered stream of elements. It has a worker while an attempt of it runs."""

    iteration: IterationId
    index: int
    logs: tuple[SplitLog, ...]
    ended: tuple[int, ...]
    """How many passes end in each log."""
    splits: int = 0
    units: int = 0
    checkpoint: Checkpoint = AT_START
    acked: AckedSet = NOTHING_ACKED
    attempt: int = 0
    worker: WorkerId | None = None
    ran_on: WorkerId | None = None
    """The worker of the newest attempt, also when that is over."""
    unacked: dict[ReaderId, RangeSet] = field(default_factory=dict)
    done: bool = False
    failure: Failure | None = None
    expired_holders: dict[ReaderId, int] = field(default_factory=dict)
    """Expired readers that its worker may know more about: since which date."""
    in_doubt: int = 0
    """How many the running attempt requeued although a reader in doubt had them."""
    head: int = 0
    """The next number to be produced, as far as attempts that are over came."""
    counts: ElementCounts = field(default_factory=ElementCounts)
    """The cost of attempts that are over."""
    trainers: dict[str, TrainerRecord] = field(default_factory=dict)
    """Of a cached job: the elements acked for each trainer. Then *acked* has those that no trainer
    needs."""
    errors: SkippedErrors = field(default_factory=SkippedErrors)
    """The count of elements left out of it, and the first dead letters."""
    place: int | None = None
    """Of one order that goes to several consumers: where in it the task begins, once known."""

    @property
    def is_unassigned(self) -> bool:
        """Whether it should have a worker, and has none."""
        return self.worker is None and not self.done

    def is_done(self, trainer: str = "") -> bool:
        """Return whether nothing more comes of it; to *trainer*, of a cached job."""
        return self.done or (trainer in self.trainers and self.trainers[trainer].done)

    def add_attempt(self, totals: AttemptTotals) -> None:
        """Record what an attempt has cost that is over."""
        self.head, self.counts = max(self.head, totals.head), add(self.counts, totals.counts)

    def add_errors(self, fact: ErrorsSkipped) -> None:
        """Record the elements that were left out of it."""
        self.errors = SkippedErrors(
            max(self.errors.count, fact.count), (*self.errors.first, *fact.first)
        )


@dataclass(slots=True)
class IterationRecord:
    """One pass of a job. Once finished it has no tasks and no providers."""

    job: str
    repetition: int
    seed: int
    parameters: JobParameters
    providers: list[SplitProvider]
    next_task: int = 0
    """How many tasks were ever created of it: the next one's number."""
    origin: str = ""
    """The digest of the saved state that it was restored from."""
    before: AccountTotals = field(default_factory=AccountTotals)
    """The account up to its restore; of the whole pass, once it is finished."""
    tasks: dict[TaskId, TaskRecord] = field(default_factory=dict)
    readers: dict[ReaderId, ReaderRecord] = field(default_factory=dict)
    sessions: dict[str, ReaderId] = field(default_factory=dict)
    in_doubt: list[InDoubt] = field(default_factory=list)
    save_results: list[SaveResult] = field(default_factory=list)
    next_save: int = 0
    """How many saves have a result: the next one's number."""
    finished: bool = False
    rounds: RoundsRecord | None = None
    """The log of rounds, of coordinated reads."""
    unreplaced: int = 0
    """How many readers expired in whose place none has come."""
    counted: tuple[int, int] = (0, 0)
    """Of one order that goes to several consumers: the number of its counted first tasks, and of
    their elements."""

    @property
    def live(self) -> list[ReaderId]:
        """The readers whose reports are waited for."""
        return [name for name, r in self.readers.items() if r.status is ReaderStatus.LIVE]

    @property
    def broken(self) -> bool:
        """Whether user code failed in it."""
        return any(t.failure is not None for t in self.tasks.values())

    @property
    def cached(self) -> bool:
        """Whether trainers share its tasks, and each gets all elements."""
        return self.parameters.shared_cache

    @property
    def divided(self) -> bool:
        """Whether each task has a part of the elements, and none all of them."""
        return self.parameters.mode is not Mode.OFF

    @property
    def dynamic(self) -> bool:
        """Whether tasks draw splits."""
        return self.parameters.mode is Mode.DYNAMIC

    @property
    def ordered(self) -> bool:
        """Whether its elements come in the order of the splits, each of which is a task."""
        return self.parameters.ordered and self.parameters.num_consumers is None

    @property
    def stride(self) -> int | None:
        """How many consumers get every n-th element of its one order each, if they do."""
        return self.parameters.stride

    @property
    def fills_slots(self) -> bool:
        """Whether a worker runs several of its tasks at once, as it has slots."""
        alone = self.rounds is not None or self.cached
        return self.dynamic and not alone and not any(each.once_a_worker for each in self.providers)

    @property
    def shards(self) -> int:
        """How many tasks there are, each with a fixed part and place; 0 without static sharding."""
        return self.parameters.shards

    def has_counted(self, task: TaskRecord) -> bool:
        """Return whether it is known where the task behind *task* begins, if that matters."""
        return self.stride is None or task.index < self.counted[0]

    def count(self, total: int) -> None:
        """Record that the first task that was not counted has *total* elements."""
        tasks, elements = self.counted
        self.counted = tasks + 1, elements + total
        for task in self.tasks.values():
            if task.index == tasks + 1:
                task.place = elements + total

    @property
    def title(self) -> str:
        """Its name in sentences: job and repetition."""
        return title_of(self.job, self.repetition)

    def describe_task(self, task: TaskId) -> str:
        """Return the name of *task* for messages: its number within this pass, if it is known."""
        known = self.tasks.get(task)
        return f"task {task if known is None else known.index}"

    def describe_reader(self, reader: ReaderId, more: str = "") -> str:
        """Return *reader*'s name for messages: with the process that it is, and with *more*."""
        known = self.readers.get(reader)
        process = None if known is None else known.process
        about = "; ".join(filter(None, ["" if process is None else str(process), more]))
        return f"reader {reader} ({about})" if about else f"reader {reader}"

    def add_in_doubt(self, readers: tuple[ReaderId, ...], elements: int | None) -> None:
        """Record that *elements* were requeued that *readers* may have consumed."""
        if elements == 0:
            return
        since = min(self.readers[reader].last_heard for reader in readers)
        for i, known in enumerate(self.in_doubt):
            if known.readers == readers and (known.elements is None) == (elements is None):
                if elements is not None and known.elements is not None:
                    self.in_doubt[i] = InDoubt(readers, known.elements + elements, since)
                return
        self.in_doubt.append(InDoubt(readers, elements, since))


def title_of(job: str, repetition: int) -> str:
    """Return what a pass is called in sentences.

    >>> title_of("imagenet", 3)
    'job imagenet (repetition 3)'
    """
    return f"job {printable(job)} (repetition {repetition})"


@dataclass(slots=True)
class WorkerRecord:
    """A live worker, and the tasks that are assigned to it."""

    incarnation: int
    tasks: dict[TaskId, None] = field(default_factory=dict)
    entry: int | None = None
    """Its place in the list of workers, if there is a list."""
    profile: WorkerProfile = UNKNOWN_WORKER

    @property
    def slots(self) -> int:
        """How many tasks of an iteration that draws splits it runs at once, if it runs no other."""
        return max(1, self.profile.slots)


COUNTS = tuple(name for name in ElementCounts.__slots__ if name != "measures")
"""The six counts of an attempt, in order."""

counts_of = attrgetter(*COUNTS)
"""Returns these six counts."""


def add(one: ElementCounts, other: ElementCounts) -> ElementCounts:
    """Return what two attempts have cost together."""
    sums = ElementCounts(*map(operator.add, counts_of(one), counts_of(other)))
    if not one.measures and not other.measures:
        return sums
    return replace(sums, measures=merged(one.measures, other.measures))


def totals(iteration: IterationRecord, *, done_only: bool = False) -> AccountTotals:
    """Sum up what became of the elements of *iteration*, as far as it is committed.

    With *done_only* the elements of unfinished tasks are not counted: they will be counted again.
    """
    before, tasks = iteration.before, list(iteration.tasks.values())
    counted = [task for task in tasks if task.done or not done_only]
    work = before.counts
    for task in tasks:
        work = add(work, task.counts)
    return AccountTotals(
        work,
        before.elements + sum(task.head for task in counted),
        before.acked + sum(len(acked_by_any(t.acked, t.trainers.values()).ranges) for t in counted),
        before.consumed,
        before.unreported,
        before.splits + sum(task.splits for task in tasks),
        before.units + sum(task.units for task in tasks),
        (*before.in_doubt, *iteration.in_doubt),
        before.rounds if iteration.rounds is None else before.rounds.plus(iteration.rounds.account),
        sum_up(task.trainers for task in tasks) or before.trainers,
        before.moved or (iteration.cached and any(task.attempt > 1 for task in tasks)),
        before.errors + sum(task.errors.count for task in counted),
        (*before.letters, *(one.letter for task in tasks for one in task.errors.first)),
    )
