"""A job around the dispatcher's core, in virtual time: a test says what happens."""

from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import (
    Assignment,
    ReaderHeartbeat,
    SaveBarrier,
    SplitRequest,
    TaskReport,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import PROTOCOL, Codec, Failure, Mode, Versions
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
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11", "0")

DATE = 1_800_000_000.0
"""When a driven core begins, in seconds since 1970."""


class DrivenCore:
    """The dispatcher's core with one dataset, in virtual time: effects come back, facts are kept.

    It begins with *facts*, or with an empty state and dataset d, which has these *sources*.
    """

    def __init__(self, *sources, facts=(), settings=None, unordered="", history=1):
        self.now, self.beats, self.facts = 100.0, 0, list(facts)
        self.settings = settings or CoreSettings()
        self._start()
        if not facts:
            self.tell(StartHistory(history))
            self.registers("d", *sources, unordered=unordered)

    def restart(self):
        """End the dispatcher, and start it from its facts."""
        before = self.core.state
        self._start()
        assert self.core.state == before

    def _start(self):
        state = DispatcherState()
        for fact in self.facts:
            state.apply(fact)
        self.core = DispatcherCore(state, self.settings, self.now, DATE)

    def tell(self, event):
        effects = [*self.core.handle(event, self.now), *self.core.take_views(self.now)]
        self.facts += [e.fact for e in effects if isinstance(e, AppendFact)]
        return effects

    def reply(self, event):
        """Tell of a call, and return the reply."""
        (answer,) = [e.answer for e in self.tell(event) if isinstance(e, ReplyToCall)]
        return answer

    def registers(self, name, *sources, **about):
        return self.reply(RegisterDataset(1, VERSIONS, name, sources, "", **about))

    def opens(self, mode=Mode.DYNAMIC, job="j", repetition=1, **asked):
        request = opening(VERSIONS, "d", mode, job, repetition, Codec.NONE, **asked)
        return self.reply(OpenIteration(1, request, 5))

    def comes(self, worker, incarnation=1, **more):
        self.tell(WorkerHeartbeat(worker, incarnation, -1, versions=VERSIONS, **more))

    def dies(self, worker):
        self.tell(WorkerDisconnected(worker, 1))
        self.tell(WorkerDead(worker, 1))

    def beat(self, iteration, session, reader=None, **more):
        """Let a reader send a heartbeat; return the view that answers it, if one does."""
        self.beats += 1
        effects = self.tell(ReaderHeartbeat(iteration, session, reader, self.beats, **more))
        views = [e.view for e in effects if isinstance(e, SendView)]
        return next((view for view in views if view.session == session), None)

    def wait(self, seconds):
        for _ in range(round(4 * seconds)):
            self.now += 0.25
            self.tell(Tick())

    @property
    def stats(self):
        (found,) = self.core.stats(self.now).iterations
        return found


class DrivenReader:
    """A process that reads: a test says what it has."""

    def __init__(self, session, iteration):
        self.session, self.iteration = session, iteration
        self.id, self.seq = None, 0
        self.view = self.failure = self.barrier = self.result = None

    def see(self, view):
        self.view = view
        if view.save_results:
            self.barrier, (self.result,) = None, view.save_results


class DrivenJob(DrivenCore):
    """One job of several readers, by default copies (OFF) of a pipeline."""

    def __init__(self, mode=Mode.OFF, units=1000, settings=None, **parameters):
        self.readers, self.assignments, self.progress = {}, {}, {}
        self.incarnation, self.parameters, self.mode = {}, parameters, mode
        super().__init__(SplitProviderSpec((".0",), units), settings=settings, history=7)
        self.iteration = self.open().iteration

    # --- what happens ---

    def tell(self, event):
        effects = super().tell(event)
        self.perform(effects)
        return effects

    def perform(self, effects):
        for effect in effects:
            match effect:
                case SendCommand(worker, _, Assignment() as assignment):
                    self.assignments[worker] = assignment
                case SendView(view) if view.session in self.readers:
                    self.readers[view.session].see(view)
                case CloseReaderStream(session, failure):
                    self.readers[session].failure = failure

    def open(self, **changed):
        """Open the pass, or another; return the reply."""
        wanted = {"job_name": "j", "repetition": 1, **self.parameters, **changed}
        request = opening(VERSIONS, "d", self.mode, codec=Codec.NONE, **wanted)
        return self.reply(OpenIteration(1, request, 5))

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

    def ask(self, task):
        """Let the worker of *task* ask for the next split."""
        known = self.task(task)
        asked = (known.worker, self.incarnation[known.worker], task, known.attempt, 0)
        self.tell(SplitRequest(*asked, known.logs[0].stop))

    def enters(self, reader):
        """Let *reader* send its first heartbeat."""
        self.readers[reader.session] = reader
        self.tell(reader.heartbeat())
        return reader

    def reports(self, reader, **leaving):
        """Let a reader report what it has."""
        self.tell(reader.heartbeat(**leaving))

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

    # --- what is there ---

    @property
    def record(self):
        return self.core.state.iterations[self.iteration]

    @property
    def tasks(self):
        return list(self.record.tasks)

    def task(self, name):
        return self.core.state.task(name)


class OneReader(DrivenCore):
    """One reader of a job with *workers*, which all load its one source."""

    def __init__(self, source, workers, mode, *, unordered="", **asked):
        super().__init__(source, unordered=unordered)
        self.view = None
        for i in range(workers):
            self.comes(f"w{i}")
        self.answer = self.opens(mode, **asked)
        if isinstance(self.answer, OpenIterationReply):
            self.reads()

    def tell(self, event):
        effects = super().tell(event)
        views = [e.view for e in effects if isinstance(e, SendView)]
        self.view = views[-1] if views else getattr(self, "view", None)
        return effects

    def reads(self, session="r", acked=(), unreachable=()):
        """Let a reader beat, and fence the attempts that are over."""
        self.beats += 1
        had = {n: AckedSet(dict(acked).get(n, t.acked.floor)) for n, t in self.tasks.items()}
        reports = {n: TaskReport(t.attempt + 1, had[n]) for n, t in self.tasks.items()}
        beat = (self.answer.iteration, session, self.iteration.sessions.get(session), self.beats)
        self.tell(ReaderHeartbeat(*beat, reports, unreachable=dict(unreachable)))

    @property
    def iteration(self):
        return self.core.state.iterations[self.answer.iteration]

    @property
    def tasks(self):
        return self.iteration.tasks
