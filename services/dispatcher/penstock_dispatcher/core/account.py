"""The account: what became of each element of a pass, and whether it balances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from penstock.protocol.control import AttemptProgress
from penstock.protocol.measures import Measure
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import ReaderId, ReaderStatus, TaskId
from penstock_dispatcher.core.cache_record import TrainerTotals, acked_by_any, known, sum_up
from penstock_dispatcher.core.fact_values import AccountTotals, InDoubt
from penstock_dispatcher.core.records import IterationRecord, TaskRecord, add, totals
from penstock_dispatcher.core.rounds_record import RoundsAccount
from penstock_dispatcher.core.soft_state import SoftState


@dataclass(frozen=True, slots=True)
class TrainerAccount:
    """The account of a cached pass for one trainer: *acked* elements are not given to it again.

    Of these it *skipped* some, some had left the window *before* it came, and the others were
    *consumed* by its loops. It is *done* when there is no more for it.
    """

    trainer: str
    acked: int
    skipped: int
    before: int
    consumed: int
    done: bool

    @property
    def due(self) -> int:
        """How many elements were for its loops."""
        return self.acked - self.skipped - self.before

    @property
    def redelivered(self) -> int:
        """How many its loops had before."""
        return max(0, self.consumed - self.due)

    @property
    def unexplained(self) -> int:
        """How many it may have skipped, or come too late for, that no worker could report."""
        return max(0, self.due - self.consumed)


@dataclass(frozen=True, slots=True)
class Account:
    """The account of an iteration's elements, as far as it is known.

    A restored iteration continues the account of its saved state.
    """

    finished: bool
    elements: int
    """How many there are, as far as they were produced."""
    produced: int
    """How many were produced, replayed ones included."""
    replayed: int
    """How many of these were replayed, after a process died."""
    sent: int
    requeued: int
    """How many readers requeued unused, for other readers."""
    acked: int
    """How many of the elements a training loop has had."""
    consumed: int
    """How many were handed to training loops."""
    redelivered: int
    """How many of these were handed out before; exact once no reader is `unreported`."""
    in_doubt: int
    """How many were requeued although an expired reader may have consumed them."""
    unreported: int
    """How many readers may have consumed more than they reported."""
    skipped: int
    """How many the pipeline left out on purpose; those left out again in a replay count again."""
    nondeterministic: int
    """How many were replayed by a pipeline that may not produce the same ones."""
    lost: int
    """How many may be lost: none, but for a nondeterministic pipeline."""
    splits: int
    units: int
    doubt_records: tuple[InDoubt, ...]
    """Elements in doubt by readers; a record without a number says since when."""
    grouped: bool = False
    """Whether they are read in rounds. Then what consumers joined again for is in these:"""
    rounds: RoundsAccount = field(default_factory=RoundsAccount)
    trainers: tuple[TrainerAccount, ...] = ()
    """Of a cached job: what became of the elements for each trainer."""
    moved: bool = False
    """Whether an attempt of a cached task ended early: then counts of trainers may lack some."""
    errors: int = 0
    """How many were left out as users' functions raised, with ``on_error="skip"``: each once."""
    measures: tuple[Measure, ...] = ()
    """The sums that operators on workers counted; work that was done again counts again."""

    @property
    def bounded(self) -> bool:
        """Whether the number of elements in doubt is known."""
        return all(doubt.elements is not None for doubt in self.doubt_records)

    def faults(self) -> tuple[str, ...]:
        """Return in words where the account of a finished iteration does not balance."""
        found = []
        if not self.finished:
            return ()
        if self.trainers:
            return tuple(self._faults_of_trainers())
        if self.acked != self.elements and not self.nondeterministic:
            found.append(f"{self.acked} of {self.elements} elements were acked")
        if self.grouped:
            return (*found, *self._faults_of_rounds())
        if self.consumed < self.acked and not self.unreported:
            found.append(f"{self.acked} elements are acked, but loops consumed {self.consumed}")
        if self.redelivered > self.in_doubt and self.bounded:
            found.append(
                f"{self.redelivered} elements were redelivered, and only {self.in_doubt} may be "
                "delivered twice"
            )
        return tuple(found)

    def _faults_of_trainers(self) -> Iterator[str]:
        """Yield in words what trainers have too much or too little of."""
        for one in self.trainers:
            who = f"trainer {one.trainer!r}"
            if one.done and one.acked != self.elements and not self.nondeterministic:
                yield f"{one.acked} of {self.elements} elements were acked for {who}"
            if one.unexplained and not self.unreported and not self.moved:
                yield f"{one.due} elements are for {who}, but its loops consumed {one.consumed}"
        if self.redelivered > self.in_doubt and self.bounded:
            yield (
                f"{self.redelivered} elements were redelivered, and only {self.in_doubt} may be "
                "delivered twice"
            )

    def _faults_of_rounds(self) -> Iterator[str]:
        """Yield in words what loops consumed beyond their rounds; they may skip some."""
        known = self.rounds
        due = self.acked - known.left_out + known.padding + known.repeated - known.missed
        if self.consumed > due and not self.unreported:
            yield f"loops consumed {self.consumed} elements, and their rounds have {due}"


