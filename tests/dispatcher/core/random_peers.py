"""Workers and readers around the dispatcher's core, as chance drives them."""

import json

from penstock.protocol.control import AttemptProgress, ElementCounts, WorkerHeartbeat
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import PROTOCOL, Checkpoint, Versions
from penstock.reader.core.membership import KnownTasks

VERSIONS = Versions(PROTOCOL, "3.11", "0")


class Run:
    """What a worker runs of one assignment: a unit of the source is an element."""

    def __init__(self, order, passes):
        self.attempt = order.attempt
        self.logs = [list(log.splits) for log in order.logs]
        self.starts = [log.start for log in order.logs]
        positions = order.checkpoint.positions or self.starts
        self.places = [at - start for at, start in zip(positions, self.starts)]
        self.passes = passes
        self.ended = json.loads(order.checkpoint.state) or [0] * len(self.logs)
        self.made = order.checkpoint.number
        self.acked = order.acked
        self.states = []

    def step(self):
        """Use up one split of each log; return what to ask for."""
        asks = []
        for stream, log in enumerate(self.logs):
            at = self.places[stream]
            if self.ended[stream] == self.passes[stream]:
                continue
            if at < len(log):
                self.made += len(log[at])
                self.ended[stream] += not log[at]
                self.places[stream] += 1
            if self.places[stream] >= len(log) - 1 and self.ended[stream] < self.passes[stream]:
                asks.append((stream, self.starts[stream] + len(log)))
        if self.made % 3 == 0:
            positions = tuple(s + p for s, p in zip(self.starts, self.places))
            self.states.append(Checkpoint(self.made, positions, json.dumps(self.ended)))
        return asks

    def granted(self, grant):
        log = self.logs[grant.provider]
        if grant.position == self.starts[grant.provider] + len(log):
            log.extend(grant.splits)

    @property
    def done(self):
        return not self.logs or all(e == p for e, p in zip(self.ended, self.passes))


class Worker:
    def __init__(self, name, incarnation):
        self.name, self.incarnation, self.revision = name, incarnation, -1
        self.runs, self.started = {}, set()
        self.draining = False

    def beat(self, chance):
        progress = {}
        if self.draining and chance.random() < 0.3:
            self.runs.clear()  # its deadline is over
        for task, run in self.runs.items():
            done = run.done and chance.random() < 0.7
            run.acked |= AckedSet(run.made if run.done else max(0, run.made - 2))
            taken = run.acked
            states = [state for state in run.states if state.number <= taken.floor]
            state = states[-1] if states else None
            work = ElementCounts(run.made, sent=run.made)
            progress[task] = AttemptProgress(run.attempt, run.made, taken, state, done, None, work)
        running = {(task, run.attempt) for task, run in self.runs.items()}
        ended = frozenset(self.started - running)
        return WorkerHeartbeat(
            self.name, self.incarnation, self.revision, progress, ended, self.draining
        )


class Reader:
    def __init__(self, session):
        self.session, self.id, self.iteration, self.beats, self.finished = (
            session,
            None,
            None,
            0,
            False,
        )
        self.left = self.superseded = False
        self.revision = -1
        self.fences, self.saves, self.cut = {}, 0, None
        self.known = KnownTasks()
        self.asleep = 0.0
