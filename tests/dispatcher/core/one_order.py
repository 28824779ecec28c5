"""A job that is read in order, with one reader, as its dispatcher sees it."""

from penstock.protocol.calls import OpenIterationReply, OpenIterationRequest
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, TaskReport, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock_dispatcher.core.events import (
    AppendFact,
    OpenIteration,
    RegisterDataset,
    ReplyToCall,
    SendView,
    StartHistory,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.facts import SplitsGranted
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore

VERSIONS = Versions(PROTOCOL, "3.11", "0")


class World:
    """One reader of an ordered job over *units*; each unit is an element."""

    def __init__(self, units, workers=2, *, align=1, grid=0, unordered="", **asked):
        self.facts, self.beats, self.view, self.now = [], 0, None, 100.0
        self.start(DispatcherState())
        self.tell(StartHistory(1))
        spec = SplitProviderSpec((".0",), units, align=align, grid=grid)
        self.tell(RegisterDataset(1, VERSIONS, "d", (spec,), "", unordered=unordered))
        for i in range(workers):
            self.comes(f"w{i}")
        request = OpenIterationRequest(
            VERSIONS, "d", Mode.DYNAMIC, "j", 1, Codec.NONE, **{"ordered": True, **asked}
        )
        effects = self.tell(OpenIteration(1, request, 5))
        (self.answer,) = [e.answer for e in effects if isinstance(e, ReplyToCall)]
        if isinstance(self.answer, OpenIterationReply):
            self.reads()

    def start(self, state):
        self.core = DispatcherCore(state, CoreSettings(), self.now, 1_800_000_000.0)

    def tell(self, event):
        effects = [*self.core.handle(event, self.now), *self.core.take_views(self.now)]
        self.facts += [e.fact for e in effects if isinstance(e, AppendFact)]
        views = [e.view for e in effects if isinstance(e, SendView)]
        self.view = views[-1] if views else self.view
        return effects

    def comes(self, worker):
        self.tell(WorkerHeartbeat(worker, 1, -1, versions=VERSIONS))

    def reads(self, session="r", acked=(), unreachable=()):
        """Let a reader beat, and fence the attempts that are over."""
        self.beats += 1
        had = {n: AckedSet(dict(acked).get(n, t.acked.floor)) for n, t in self.tasks.items()}
        reports = {n: TaskReport(t.attempt + 1, had[n]) for n, t in self.tasks.items()}
        reader = self.iteration.sessions.get(session)
        self.tell(
            ReaderHeartbeat(
                self.answer.iteration,
                session,
                reader,
                self.beats,
                reports,
                unreachable=dict(unreachable),
            )
        )

    @property
    def iteration(self):
        return self.core.state.iterations[self.answer.iteration]

    @property
    def tasks(self):
        return self.iteration.tasks

    @property
    def splits(self):
        granted = [fact.splits for fact in self.facts if isinstance(fact, SplitsGranted)]
        return [(split.start, split.stop) for splits in granted for split in splits if split]

    def size(self, name):
        """Return how many elements a task has."""
        return self.tasks[name].units

    def report(self, name, acked, *, ended, all_sent):
        task, size = self.tasks[name], self.size(name)
        head = size if ended else acked
        done = ended and acked == size
        progress = AttemptProgress(
            task.attempt, head, AckedSet(acked), done=done, ended=ended, all_sent=all_sent
        )
        revision = self.core.state.revision
        self.tell(WorkerHeartbeat(task.worker, 1, revision, {name: progress}))

    def makes(self, name):
        """Let a task be made, and nothing of it read."""
        self.report(name, 0, ended=True, all_sent=name not in self.unread)

    def sends(self, name):
        """Let readers have all of a task, and nothing of it be acked."""
        self.report(name, 0, ended=True, all_sent=True)

    def finishes(self, name):
        """Let all of a task be made and acked."""
        self.report(name, self.size(name), ended=True, all_sent=True)

    @property
    def unread(self):
        """The tasks of which readers are not known to have all."""
        progress = self.core.ctx.soft_state.progress
        return [name for name in self.tasks if name not in progress or not progress[name].all_sent]

    def dies(self, worker):
        self.tell(WorkerDisconnected(worker, 1))
        self.tell(WorkerDead(worker, 1))

    @property
    def account(self):
        (found,) = self.core.stats(self.now).iterations
        return found.account
