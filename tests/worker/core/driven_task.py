"""A worker's core that runs one task: events for it, and a driver of its runner and readers."""

from dataclasses import replace

from penstock.protocol.control import Assignment, TaskAssignment
from penstock.protocol.data import Ack, Subscribe
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, RangeSet
from penstock.protocol.types import Codec, DatasetId, IterationId, ReaderId, TaskId, WorkerId
from penstock_worker.core.events import (
    RetainFrames,
    SendEnd,
    SendFrame,
    SendToRunner,
    StartRunner,
    StreamAcked,
    StreamClosed,
    StreamId,
    StreamOpened,
    StreamWritable,
)
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import FrameReady, FreeFrames, RunEnded

ROOM = 10**9
TASK = TaskId(1)
RUN = TaskAssignment(TASK, 0, 1, IterationId(1), DatasetId("d"), 0, Codec.NONE)


def core_with(run=RUN, readers=()):
    """Return a core that runs *run*."""
    core = WorkerCore(WorkerId("host:1"), 7, None, ROOM)
    core.handle(order(1, run, readers=readers), 0.0)
    return core


def order(revision, *runs, readers=()):
    return Assignment(revision, 7, runs, dict(readers), 1.0)


def made(first, stop, offset=0, nbytes=100, run=1):
    return FrameReady(run, first, stop - first, offset, nbytes, b"", Codec.NONE, nbytes)


def opens(
    stream, reader=1, subscription=None, acked=NOTHING_ACKED, buffered=NO_RANGES, credit=10**9
):
    number = stream if subscription is None else subscription
    whose = (ReaderId(reader), TASK, 1, number)
    return StreamOpened(stream, Subscribe(*whose, acked, buffered, credit))


def runs(*spans):
    return RangeSet.of(*spans)


def frames(effects):
    """Return the stream and the elements of each frame that is sent."""
    return [(e.stream, e.header.ranges.spans) for e in effects if isinstance(e, SendFrame)]


def of(kind, effects):
    return [effect for effect in effects if isinstance(effect, kind)]


class DrivenTask:
    """Passes events to the core, and notes what each stream was sent and which places are free."""

    def __init__(self, core, run):
        self.core, self.run = core, run
        self.now, self.revision = 0.0, 0
        self.runner, self.made, self.place = 0, run.checkpoint.number, 0
        self.places = {}
        """The numbers and bytes at each place that is not free."""
        self.freed = []
        self.sent, self.ends, self.orders = {}, {}, []
        self.writes = True
        """Whether streams take all that they are sent at once."""
        self.assign()

    @property
    def attempt(self):
        return self.core.attempts.get(TASK)

    def tell(self, event):
        out = self.core.handle(event, self.now)
        for effect in out:
            self.perform(effect)
        if self.writes:
            for stream in dict.fromkeys(effect.stream for effect in of(SendFrame, out)):
                self.tell(StreamWritable(stream))
        return out

    def perform(self, effect):
        match effect:
            case StartRunner(run, _, send_from):
                self.runner, self.made = run, send_from
            case SendFrame(stream, header, frame):
                there = self.places[frame.run, frame.offset][0]
                assert there[0] == frame.first == header.first, "it is not there"
                assert there[0] <= header.ranges.spans[0][0]
                self.sent.setdefault(stream, []).extend(self.noted(header))
            case SendEnd(stream, end):
                assert stream not in self.ends, "a stream ends twice"
                self.ends[stream] = end.failure and str(end.failure.error())
            case SendToRunner(FreeFrames(run, offsets)):
                for offset in offsets:
                    self.freed += self.places.pop((run, offset))[0]
            case RetainFrames():
                pass
            case _:
                self.orders.append(effect)

    def noted(self, header):
        """Return what is noted in `sent` of a frame."""
        return header.ranges

    def assign(self, *, listed=True, readers=(), drain=False, tasks=(), **changes):
        self.revision += 1
        self.run = replace(self.run, **changes)
        tasks = ((self.run,) if listed else ()) + tuple(tasks)
        return self.tell(Assignment(self.revision, 7, tasks, dict(readers), 1.0, drain))

    def make_frame(self, size, nbytes):
        self.place += 1
        first, self.made = self.made, self.made + size
        self.places[self.runner, self.place] = (list(range(first, first + size)), nbytes)
        self.tell(made(first, first + size, self.place, nbytes, self.runner))

    def end(self):
        return self.tell(RunEnded(self.runner, self.made))

    def open_stream(self, stream, reader, subscription, acked, holds, credit, *more):
        whose = (ReaderId(reader), TASK, self.run.attempt, subscription)
        request = Subscribe(*whose, acked, holds, credit, *more)
        return self.tell(StreamOpened(StreamId(stream), request))

    def ack(self, stream, *spans, credit=0):
        return self.tell(StreamAcked(StreamId(stream), Ack(RangeSet.of(*spans), credit)))

    def close(self, stream):
        return self.tell(StreamClosed(StreamId(stream)))