def of(iteration: IterationRecord, soft_state: SoftState) -> Account:
    """Return what became of an iteration's elements."""
    sums = current_totals(iteration, soft_state)
    work, grouped = sums.counts, iteration.rounds is not None
    trainers = tuple(_trainers(iteration, sums.trainers, soft_state))
    redelivered = max(0, sums.consumed - sums.acked)
    if iteration.cached:
        redelivered = sum(one.redelivered for one in trainers)
    return Account(
        iteration.finished,
        sums.elements,
        max(work.produced, sums.elements),
        max(0, work.produced - sums.elements),
        work.sent,
        work.requeued,
        sums.acked,
        sums.consumed,
        sums.rounds.repeated if grouped else redelivered,
        sum(doubt.elements or 0 for doubt in sums.in_doubt),
        sums.unreported,
        work.skipped + sums.rounds.left_out,
        work.nondeterministic,
        work.nondeterministic,
        sums.splits,
        sums.units,
        sums.in_doubt,
        grouped,
        sums.rounds,
        trainers,
        sums.moved,
        sums.errors,
        work.measures,
    )


def head_of(task: TaskRecord, progress: AttemptProgress | None, acked: AckedSet) -> int:
    """Return the next number to be produced of *task*; readers may report more than its worker."""
    spans = acked.more.spans
    end = spans[-1][1] if spans else acked.floor
    return max(task.head, progress.head if progress is not None else 0, end)


def current_totals(iteration: IterationRecord, soft_state: SoftState) -> AccountTotals:
    """Sum up the durable state, and what heartbeats reported since."""
    sums, soft = totals(iteration), soft_state.trainers
    trainers = sum_up(known(t.trainers, soft.get(n, {})) for n, t in iteration.tasks.items())
    work, elements, acked = sums.counts, sums.elements, sums.acked
    for name, task in iteration.tasks.items():
        progress, had = soft_state.progress.get(name), acked_now(name, task, soft_state)
        if progress is not None:
            work = add(work, progress.counts)
        written = acked_by_any(task.acked, task.trainers.values())
        if had is not written:
            acked += len(had.ranges) - len(written.ranges)
        elements += head_of(task, progress, had) - task.head
    consumed, unreported = _consumed(iteration, soft_state)
    return replace(
        sums,
        counts=work,
        elements=elements,
        acked=acked,
        consumed=sums.consumed + consumed,
        unreported=sums.unreported + unreported,
        trainers=trainers or sums.trainers,
    )


def acked_now(name: TaskId, task: TaskRecord, soft_state: SoftState) -> AckedSet:
    """Return the elements of a task that any of its readers has acked."""
    acked = task.acked
    if name in soft_state.reported_acks:
        acked = acked | soft_state.reported_acks[name]
    reported = soft_state.trainers.get(name, {})
    return acked_by_any(acked, known(task.trainers, reported).values())


def _trainers(
    iteration: IterationRecord, sums: Mapping[str, TrainerTotals], soft_state: SoftState
) -> Iterator[TrainerAccount]:
    """Yield what became of the elements for each trainer: also for those that have had none."""
    names = dict.fromkeys(one.trainer for one in iteration.readers.values())
    for trainer in sorted({**names, **dict.fromkeys(sums)}) if iteration.cached else ():
        had, consumed = (
            sums.get(trainer, TrainerTotals()),
            _by_session(iteration, soft_state, trainer),
        )
        counts = (had.acked, had.skipped, had.before, sum(consumed.values()))
        yield TrainerAccount(trainer, *counts, had.done)


def _consumed(iteration: IterationRecord, soft_state: SoftState) -> tuple[int, int]:
    """Return how much training loops consumed, and how many readers may have consumed more."""
    consumed = _by_session(iteration, soft_state)
    unreported = sum(not _is_final(iteration, reader) for reader in iteration.sessions.values())
    return sum(consumed.values()), unreported


def _by_session(
    iteration: IterationRecord, soft_state: SoftState, trainer: str = ""
) -> dict[str, int]:
    """Return how much each training loop consumed, under all its ids; of *trainer*, if given."""
    consumed: dict[str, int] = {}
    for name, reader in iteration.readers.items():
        if trainer and reader.trainer != trainer:
            continue
        liveness = soft_state.readers.get(name)
        heartbeat = 0 if liveness is None else liveness.heartbeat.consumed
        consumed[reader.session] = max(consumed.get(reader.session, 0), reader.consumed, heartbeat)
    return consumed


def _is_final(iteration: IterationRecord, reader: ReaderId) -> bool:
    known = iteration.readers[reader]
    return known.final or (known.status is ReaderStatus.LIVE and not iteration.finished)
