"""A job that is read in order, with one reader, as its dispatcher sees it."""

from penstock.protocol.control import AttemptProgress, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import Mode
from penstock_dispatcher.core.facts import SplitsGranted
from tests.dispatcher.core.driver import OneReader


class World(OneReader):
    """One reader of an ordered job over *units*; each unit is an element."""

    def __init__(self, units, workers=2, *, align=1, grid=0, **asked):
        source = SplitProviderSpec((".0",), units, align=align, grid=grid)
        super().__init__(source, workers, Mode.DYNAMIC, **{"ordered": True, **asked})

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

    @property
    def account(self):
        return self.stats.account
