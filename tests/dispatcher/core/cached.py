"""A cached job around the dispatcher's core, in virtual time: what happens is what a test says."""

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    ElementCounts,
    ReaderHeartbeat,
    SaveBarrier,
    SplitRequest,
    TaskReport,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import PROTOCOL, Checkpoint, Codec, Failure, Mode, Versions
from penstock.protocol.types import ReaderStatus as Status
from penstock_dispatcher.core.events import (
    AppendFact,
    CloseReaderStream,
    OpenIteration,
    RegisterDataset,
    ReplyToCall,
    SendCommand,
    SendView,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore

VERSIONS = Versions(PROTOCOL, "3.11", "0")


class Reader:
    """A process that reads for a trainer: what it has is what a test says."""

    def __init__(self, session, trainer, iteration):
        self.session, self.trainer, self.iteration = session, trainer, iteration
        self.id, self.seq, self.consumed = None, 0, 0
        self.reports, self.fences = {}, {}
        self.view = self.failure = self.barrier = self.result = None

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
        self.view = view
        self.id = view.reader if view.status is Status.LIVE else None
        if self.id is None:
            self.reports = {task: (acked, RangeSet()) for task, (acked, _) in self.reports.items()}
        for name, task in view.tasks.items():
            self.fences[name] = task.attempt + (task.worker is None)
        if view.save_results:
            self.barrier, (self.result,) = None, view.save_results


class CachedWorld:
    """One job that trainers share, by default copies (OFF) of a pipeline."""

    def __init__(self, mode=Mode.OFF, units=1000, settings=None, **parameters):
        self.now, self.facts, self.calls = 100.0, [], 0
        self.settings = settings or CoreSettings()
        self.readers, self.assignments, self.progress, self.replies = {}, {}, {}, {}
        self.incarnation = {}
        self.core = DispatcherCore(DispatcherState(), self.settings, self.now)
        self.parameters, self.mode = parameters, mode
        self.tell(StartHistory(7))
        provider = SplitProviderSpec((".0",), units)
        self.tell(RegisterDataset(1, VERSIONS, "d", (provider,), ""))
        self.iteration = self.open().iteration

    # --- what happens ---

    def tell(self, event):
        self.perform(self.core.handle(event, self.now))
        self.perform(self.core.take_views(self.now))

    def perform(self, effects):
        for effect in effects:
            match effect:
                case AppendFact(fact):
                    self.facts.append(fact)
                case SendCommand(worker, _, Assignment() as assignment):
                    self.assignments[worker] = assignment
                case SendView(view) if view.session in self.readers:
                    self.readers[view.session].see(view)
                case CloseReaderStream(session, failure):
                    self.readers[session].failure = failure
                case ReplyToCall(call, answer):
                    self.replies[call] = answer

    def open(self, **changed):
        """Open the pass, or another; return the reply."""
        self.calls += 1
        wanted = {"job_name": "j", "repetition": 1, "trainer": "a", **self.parameters, **changed}
        request = OpenIterationRequest(VERSIONS, "d", self.mode, codec=Codec.NONE, **wanted)
        self.tell(OpenIteration(self.calls, request, 5))
        return self.replies[self.calls]

    def opens(self, **changed):
        """Open anew, and go on with that pass."""
        reply = self.open(**changed)
        assert isinstance(reply, OpenIterationReply), reply.error()
        self.iteration = reply.iteration
        return reply

    def refused(self, **changed):
        reply = self.open(**changed)
        assert isinstance(reply, Failure), reply
        return str(reply.error())

    def worker(self, name):
        self.incarnation[name] = self.incarnation.get(name, 0) + 1
        self.progress[name] = {}
        self.assignments.pop(name, None)
        self.beat(name)

    def beat(self, name, ended=()):
        revision = self.core.state.revision
        beat = (name, self.incarnation[name], revision, dict(self.progress[name]), frozenset(ended))
        self.tell(WorkerHeartbeat(*beat))

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

    def ask(self, task):
        known = self.task(task)
        worker = known.worker
        self.tell(
            SplitRequest(
                worker, self.incarnation[worker], task, known.attempt, 0, known.logs[0].stop
            )
        )

    def joins(self, trainer, session=None):
        reader = Reader(session or trainer, trainer, self.iteration)
        self.readers[reader.session] = reader
        self.tell(reader.heartbeat())
        return reader

    def reports(self, reader, task=None, acked=0, unacked=(), consumed=None, **leaving):
        """Let a reader report what it has, of *task* anew."""
        if task is not None:
            runs = RangeSet.of(*unacked)
            reader.reports[task] = (AckedSet(acked), runs)
            reader.consumed = acked if consumed is None else consumed
        self.tell(reader.heartbeat(**leaving))

    def leaves(self, reader):
        self.reports(reader, leaving=True)
        del self.readers[reader.session]

    def saves(self, reader, label=""):
        number = self.core.state.iterations[reader.iteration].next_save
        reader.barrier = SaveBarrier(number, label, 60.0)
        self.reports(reader)

    def passes(self, seconds, *present):
        """Let time pass, in which *present* readers and all workers send heartbeats."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            self.tell(Tick())
            if self.now % 1.0 == 0:
                for reader in present:
                    self.reports(reader)
                for name in self.progress:
                    self.beat(name)

    def restart(self):
        """End the dispatcher, and start it from its facts."""
        state = DispatcherState()
        for fact in self.facts:
            state.apply(fact)
        assert state == self.core.state
        self.core = DispatcherCore(state, self.settings, self.now)

    # --- what is there ---

    @property
    def record(self):
        return self.core.state.iterations[self.iteration]

    @property
    def tasks(self):
        return list(self.record.tasks)

    def task(self, name):
        return self.core.state.task(name)

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
