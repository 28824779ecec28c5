"""A pass that is read in rounds, around the dispatcher's core, in virtual time."""

from penstock.protocol.control import (
    AttemptProgress,
    ReaderHeartbeat,
)
from penstock.protocol.loop_time import ReaderProcess
from penstock.protocol.ranges import AckedSet
from penstock.protocol.rounds import GroupsHeld, RoundsReport
from penstock.protocol.types import Mode, ReaderStatus
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.facts import RoundsAdvanced
from tests.dispatcher.core.driver import DrivenJob, DrivenReader


class Consumer(DrivenReader):
    """A process that reads as one of the consumers: what it has is what a test says."""

    def __init__(self, session, index, stamp, start, iteration):
        super().__init__(session, iteration)
        self.index, self.stamp, self.start = index, stamp, start
        self.process = ReaderProcess("host", 100 + stamp)
        self.taken, self.held, self.handed, self.began = 0, {}, 0, 0

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
        super().see(view)
        live = view.status is ReaderStatus.LIVE
        if live and self.id is None and view.rounds is not None:
            self.began = self.taken = view.rounds.start
        self.id = view.reader if live else None


class Coordinated(DrivenJob):
    """One job that *consumers* read in rounds, by default copies (OFF) of a pipeline."""

    def __init__(self, consumers=2, mode=Mode.OFF, units=1000, settings=None, **parameters):
        super().__init__(mode, units, settings, num_consumers=consumers, **parameters)

    def beat(self, name):
        known = self.progress[name]
        running = {run.task for run in self.assignments[name].tasks} if known else ()
        self.progress[name] = {task: one for task, one in known.items() if task in running}
        super().beat(name)

    def made(self, task, head, **more):
        """Let the worker of *task* report that the next element to be made is *head*."""
        record = self.task(task)
        progress = AttemptProgress(record.attempt, head, AckedSet(record.acked.floor), **more)
        self.progress[record.worker][task] = progress
        self.beat(record.worker)

    def joins(self, index, stamp=None, start=None, session=None):
        session = session or f"c{index}" + (f".{stamp}" if stamp else "")
        return self.enters(Consumer(session, index, stamp or 1, start, self.iteration))

    def reports(self, consumer, taken=None, **leaving):
        """Let a consumer report; *taken* is new, as everything else is set on it."""
        if taken is not None:
            consumer.taken = taken
        super().reports(consumer, **leaving)

    def holds(self, consumer, **groups):
        """Let a consumer report groups of tasks by their numbers: ``t0=3``."""
        for name, count in groups.items():
            task = self.tasks[int(name.removeprefix("t"))]
            consumer.held[task] = (self.task(task).attempt, count)
        self.reports(consumer)

    def all_hold(self, **groups):
        for consumer in list(self.readers.values()):
            if consumer.id is not None:
                self.holds(consumer, **groups)

    # --- what is there ---

    @property
    def rounds(self):
        return self.record.rounds

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
