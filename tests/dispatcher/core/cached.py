"""A cached job around the dispatcher's core, in virtual time: what happens is what a test says."""

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import (
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    TaskReport,
)
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Checkpoint
from penstock.protocol.types import ReaderStatus as Status
from penstock_dispatcher.core.events import (
    WorkerDead,
    WorkerDisconnected,
)
from tests.dispatcher.core.driver import DrivenJob, DrivenReader


class Reader(DrivenReader):
    """A process that reads for a trainer: what it has is what a test says."""

    def __init__(self, session, trainer, iteration):
        super().__init__(session, iteration)
        self.trainer, self.consumed, self.reports, self.fences = trainer, 0, {}, {}

    def heartbeat(self, leaving=False):
        self.seq += 1
        reports = {
            task: TaskReport(fence, *self.reports.get(task, (AckedSet(), RangeSet())))
            for task, fence in self.fences.items()
        }
        return ReaderHeartbeat(
            self.iteration,
            self.session,
            self.id,
            self.seq,
            reports,
            self.barrier,
            leaving,
            self.consumed,
            trainer=self.trainer,
        )

    @property
    def finished(self):
        return self.view.finished

    @property
    def tasks(self):
        return list(self.view.tasks)

    def see(self, view):
        super().see(view)
        self.id = view.reader if view.status is Status.LIVE else None
        if self.id is None:
            self.reports = {task: (acked, RangeSet()) for task, (acked, _) in self.reports.items()}
        for name, task in view.tasks.items():
            self.fences[name] = task.attempt + (task.worker is None)


class CachedWorld(DrivenJob):
    """One job that trainers share, by default copies (OFF) of a pipeline."""

    def open(self, **changed):
        return super().open(**{"trainer": "a", **self.parameters, **changed})

    def dies(self, name):
        del self.progress[name]
        self.tell(WorkerDisconnected(name, self.incarnation[name]))
        self.tell(WorkerDead(name, self.incarnation[name]))

    def made(self, task, head, at=None, produced=None, sent=0, **more):
        """Let a task's worker report: *head*, and of trainers (acked, skipped, before) by name."""
        record = self.task(task)
        trainers = {name: told(*more.pop(name)) for name in list(more) if name in ("a", "b", "c")}
        self.progress[record.worker][task] = AttemptProgress(
            record.attempt,
            head,
            min((one.acked for one in trainers.values()), key=lambda one: one.floor),
            None if at is None else Checkpoint(at, (0,)),
            counts=ElementCounts(head if produced is None else produced, sent=sent),
            trainers=trainers,
            **more,
        )
        self.beat(record.worker)

    def joins(self, trainer, session=None):
        return self.enters(Reader(session or trainer, trainer, self.iteration))

    def reports(self, reader, task=None, acked=0, unacked=(), consumed=None, **leaving):
        """Let a reader report what it has, of *task* anew."""
        if task is not None:
            runs = RangeSet.of(*unacked)
            reader.reports[task] = (AckedSet(acked), runs)
            reader.consumed = acked if consumed is None else consumed
        super().reports(reader, **leaving)

    def leaves(self, reader):
        self.reports(reader, leaving=True)
        del self.readers[reader.session]

    # --- what is there ---

    def assigned(self, task):
        """The assignment of a task at its worker."""
        (found,) = [
            run for run in self.assignments[self.task(task).worker].tasks if run.task == task
        ]
        return found

    @property
    def stats(self):
        (found,) = [
            s for s in self.core.stats(self.now).iterations if s.iteration == self.iteration
        ]
        return found


def told(acked, skipped=0, before=0):
    """Return what a worker tells of a trainer; *acked* is a floor, or a set."""
    return TrainerProgress(AckedSet(acked) if isinstance(acked, int) else acked, skipped, before)
