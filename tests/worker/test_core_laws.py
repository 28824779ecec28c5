"""What no scenario can say: laws of the worker's mind that hold for every run.

A small world around one `Core`, without an event loop: a runner with little room, readers whose
streams are slow and break, a dispatcher that lets readers in and gives them up.
"""

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from penstock.messages import Ack, Assignment, Codec, Open, Run, SplitGrant
from penstock.numbers import (
    NOTHING,
    DatasetId,
    EngineState,
    IterationId,
    ReaderId,
    Runs,
    Split,
    SplitLog,
    Standing,
    Taken,
    TaskId,
    WorkerId,
)
from penstock_worker.core.events import (
    Acked,
    Asked,
    AskSplits,
    Beat,
    Break,
    Complain,
    Connected,
    Hung,
    Opened,
    SendEnd,
    SendFrame,
    SendRecall,
    StartRun,
    StopRun,
    StreamId,
    Tell,
    Tick,
)
from penstock_worker.core.mind import Core
from penstock_worker.runner.orders import Ended, Free, Grant, Made, Need, Reached, Want

TASK = TaskId(1)


class Runner:
    """Makes a task's elements into frames, as far as its arena and its splits go."""

    def __init__(self, run, rng, room):
        self.run, self.rng, self.room = run, rng, room
        self.position = 0
        self.left = deque()
        self.number = 0
        self.places = {}
        self.offset = 0
        self.ended = self.stopped = False
        self.outbox = deque()
        self.next = None

    def size(self):
        nbytes = self.rng.choice((0, 1, 5, 20, 80)) if self.rng.random() < 0.9 else 100_000
        return self.rng.randint(1, 12), nbytes

    def tell(self, order):
        assert order.run == self.run and not self.stopped
        match order:
            case Free(offsets=offsets):
                for offset in offsets:
                    del self.places[offset]  # a place that is freed twice is not here
            case Grant(position=position, splits=splits):
                assert position == self.position
                self.left.extend(splits)
                self.position += len(splits)
            case Want():
                pass

    def step(self):
        if self.stopped or self.ended:
            return
        if not self.left:
            self.outbox.append(Need(self.run, 0, self.position))
            return
        split = self.left.popleft()
        if not split:
            self.ended = True
            self.outbox.append(Ended(self.run, self.number))
            return
        count, nbytes = self.next = self.next or self.size()
        count = min(len(split), count)
        if sum(self.places.values()) + min(nbytes, self.room) > self.room:
            self.left.appendleft(split)
            return
        self.next = None
        if len(split) > count:
            self.left.appendleft(Split(split.start + count, split.stop))
        self.places[self.offset] = min(nbytes, self.room)
        self.outbox.append(
            Made(self.run, self.number, count, self.offset, nbytes, b"", Codec.NONE, nbytes)
        )
        self.offset += 1
        self.number += count
        if self.rng.random() < 0.3:
            self.outbox.append(Reached(self.run, EngineState(self.number)))


@dataclass
class Line:
    """One stream between a reader and the worker, with what is under way in both directions."""

    id: StreamId
    opening: int
    credit: int
    down: deque = field(default_factory=deque)
    up: deque = field(default_factory=deque)
    under_way: int = 0


class Reader:
    """A training loop: takes what it has, acknowledges late, gives back what is recalled."""

    def __init__(self, number, rng):
        self.id, self.rng = ReaderId(number), rng
        self.opening = 0
        self.buffer = {}
        self.taken = set()
        self.unsaid = set()
        self.line = None
        self.parted = False
        self.born = rng.choice((0, 0, 300))
        self.credit = rng.choice((1, 30, 200, 1000))
        self.owed = 0
        self.failure = None

    def word(self):
        buffered = Runs.of(*((n, n + 1) for n in self.buffer))
        return Taken(0, Runs.of(*((n, n + 1) for n in self.taken))), buffered


