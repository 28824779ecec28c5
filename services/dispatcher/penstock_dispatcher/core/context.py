"""The context of all decisions: durable state, soft state, settings, and pending notifications."""

from __future__ import annotations

from penstock.errors import Superseded
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.types import Failure, IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock_dispatcher.core import readable
from penstock_dispatcher.core.cache_record import (
    NO_PROGRESS,
    TrainerRecord,
    acked_by_any,
    known,
)
from penstock_dispatcher.core.events import AppendFact, CloseReaderStream, Effect
from penstock_dispatcher.core.fact_values import AttemptTotals, Unfinished
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    Fact,
    IterationDeleted,
    IterationFinished,
    ReaderRemoved,
    TaskDone,
    TaskFailed,
    WorkerLost,
)
from penstock_dispatcher.core.notifications import Notifications
from penstock_dispatcher.core.records import IterationRecord, TaskRecord
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.soft_state import ReaderLiveness, SoftState, WorkerLiveness
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.stats import Counts

DRIFT = 1.1
"""A reader expires after 1.1 times its lease: clocks run at different rates."""

REUNION = 3.0
"""Seconds after a restart within which readers that still run have reconnected."""


class DecisionContext:
    """The state that decisions read, and `commit`, the one way to change what lasts.

    *date* is *now* in seconds since 1970; it is only ever shown.
    """

    def __init__(
        self, state: DispatcherState, settings: CoreSettings, now: float, date: float
    ) -> None:
        self.state = state
        self.settings = settings
        self.soft_state = SoftState(since=now, began=now)
        self.notifications = Notifications()
        self.counts = Counts()
        self.address = "this dispatcher"
        """Where workers and readers find it."""
        self.effects: list[Effect] = []
        self.dirty: dict[IterationId, None] = {}
        """The iterations for which something may follow from what became fact."""
        self.waiting: set[IterationId] = set()
        """The iterations for which something may follow from a reader's report."""
        self.unbalanced: set[IterationId] = set()
        """The iterations in which one worker is idle while another has several tasks."""
        self.epoch = date - now
        """The difference between a date and a reading of the clock."""
        self.life = int(date * 1e6)
        """Tells this process from those before it: its soft state begins empty."""
        self._expect_all(now)

    def commit(self, fact: Fact) -> None:
        """Apply *fact*, and have it written before all later effects."""
        self.notifications.note(self.state, fact)
        self.state.apply(fact)
        self.counts.note(fact)
        self.effects.append(AppendFact(fact))

    def acked(self, name: TaskId, task: TaskRecord, trainer: str = "") -> AckedSet:
        """Return all that is known to be acked of a task; by *trainer*, of a cached job."""
        if trainer:
            reported = self.soft_state.trainers.get(name, {}).get(trainer, NO_PROGRESS)
            return task.trainers.get(trainer, TrainerRecord()).progress.acked | reported.acked
        return task.acked | self.soft_state.reported_acks.get(name, NOTHING_ACKED)

    def acked_by_any(self, name: TaskId, task: TaskRecord) -> AckedSet:
        """Return the elements of a task that any of its readers has acked."""
        return acked_by_any(self.acked(name, task), self.trainers(name, task).values())

    def trainers(self, name: TaskId, task: TaskRecord) -> dict[str, TrainerRecord]:
        """Return the records of a task's trainers, of a cached job."""
        return known(task.trainers, self.soft_state.trainers.get(name, {}))

    def able(self, iteration: IterationRecord) -> list[WorkerId]:
        """Return the workers that may be assigned tasks of *iteration*, and can run them.

        Workers that no reader may read are not among them.
        """
        liveness_of = self.soft_state.workers
        pythons = self.state.datasets[iteration.parameters.dataset].pythons
        able = [worker for worker in self.state.workers if liveness_of[worker].able]
        able = [worker for worker in able if liveness_of[worker].loads(pythons)]
        return readable.readable(self.state, self.soft_state, iteration, able)

    def all_present(self, iteration: IterationRecord, now: float) -> bool:
        """Return whether all readers will report soon: else a move would stall a task."""
        liveness_of = [self.soft_state.readers[reader] for reader in iteration.live]
        limit = 2 * self.settings.refresh_interval
        return all(
            self.soft_state.silence(liveness.last_heard, now) <= limit for liveness in liveness_of
        )

    def sharing(self, name: IterationId, iteration: IterationRecord) -> int:
        """Return the number of tasks that the remaining splits of *iteration* should serve."""
        if (known := self.soft_state.sharing.get(name)) is not None:
            return known
        workers, able = self.state.workers, self.able(iteration)
        slots = sum(workers[w].slots for w in able) if iteration.fills_slots else len(able)
        unfinished = sum(not task.done for task in iteration.tasks.values())
        self.soft_state.sharing[name] = found = max(1, slots, unfinished)
        return found

    def totals_of(self, name: TaskId) -> AttemptTotals:
        """Return the cost of a task's attempt that has just ended."""
        progress = self.soft_state.progress.pop(name, None)
        return (
            AttemptTotals() if progress is None else AttemptTotals(progress.head, progress.counts)
        )

    def task_over(self, fact: TaskDone | TaskFailed | AttemptEnded) -> None:
        """Write that a task, or an attempt of it, is over."""
        owner = self.state.owners[fact.task]
        self.commit(fact)
        self.dirty[owner] = None
        if fact.task not in self.state.owners:
            self.soft_state.forget_task(fact.task)

    def remove_worker(self, worker: WorkerId) -> None:
        """Remove *worker*, and end its attempts."""
        mine = self.state.workers[worker].tasks
        for name in mine:
            self.dirty[self.state.owners[name]] = None
        totals = {name: self.totals_of(name) for name in mine if name in self.soft_state.progress}
        liveness = self.soft_state.workers[worker]
        left = liveness.draining or not (mine or liveness.connected)
        if not liveness.draining:
            self.soft_state.lose(worker)
            self.counts.workers_lost += 1
        self.commit(WorkerLost(worker, totals, left))
        del self.soft_state.workers[worker]

    def remove_reader(
        self, name: IterationId, reader: ReaderId, status: ReaderStatus, now: float
    ) -> None:
        """Commit that a reader left or expired."""
        iteration = self.state.iterations[name]
        record, liveness = iteration.readers[reader], self.soft_state.readers.pop(reader, None)
        trainer = record.trainer
        open_tasks = {n: t for n, t in iteration.tasks.items() if not t.is_done(trainer)}
        acked = {n: self.acked(n, task, trainer) for n, task in open_tasks.items()}
        consumed, soft_state = 0, 0.0
        in_doubt: dict[TaskId, RangeSet] = {}
        if liveness is not None and liveness.heartbeat.seq >= 0:
            consumed, soft_state = liveness.heartbeat.consumed, liveness.last_heard + self.epoch
            if status is ReaderStatus.EXPIRED:
                in_doubt = _may_have_acked(open_tasks, acked, liveness.heartbeat)
        taken = 0
        if iteration.rounds is not None:
            acked = {}  # what is settled is written down as it is
            report = None if liveness is None else liveness.report
            taken = 0 if report is None else report.taken
        removed = (name, reader, status, acked, consumed, soft_state, in_doubt, taken)
        self.commit(ReaderRemoved(*removed))
        self.soft_state.connected.discard(record.session)
        self.soft_state.idle_since[name] = now
        self.dirty[name] = None

    def last_heard(self, reader: ReaderId, iteration: IterationRecord) -> float:
        """Return when a reader was last heard, in seconds since 1970; 0 if that is not known."""
        liveness = self.soft_state.readers.get(reader)
        if liveness is None:
            return iteration.readers[reader].last_heard
        return liveness.last_heard + self.epoch if liveness.heartbeat.seq >= 0 else 0.0

    def finish(self, name: IterationId, now: float) -> None:
        """Write that a pass is over."""
        iteration, liveness_of = self.state.iterations[name], self.soft_state.readers
        consumed = {
            r: liveness_of[r].heartbeat.consumed for r in iteration.readers if r in liveness_of
        }
        self.soft_state.forget(name, iteration.tasks, iteration.readers)
        self.soft_state.idle_since[name] = now
        self.commit(IterationFinished(name, consumed))

    def forget(self, name: IterationId, unfinished: Unfinished | None = None) -> None:
        """Delete an iteration without readers; that one was *unfinished* is recorded."""
        self._drop(IterationDeleted(name, unfinished=unfinished))

    def supersede(self, name: IterationId) -> None:
        """Delete an iteration in whose place a saved state is restored, and notify its readers."""
        iteration = self.state.iterations[name]
        self._drop(IterationDeleted(name, superseded=True))
        error = superseded(name, iteration.job)
        for reader in iteration.live:
            self.effects.append(
                CloseReaderStream(iteration.readers[reader].session, Failure.of(error))
            )

    def mark_all_dirty(self) -> None:
        """Note that something may follow for every iteration: a worker came or went."""
        running = (n for n, iteration in self.state.iterations.items() if not iteration.finished)
        self.dirty.update(dict.fromkeys(running))

    def _drop(self, fact: IterationDeleted) -> None:
        name = fact.iteration
        iteration = self.state.iterations[name]
        self.soft_state.forget(name, iteration.tasks, iteration.readers)
        self.soft_state.connected.difference_update(iteration.sessions)
        self.soft_state.idle_since.pop(name, None)
        self.waiting.discard(name)
        self.unbalanced.discard(name)
        self.commit(fact)

    def _expect_all(self, now: float) -> None:
        """Start a full lease for each known worker and reader: a restart expires none."""
        for worker in self.state.workers:
            self.soft_state.workers[worker] = WorkerLiveness(now, connected=False)
        for name, iteration in self.state.iterations.items():
            self.soft_state.idle_since[name] = now
            if iteration.finished:
                continue
            self.waiting.add(name)
            running = (each for each in iteration.tasks.items() if each[1].worker is not None)
            self.soft_state.inherited |= {task: record.attempt for task, record in running}
            for reader in iteration.live:
                silent = ReaderHeartbeat(name, iteration.readers[reader].session, reader, seq=-1)
                self.soft_state.readers[reader] = ReaderLiveness(now, silent)


def superseded(name: IterationId, job: str) -> Superseded:
    """Return the failure for readers of an iteration that a restored state replaces."""
    return Superseded(
        f"a saved state of job {job!r} was restored: what iteration {name} delivers after that "
        "save is abandoned, and delivered again to the readers that restored it"
    )


def _may_have_acked(
    tasks: dict[TaskId, TaskRecord], acked: dict[TaskId, AckedSet], heartbeat: ReaderHeartbeat
) -> dict[TaskId, RangeSet]:
    """Return what a reader reported on, and may have consumed since.

    Those are tasks that no worker runs: it accepts no more of them, so that is exact.
    """
    return {
        name: report.buffered - acked[name].ranges
        for name, report in heartbeat.reports.items()
        if name in tasks and tasks[name].is_unassigned and report.fence > tasks[name].attempt
    }
