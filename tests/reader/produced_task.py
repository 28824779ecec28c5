"""A worker with one task, all of whose elements are made: what readers' tests read from."""

from dataclasses import dataclass, field

from penstock.protocol.data import Ack, FrameHeader, Recall
from penstock.protocol.ranges import NO_RANGES, RangeSet


@dataclass
class ReaderStream:
    subscription: int
    balance: int
    out: list
    waits: bool = False
    """Whether its loop said that it waits, though it holds something."""


@dataclass
class ProducedTask:
    """A worker with one task of *total* elements in frames of *sizes*, all of them made."""

    task: int
    total: int
    sizes: list
    nbytes: int
    split: bool
    acked: RangeSet = NO_RANGES
    held: dict = field(default_factory=dict)
    pack: object = None
    """Gives layout and payload of the elements from one number to another."""
    streams: dict = field(default_factory=dict)
    attempt: int = 1
    parted: set = field(default_factory=set)

    def frames(self):
        at = 0
        for size in self.sizes:
            yield at, at + size
            at += size

    @property
    def ready(self):
        ready = RangeSet.of((0, self.total)) - self.acked
        for held in self.held.values():
            ready = ready - held
        return ready

    @property
    def done(self):
        return not RangeSet.of((0, self.total)) - self.acked

    def hear(self, reader, message, out):
        if reader in self.parted:
            return
        if isinstance(message, Ack):
            stream = self.streams.get(reader)
            if stream is not None and stream.out is out:
                stream.balance += message.credit
                self.ack(message.acked)
                if message.acked or not message.credit:
                    stream.waits = not message.acked
        elif message.attempt != self.attempt:
            return
        elif reader not in self.streams or self.streams[reader].subscription < message.subscription:
            self.ack(message.acked.ranges)
            buffered = message.buffered - self.acked
            held = self.held.get(reader, NO_RANGES)
            assert not buffered - held, "law 5: a reader buffers what is not reserved for it"
            self.held[reader] = buffered
            self.streams.pop(reader, None)
            self.streams[reader] = ReaderStream(message.subscription, message.credit, out)

    def forget_hint(self, reader):
        """Take a reader's loop for busy, until it says that it waits."""
        if reader in self.streams:
            self.streams[reader].waits = False

    def ack(self, numbers):
        self.acked = self.acked | numbers
        for reader, held in self.held.items():
            self.held[reader] = held - numbers

    def part(self, reader):
        self.parted.add(reader)
        self.streams.pop(reader, None)
        self.held.pop(reader, None)

    def serve(self):
        while ready := self.ready:
            hungry = [r for r, stream in self.streams.items() if stream.balance > 0]
            if not hungry:
                break
            reader = min(hungry, key=lambda r: (not self.streams[r].waits, len(self.held[r])))
            first, stop = next((a, b) for a, b in self.frames() if b > ready.spans[0][0])
            part = ready & RangeSet.of((first, stop))
            if self.split:
                low, high = part.spans[0]
                part = RangeSet.of((low, low + max(1, (high - low) // len(self.streams))))
            self.held[reader] = self.held[reader] | part
            stream = self.streams[reader]
            stream.balance -= self.nbytes
            stream.waits = False
            layout, payload = self.pack(first, stop) if self.pack else (b"", self.nbytes)
            spans = self.acked.spans
            floor = spans[0][1] if spans and spans[0][0] == 0 else 0
            frame = FrameHeader(
                self.task,
                self.attempt,
                stream.subscription,
                first,
                stop - first,
                floor,
                part,
                layout,
            )
            stream.out.append((frame, payload))
        self.recall()

    def recall(self):
        waiting = {r for r, stream in self.streams.items() if stream.waits or not self.held[r]}
        holders = {reader for reader, held in self.held.items() if held}
        last = holders <= waiting
        recall = Recall(self.task, self.attempt, last), 0
        for reader, stream in self.streams.items() if waiting else ():
            if last == (reader in waiting) and (last or reader in holders):
                if not isinstance(stream.out, list) or stream.out[-1:] != [recall]:
                    stream.out.append(recall)

    def end(self):
        """Lose the worker: its attempt is over."""
        self.streams = {}
        self.attempt = -self.attempt

    def start(self, held):
        """Let the next attempt begin; *held* is what readers have, by their own reports."""
        self.attempt = 1 - self.attempt
        self.held = {reader: numbers - self.acked for reader, numbers in held.items()}
