"""A pass that is read in rounds, around the dispatcher's core, in virtual time."""

from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.control import (
    Assignment,
    AttemptProgress,
    ReaderHeartbeat,
    SaveBarrier,
    SplitRequest,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import AckedSet
from penstock.protocol.rounds import GroupsHeld, RoundsReport
from penstock.protocol.types import PROTOCOL, Codec, Failure, Mode, ReaderStatus, Versions
from penstock_dispatcher.core import facts as f
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
)
from penstock_dispatcher.core.facts import RoundsAdvanced
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore

VERSIONS = Versions(PROTOCOL, "3.11", "0")


class Consumer:
    """A process that reads as one of the consumers: what it has is what a test says."""

    def __init__(self, session, index, stamp, start, iteration):
        self.session, self.index, self.stamp, self.start = session, index, stamp, start
        self.iteration, self.process = iteration, ReaderProcess("host", 100 + stamp)
        self.id, self.seq, self.taken, self.held, self.handed = None, 0, 0, {}, 0
        self.began = 0
        self.view = self.failure = self.barrier = self.result = None

    def heartbeat(self, leaving=False):
        self.seq += 1
        held = tuple(GroupsHeld(task, *what) for task, what in self.held.items())
        report = RoundsReport(self.index, self.stamp, self.start, self.taken, held, self.handed)
        beat = (self.iteration, self.session, self.id, self.seq)
        rest = {
            "barrier": self.barrier,
            "leaving": leaving,
            "consumed": max(0, self.taken - self.began),
        }
        return ReaderHeartbeat(*beat, process=self.process, rounds=report, **rest)

    @property
    def log(self):
        """The entries that it was told, from its first on, as pairs."""
        return [(entry.task, entry.group) for entry in self.view.rounds.entries]

    @property
    def lost(self):
        return [one.description for one in self.view.rounds.lost]

    def see(self, view):
        self.view = view
        live = view.status is ReaderStatus.LIVE
        if live and self.id is None and view.rounds is not None:
            self.began = self.taken = view.rounds.start
        self.id = view.reader if live else None
        if view.save_results:
            self.barrier, (self.result,) = None, view.save_results


class Coordinated:
    """One job that *consumers* read in rounds, by default copies (OFF) of a pipeline."""

    def __init__(self, consumers=2, mode=Mode.OFF, units=1000, settings=None, **parameters):
        self.now, self.facts, self.calls = 100.0, [], 0
        self.settings = settings or CoreSettings()
        self.consumers, self.assignments, self.progress, self.replies = {}, {}, {}, {}
        self.core = DispatcherCore(DispatcherState(), self.settings, self.now)
        self.parameters = {"num_consumers": consumers, **parameters}
        self.mode = mode
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
                case SendView(view) if view.session in self.consumers:
                    self.consumers[view.session].see(view)
                case CloseReaderStream(session, failure):
                    self.consumers[session].failure = failure
                case ReplyToCall(call, answer):
                    self.replies[call] = answer

    def open(self, **changed):
        """Open the pass, or another; return the reply."""
        self.calls += 1
        wanted = {"job_name": "j", "repetition": 1, **self.parameters, **changed}
        request = OpenIterationRequest(VERSIONS, "d", self.mode, codec=Codec.NONE, **wanted)
        self.tell(OpenIteration(self.calls, request, 5))
        return self.replies[self.calls]

    def opens(self, **changed):
        """Open anew, and go on with that pass."""
        reply = self.open(**changed)
        assert isinstance(reply, OpenIterationReply), reply.error()
        self.iteration = reply.iteration

    def refused(self, **changed):
        reply = self.open(**changed)
        assert isinstance(reply, Failure), reply
        return str(reply.error())

    def worker(self, name, incarnation=1):
        self.progress[name] = {}
        self.beat(name, incarnation)

    def beat(self, name, incarnation=1):
        running = {run.task for run in self.assignments[name].tasks} if self.progress[name] else ()
        self.progress[name] = {t: p for t, p in self.progress[name].items() if t in running}
        revision = self.core.state.revision
        self.tell(WorkerHeartbeat(name, incarnation, revision, dict(self.progress[name])))

    def made(self, task, head, **more):
        """Let the worker of *task* report that the next element to be made is *head*."""
        record = self.task(task)
        progress = AttemptProgress(record.attempt, head, AckedSet(record.acked.floor), **more)
        self.progress[record.worker][task] = progress
        self.beat(record.worker)

    def ask(self, task, incarnation=1):
        """Let the worker of *task* ask for the next split."""
        known = self.task(task)
        self.tell(
            SplitRequest(known.worker, incarnation, task, known.attempt, 0, known.logs[0].stop)
        )

    def joins(self, index, stamp=None, start=None, session=None):
        session = session or f"c{index}" + (f".{stamp}" if stamp else "")
        consumer = Consumer(session, index, stamp or 1, start, self.iteration)
        self.consumers[session] = consumer
        self.tell(consumer.heartbeat())
        return consumer

    def reports(self, consumer, taken=None, **leaving):
        """Let a consumer report; *taken* is new, as everything else is set on it."""
        if taken is not None:
            consumer.taken = taken
        self.tell(consumer.heartbeat(**leaving))

    def holds(self, consumer, **groups):
        """Let a consumer report groups of tasks by their numbers: ``t0=3``."""
        for name, count in groups.items():
            task = self.tasks[int(name.removeprefix("t"))]
            consumer.held[task] = (self.task(task).attempt, count)
        self.reports(consumer)

    def all_hold(self, **groups):
        for consumer in list(self.consumers.values()):
            if consumer.id is not None:
                self.holds(consumer, **groups)

    def saves(self, consumer, label=""):
        number = self.core.state.iterations[consumer.iteration].next_save
        consumer.barrier = SaveBarrier(number, label, 60.0)
        self.reports(consumer)

    def passes(self, seconds, *present):
        """Let time pass, in which *present* consumers and all workers send heartbeats."""
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            self.tell(Tick())
            if self.now % 1.0 == 0:
                for consumer in present:
                    self.reports(consumer)
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
    def rounds(self):
        return self.record.rounds

    @property
    def tasks(self):
        return list(self.record.tasks)

    def task(self, name):
        return self.record.tasks[name]

    @property
    def released(self):
        """The tasks of all rounds that were ever released, by their indexes."""
        index, out = {}, []
        for fact in self.facts:
            match fact:
                case f.TaskCreated(task, _, number):
                    index[task] = number
                case f.IterationRestored(_):
                    index.update({task.task: task.index for task in fact.tasks})
                    out = []
                case RoundsAdvanced(_, entries):
                    out += [index[task] for task in entries]
        return out