class World:
    def __init__(self, seed, readers=3):
        self.rng = random.Random(seed)
        self.core = Core(WorkerId("w:1"), 7, None)
        self.now = 0.0
        self.source = self.rng.randint(0, 150)
        self.drawn = 0
        self.log = SplitLog()
        self.runner = None
        self.readers = [Reader(n, self.rng) for n in range(1, readers + 1)]
        self.standing = {}
        self.as_of = 0
        self.streams = {}
        self.openings = []
        self.next_stream = 0
        self.takers = {}
        self.known_taken = NOTHING
        self.beats = self.steps = 0
        self.lockstep = self.rng.random() < 0.5

    # --- the core's effects ---

    def apply(self, event):
        self.now += 0.001
        for effect in self.core.apply(event, self.now):
            self.perform(effect)
        self.check()

    def perform(self, effect):
        match effect:
            case StartRun(run):
                self.runner = Runner(run, self.rng, self.rng.choice((60, 300)))
            case StopRun(run):
                assert run == self.runner.run and not self.runner.stopped
                self.runner.stopped = True
            case Tell(order):
                self.runner.tell(order)
            case AskSplits(request):
                assert request.position <= self.log.stop
                self.answer = request.position
            case SendFrame(stream, header, made):
                assert made.offset in self.runner.places, "a frame is sent after its place is freed"
                reader, line = self.streams[stream]
                assert line.credit - line.under_way > 0, "credit is exceeded by more than one frame"
                line.under_way += made.nbytes
                assert header.opening == line.opening
                assert not header.part - Runs.of((header.first, header.first + header.count)), (
                    "a part is not of its frame"
                )
                line.down.append((header, made.nbytes))
            case SendRecall(stream, recall):
                self.streams[stream][1].down.append((recall, 0))
            case SendEnd(stream, end):
                assert end.failure is None
                if stream in self.streams:
                    self.streams[stream][1].down.append((end, 0))
            case Break(stream):
                self.hang(self.streams[stream][1])
            case Beat():
                self.beats += 1
            case Complain(text):
                raise AssertionError(text)

    # --- what happens ---

    def order(self):
        self.as_of += 1
        run = Run(
            TASK, 0, 1, IterationId(1), DatasetId("d"), 0, Codec.NONE,
            logs=(SplitLog(),), taken=self.known_taken,
        )  # fmt: skip
        self.apply(Assignment(self.as_of, 7, (run,), dict(self.standing), 1.0))

    def grant(self):
        position = getattr(self, "answer", None)
        if position is None:
            return
        if position == self.log.stop:
            stop = min(self.source, self.drawn + self.rng.randint(1, 40))
            self.log = self.log.plus([Split(self.drawn, stop)])
            self.drawn = stop
        splits = self.log.after(position)
        if self.rng.random() < 0.8:  # else the answer is lost
            self.answer = None
            self.apply(SplitGrant(TASK, 1, 0, position, splits))
        elif self.rng.random() < 0.5:
            self.apply(Connected())

    def open(self, reader):
        if reader.parted or self.steps < reader.born:
            return
        if reader.line is not None and self.rng.random() < 0.5:
            self.hang(reader.line)
        reader.opening += 1
        self.next_stream += 1
        # Credit is for what is not yet freed: a new stream starts with all of it.
        reader.line = Line(StreamId(self.next_stream), reader.opening, reader.credit)
        reader.owed = 0
        taken, buffered = reader.word()
        opening = Open(reader.id, TASK, 1, reader.opening, taken, buffered, reader.credit)
        self.openings.append((reader, reader.line, opening))

    def opened(self):
        """Let an opening arrive, in any order, and also if its reader has hung up since."""
        if self.openings:
            reader, line, opening = self.openings.pop(self.rng.randrange(len(self.openings)))
            self.streams[line.id] = (reader, line)
            self.apply(Opened(line.id, opening))

    def hang(self, line):
        for reader in self.readers:
            if reader.line is line:
                reader.line = None
        if self.streams.pop(line.id, None) is not None:
            self.apply(Hung(line.id))

    def deliver(self, stream):
        """Let the next message of a stream arrive, or the next acknowledgement."""
        reader, line = self.streams[stream]
        if reader.line is not line and self.rng.random() < 0.2:
            self.hang(line)
        elif line.up and self.rng.random() < 0.5:
            ack = line.up.popleft()
            line.under_way -= ack.credit
            self.apply(Acked(stream, ack))
        elif line.down:
            message, nbytes = line.down.popleft()
            self.arrived(reader, line, message, nbytes)
            if stream in self.streams:
                self.apply(Asked(stream))

    def arrived(self, reader, line, message, nbytes):
        kind = type(message).__name__
        if kind == "StreamEnd":
            self.hang(line)
        elif reader.line is not line or reader.parted:
            return
        elif kind == "Recall":
            if self.rng.random() < 0.7:
                reader.buffer.clear()
                self.open(reader)
        else:
            reader.owed += nbytes
            for number in message.part:
                if number not in reader.taken and number >= message.floor:
                    reader.buffer[number] = True

    def take(self, reader):
        if reader.parted or not reader.buffer:
            return
        if self.lockstep and len(reader.taken) > min(
            len(r.taken) for r in self.readers if not r.parted
        ):
            return
        number = min(reader.buffer)
        del reader.buffer[number]
        reader.taken.add(number)
        reader.unsaid.add(number)
        self.takers.setdefault(number, []).append(reader)

    def say(self, reader):
        if reader.line is None or reader.parted:
            return
        credit, reader.owed = reader.owed, 0
        taken = Runs.of(*((n, n + 1) for n in reader.unsaid))
        reader.unsaid.clear()
        reader.line.up.append(Ack(taken, credit))

    def part(self, reader):
        if reader.parted or sum(not r.parted for r in self.readers) == 1:
            return
        reader.parted = True
        gone = self.rng.random() < 0.5
        self.standing[reader.id] = Standing.GONE if gone else Standing.LEFT
        reader.gone = gone
        if not gone:
            self.known_taken |= reader.word()[0]
        self.order()

    # --- laws ---

    def check(self):
        attempt = self.core.attempts.get(TASK)
        if attempt is None:
            return
        places = [attempt.ready, *attempt.held.values(), attempt.taken.runs]
        count = sum(map(len, places))
        union = Runs.of(*(span for runs in places for span in runs.spans))
        assert count == len(union), "a number is in two places"
        assert union.spans == (((0, attempt.head),) if attempt.head else ()), "a number is lost"

    def over(self):
        attempt = self.core.attempts.get(TASK)
        return attempt is not None and attempt.done

    def step(self, calm=False):
        self.steps += 1
        roll, rng = self.rng.random(), self.rng
        reader = rng.choice(self.readers)
        if roll < 0.2 and self.runner:
            self.runner.step()
        elif roll < 0.4 and self.runner and self.runner.outbox:
            self.apply(self.runner.outbox.popleft())
        elif roll < 0.45:
            self.grant()
        elif roll < 0.5:
            self.opened()
        elif roll < 0.7 and self.streams:
            self.deliver(rng.choice(list(self.streams)))
        elif roll < 0.85:
            self.take(reader)
        elif roll < 0.92:
            self.say(reader)
        elif roll < 0.94:
            self.now += 0.5
            self.apply(Tick())
        elif reader.line is None or (not calm and roll < 0.97):
            self.open(reader)
        elif not calm and roll < 0.972:
            self.part(reader)
        elif not calm and roll < 0.99 and reader.line:
            self.hang(reader.line)
        elif self.core.as_of < 0 or not calm:
            self.order()


@pytest.mark.parametrize("block", range(8))
def test_every_element_is_taken_once_whatever_happens(block):
    for seed in range(block * 40, block * 40 + 40):
        world = World(seed, readers=1 + seed % 4)
        for _ in range(world.rng.randint(0, 1500)):
            world.step()
        for _ in range(60_000):
            if world.over():
                break
            world.step(calm=True)

        attempt = world.core.attempts[TASK]
        assert world.over(), f"seed {seed}: {attempt.ready} {attempt.held} {attempt.taken}"
        assert attempt.total == world.source
        assert world.core.beat().progress[TASK].done
        assert world.runner.stopped and not world.runner.places, f"seed {seed}"
        assert not world.streams or all(
            any(type(m).__name__ == "StreamEnd" for m, _ in line.down)
            for _, line in world.streams.values()
        ), f"seed {seed}: a stream does not end"
        for number in range(world.source):
            takers = world.takers[number]
            again = [reader for reader in takers if not getattr(reader, "gone", False)]
            assert len(again) <= 1, f"seed {seed}: {number} is taken twice"
