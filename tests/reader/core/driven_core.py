"""The reader's core, driven by hand, with what stands behind it."""

from dataclasses import replace

from penstock.engine.unacked import Unacked
from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import FrameHeader, Recall, StreamEnd
from penstock.protocol.ranges import RangeSet
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId
from penstock.reader.core.effects import OpenTaskStream, SendAck
from penstock.reader.core.limits import ByteLimit
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.state_machine import ReaderCore

LEASE = 30.0


class Buffer:
    """An operator that keeps *size* elements and gives away any of them, as a shuffle does.

    It is the tracker, too: what it holds is unacked. If it *splits_elements*, elements cannot be
    had back.
    """

    def __init__(self, size, chance, *, splits_elements=False):
        self.size, self.chance, self.splits_elements = size, chance, splits_elements
        self.held = {}
        """Elements by their delivery tags."""
        self.delivered = 0

    def put(self, elements):
        for element in elements:
            self.held[self.delivered] = element
            self.delivered += 1

    def take(self):
        return self.held.pop(self.chance.choice(sorted(self.held)))

    def unacked(self):
        return Unacked(RangeSet.of(*((tag, tag + 1) for tag in self.held)), self.delivered)

    def revoke(self, choose):
        tags = choose(self.unacked())
        for tag in tags:
            del self.held[tag]
        return tags


class BlockInHand(Buffer):
    """The block before a training loop, which takes its elements one by one: no operators.

    What revokes, be it nothing, stops it: it is *free* to take the next one when it has asked.
    """

    def __init__(self):
        super().__init__(1, None)
        self.acked, self.free = 0, False

    def put(self, elements):
        super().put(elements)
        self.acked, self.free = 0, False

    def take(self):
        self.acked += 1
        return self.held.pop(min(self.held))

    def revoke(self, choose):
        self.free = False
        return super().revoke(choose)

    @property
    def at(self):
        """How many the loop has of its last block; set it to let it take some."""
        return self.acked

    @at.setter
    def at(self, acked):
        while self.acked < acked:
            self.take()

    @property
    def count(self):
        """How many of the last block the loop has or may get."""
        return self.acked + len(self.held)


class DrivenCore:
    """One reader, driven by hand: for stories."""

    def __init__(self, limit=None, vicinity=None, core=None):
        self.now, self.revision = 0.0, 0
        limit = limit or ByteLimit(64 << 20)
        self.core = core or ReaderCore(IterationId(1), "token", LEASE, limit, vicinity=vicinity)
        self.block = self.buffer = None

    def view(self, *tasks, at=None, **fields):
        """Let the dispatcher say that these tasks are there: (task, attempt, worker, ...)."""
        self.revision = self.revision + 1 if at is None else at
        heartbeat = self.core.heartbeat(self.now).seq if fields.pop("answers", True) else None
        seen = {TaskId(task): TaskView(*rest) for task, *rest in tasks}
        status = fields.pop("status", ReaderStatus.LIVE)
        reader = ReaderId(fields.pop("reader", 7))
        view = ReaderView(self.revision, "token", reader, status, heartbeat, seen, **fields)
        self.core.on_view(view, self.now)

    def frame(self, first, stop, *, task=1, part=None, floor=0, nbytes=100, **fields):
        """Let numbers *first* to *stop* arrive."""
        share = self.core.tasks[task]
        part = RangeSet.of((first, stop)) if part is None else RangeSet.of(*part)
        frame = FrameHeader(
            task, share.attempt, share.subscription, first, stop - first, floor, part, b"layout"
        )
        self.core.on_frame(replace(frame, **fields), "load", nbytes, self.now)

    def recall(self, task=1, *, last=False):
        self.core.on_recall(Recall(task, self.core.tasks[task].attempt, last), self.now)

    def follow(self, size=1, *, splits_elements=False):
        """Put an operator behind the reader."""
        self.buffer = self.core.acks.deliveries.tracker = Buffer(
            size, None, splits_elements=splits_elements
        )
        return self.buffer

    def pull_slice(self, limit=None):
        """Ask as an operator does whose elements are followed."""
        answer = self.core.next_slice(self.now, limit)
        if isinstance(answer, NoElement):
            return answer
        assert self.core.deliver(answer, self.now)
        numbers = range(answer.start, answer.stop)
        self.buffer.put((answer.frame.task, number) for number in numbers)
        return answer.frame.task, answer.start, answer.stop

    def end(self, task=1, failure=None):
        share = self.core.tasks[task]
        self.core.on_stream_ended(
            share.subscription, StreamEnd(task, share.attempt, failure), self.now
        )

    def ask(self, limit=None):
        """Ask as a training loop does that reads each block element by element.

        It gets the first element of what is returned. It still asks if there is none.
        """
        if self.block is None:
            self.block = self.core.acks.deliveries.tracker = BlockInHand()
        self.core.loop_waiting()
        if not self.block.held:
            answer = self.core.next_slice(self.now, limit)
            if isinstance(answer, NoElement):
                return answer
            assert self.core.deliver(answer, self.now)
            numbers = range(answer.start, answer.stop)
            self.block.put((answer.frame.task, number) for number in numbers)
        if self.core.permit(self.now) is not True:
            return NoElement.WAIT
        (task, start), *_, (_, last) = [*self.block.held.values()] * 2
        self.block.take()
        self.block.free = True
        self.core.loop_running(self.now)
        return task, start, last + 1

    def pull(self, limit=None):
        """Ask as one does that takes the whole block; nobody tracks it if no loop asked before."""
        if self.block is not None:
            answer = self.ask(limit)
            self.block.at = self.block.count
            return answer
        answer = self.core.next_slice(self.now, limit)
        if isinstance(answer, NoElement):
            return answer
        assert self.core.deliver(answer, self.now)
        return answer.frame.task, answer.start, answer.stop

    def effects(self):
        return self.core.take_effects()

    def subscribes(self):
        return [effect.request for effect in self.effects() if isinstance(effect, OpenTaskStream)]

    def acks(self):
        return [effect.ack for effect in self.effects() if isinstance(effect, SendAck)]
