"""A consumer's core, driven by hand, with a log of rounds behind it."""

from dataclasses import replace

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import FrameHeader
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import RoundEntry, RoundsView
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock.reader.core.effects import SendAck, SendHeartbeat
from penstock.reader.core.limits import ByteLimit
from penstock.reader.core.rounds import Consumer, RoundsCore
from penstock.reader.core.session_core import NoElement
from tests.reader.core.driven_core import DrivenCore

STAMP = 12345


class DrivenRounds(DrivenCore):
    """Consumer 1 of 2, driven by hand: for stories. Views tell what *log* and *tasks* say."""

    def __init__(self, *tasks, limit=None, start_round=None, count=2):
        self.count = count
        consumer, limit = Consumer(1, count, start_round), limit or ByteLimit(64 << 20)
        super().__init__(core=RoundsCore(IterationId(1), "token", limit, None, consumer, STAMP))
        self.log, self.first, self.start = [], 0, 0
        self.tasks = {TaskId(task): TaskView(1, WorkerId("w")) for task in tasks}
        self.buffer = None
        if tasks:
            self.view()

    def view(self, *, last=None, failure=None, lost=(), answers=True, reader=7, **fields):
        """Let the dispatcher say what there is."""
        self.revision += 1
        seq = self.core.heartbeat(self.now).seq if answers else None
        released = {task: sum(entry.task == task for entry in self.log) for task in self.tasks}
        seen = {t: replace(view, released=released[t]) for t, view in self.tasks.items()}
        entries = tuple(self.log[self.first :])
        rounds = RoundsView(self.start, self.first, entries, last, failure, tuple(lost))
        status = fields.pop("status", ReaderStatus.LIVE)
        view = ReaderView(
            self.revision, "token", ReaderId(reader), status, seq, seen, rounds=rounds, **fields
        )
        self.core.on_view(view, self.now)

    def release(self, *entries, **fields):
        """Let these rounds, each (task, group), be released."""
        self.log += [RoundEntry(TaskId(task), group) for task, group in entries]
        self.view(**fields)

    def assign(self, task, **fields):
        """Change what views say of *task*."""
        task = TaskId(task)
        self.tasks[task] = replace(self.tasks.get(task, TaskView(1, WorkerId("w"))), **fields)
        self.view()

    def frame(self, task, *groups, nbytes=100, **fields):
        """Let this consumer's elements of *groups* arrive."""
        for group in groups:
            stream = self.core.tasks[task]
            number = group * self.count + 1
            own = RangeSet.of((number, number + 1))
            frame = FrameHeader(
                TaskId(task), stream.attempt, stream.subscription, number, 1, 0, own, b"layout"
            )
            frame = replace(frame, group=group, **fields)
            load = (task, group, frame.attempt)
            self.core.on_frame(frame, load, nbytes, self.now)

    def cut(self, task):
        self.core.on_stream_broken(task, self.core.tasks[task].subscription, "cut", self.now)

    def pull(self):
        """Return what is handed out: the load of the next round; or why there is nothing."""
        answer = self.core.next_slice(self.now, 1)
        if isinstance(answer, NoElement):
            return answer
        assert self.core.deliver(answer, self.now)
        (piece,) = answer.pieces
        if self.buffer is not None:
            self.buffer.put([piece.load])
        return piece.load

    def pull_all(self):
        """Return all that is handed out now."""
        pulled = []
        while not isinstance(load := self.pull(), NoElement):
            pulled.append(load)
        return pulled

    def take(self, *tags):
        """Let the loop get the elements with these tags from the operator."""
        return [self.buffer.held.pop(tag) for tag in tags]

    def report(self):
        """Return what a heartbeat says now."""
        return self.core.heartbeat(self.now).rounds

    def acks(self):
        return [effect for effect in self.effects() if isinstance(effect, SendAck)]

    def beats(self):
        """Return how many heartbeats are to be sent at once."""
        return sum(isinstance(effect, SendHeartbeat) for effect in self.effects())
