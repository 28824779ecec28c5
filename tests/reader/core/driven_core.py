"""The reader's mind, driven by hand, with what stands behind it."""

from dataclasses import replace

from penstock.engine.unacked import Unacked
from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import FrameHeader, Recall, StreamEnd
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock.reader.core.effects import OpenTaskStream, SendAck
from penstock.reader.core.flow_control import ByteLimit
from penstock.reader.core.hand import Hand
from penstock.reader.core.state_machine import ReaderCore

LEASE = 30.0


class Counted:
    """A block before a training loop, which takes its elements one by one."""

    def __init__(self, count):
        self.count, self.at = count, 1

    def returned(self):
        return self.at

    def withdraw(self):
        self.count = self.at
        return self.at


class Buffer:
    """An operator that keeps *size* elements and gives away any of them, as a shuffle does.

    It is the follower, too: what it holds is owed. If it *cuts*, elements cannot be had back.
    """

    def __init__(self, size, chance, *, cuts=False):
        self.size, self.chance, self.cuts = size, chance, cuts
        self.held = {}
        """Elements by their places."""
        self.pulled = 0

    def put(self, elements):
        for element in elements:
            self.held[self.pulled] = element
            self.pulled += 1

    def take(self):
        return self.held.pop(self.chance.choice(sorted(self.held)))

    def owed(self):
        return Unacked(RangeSet.of(*((place, place + 1) for place in self.held)), self.pulled)

    def withdraw(self, choose):
        places = choose(self.owed())
        for place in places:
            del self.held[place]
        return places


class DrivenCore:
    """One reader, driven by hand: for stories."""

    def __init__(self, limit=None):
        self.now = 0.0
        self.core = ReaderCore(IterationId(1), "token", LEASE, limit or ByteLimit(64 << 20))
        self.as_of = 0
        self.block = None
        self.hand = None

    def view(self, *tasks, at=None, **fields):
        """Let the dispatcher say that these tasks are there: (task, attempt, worker, ...)."""
        self.as_of = self.as_of + 1 if at is None else at
        beat = self.core.beat(self.now).beat if fields.pop("answers", True) else None
        seen = {TaskId(task): TaskView(*rest) for task, *rest in tasks}
        standing = fields.pop("standing", ReaderStatus.LIVE)
        reader = ReaderId(fields.pop("reader", 7))
        view = ReaderView(self.as_of, "token", reader, standing, beat, seen, **fields)
        self.core.viewed(view, self.now)

    def frame(self, first, stop, *, task=1, part=None, floor=0, nbytes=100, **fields):
        """Let numbers *first* to *stop* arrive."""
        share = self.core.shares[task]
        part = RangeSet.of((first, stop)) if part is None else RangeSet.of(*part)
        frame = FrameHeader(
            task, share.attempt, share.opening, first, stop - first, floor, part, b"layout"
        )
        self.core.received(replace(frame, **fields), "load", nbytes, self.now)

    def recall(self, task=1, *, last=False):
        self.core.recalled(Recall(task, self.core.shares[task].attempt, last), self.now)

    def follow(self, size=1, *, cuts=False):
        """Put an operator behind the reader."""
        self.buffer = self.core.given.borrowed.follower = Buffer(size, None, cuts=cuts)
        return self.buffer

    def borrow(self, limit=None):
        """Ask as an operator does whose elements are followed."""
        answer = self.core.borrow(self.now, limit)
        if not isinstance(answer, Hand):
            return answer
        assert self.core.lend(answer, self.now)
        numbers = range(answer.start, answer.stop)
        self.buffer.put((answer.share.task, number) for number in numbers)
        return answer.share.task, answer.start, answer.stop

    def end(self, task=1, failure=None):
        share = self.core.shares[task]
        self.core.stream_ended(share.opening, StreamEnd(task, share.attempt, failure), self.now)

    def ask(self, limit=None):
        """Ask as a training loop does that reads each block element by element."""
        answer = self.core.ask(self.now, limit)
        if not isinstance(answer, Hand):
            return answer
        self.hand, self.block = answer, Counted(answer.stop - answer.start)
        assert self.core.accept(answer, self.block, self.now)
        return answer.share.task, answer.start, answer.stop

    def pull(self, limit=None):
        """Ask as an operator does, which takes the whole block."""
        answer = self.core.ask(self.now, limit)
        if not isinstance(answer, Hand):
            return answer
        assert self.core.accept(answer, None, self.now)
        return answer.share.task, answer.start, answer.stop

    def orders(self):
        return self.core.orders()

    def opens(self):
        return [order.open for order in self.orders() if isinstance(order, OpenTaskStream)]

    def acks(self):
        return [order.ack for order in self.orders() if isinstance(order, SendAck)]
