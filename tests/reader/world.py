"""A small world for the reader's mind: a worker's shelf, a dispatcher's word, training loops."""

from dataclasses import dataclass, field, replace

from penstock.messages import Ack, Frame, Recall, StreamEnd, TaskView, View
from penstock.numbers import NO_RUNS, IterationId, ReaderId, Runs, Standing, TaskId, WorkerId
from penstock.reader.core import Reader
from penstock.reader.credit import ByteLimit, FrameLimit
from penstock.reader.hand import Hand, Pause
from penstock.reader.orders import CloseStream, OpenStream, SendAck, SendBeat

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


class Table:
    """One reader, driven by hand: for stories."""

    def __init__(self, limit=None):
        self.now = 0.0
        self.core = Reader(IterationId(1), "token", LEASE, limit or ByteLimit(64 << 20))
        self.as_of = 0
        self.block = None
        self.hand = None

    def view(self, *tasks, at=None, **fields):
        """Let the dispatcher say that these tasks are there: (task, attempt, worker, ...)."""
        self.as_of = self.as_of + 1 if at is None else at
        beat = self.core.beat(self.now).beat if fields.pop("answers", True) else None
        seen = {TaskId(task): TaskView(*rest) for task, *rest in tasks}
        standing = fields.pop("standing", Standing.LIVE)
        reader = ReaderId(fields.pop("reader", 7))
        view = View(self.as_of, "token", reader, standing, beat, seen, **fields)
        self.core.viewed(view, self.now)

    def frame(self, first, stop, *, task=1, part=None, floor=0, nbytes=100, **fields):
        """Let numbers *first* to *stop* arrive."""
        share = self.core.shares[task]
        part = Runs.of((first, stop)) if part is None else Runs.of(*part)
        frame = Frame(
            task, share.attempt, share.opening, first, stop - first, floor, part, b"layout"
        )
        self.core.received(replace(frame, **fields), "load", nbytes, self.now)

    def recall(self, task=1):
        self.core.recalled(Recall(task, self.core.shares[task].attempt), self.now)

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
        return [order.open for order in self.orders() if isinstance(order, OpenStream)]

    def acks(self):
        return [order.ack for order in self.orders() if isinstance(order, SendAck)]


@dataclass
class ShelfStream:
    opening: int
    balance: int
    out: list


@dataclass
class Shelf:
    """A worker with one task of *total* elements in frames of *sizes*, all of them made."""

    task: int
    total: int
    sizes: list
    nbytes: int
    split: bool
    taken: Runs = NO_RUNS
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
        ready = Runs.of((0, self.total)) - self.taken
        for held in self.held.values():
            ready = ready - held
        return ready

    @property
    def done(self):
        return not Runs.of((0, self.total)) - self.taken

    def hear(self, reader, message, out):
        if reader in self.parted:
            return
        if isinstance(message, Ack):
            stream = self.streams.get(reader)
            if stream is not None and stream.out is out:
                stream.balance += message.credit
                self.take(message.taken)
        elif reader not in self.streams or self.streams[reader].opening < message.opening:
            self.take(message.taken.runs)
            buffered = message.buffered - self.taken
            held = self.held.get(reader, NO_RUNS)
            assert not buffered - held, "law 5: a reader buffers what is not reserved for it"
            self.held[reader] = buffered
            self.streams.pop(reader, None)
            self.streams[reader] = ShelfStream(message.opening, message.credit, out)

    def take(self, numbers):
        self.taken = self.taken | numbers
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
            reader = min(hungry, key=lambda r: len(self.held[r]))
            first, stop = next((a, b) for a, b in self.frames() if b > ready.spans[0][0])
            part = ready & Runs.of((first, stop))
            if self.split:
                low, high = part.spans[0]
                part = Runs.of((low, low + max(1, (high - low) // len(self.streams))))
            self.held[reader] = self.held[reader] | part
            stream = self.streams[reader]
            stream.balance -= self.nbytes
            layout, payload = self.pack(first, stop) if self.pack else (b"", self.nbytes)
            spans = self.taken.spans
            floor = spans[0][1] if spans and spans[0][0] == 0 else 0
            frame = Frame(
                self.task, self.attempt, stream.opening, first, stop - first, floor, part, layout
            )
            stream.out.append((frame, payload))
        if any(not self.held[reader] for reader in self.streams):
            for reader, stream in self.streams.items():
                if self.held[reader]:
                    stream.out.append((Recall(self.task, self.attempt), 0))


class Loop:
    """One training loop with its reader, and the messages on their way to and from it."""

    def __init__(self, world, name, limit):
        self.world, self.name = world, name
        self.core = Reader(IterationId(1), name, LEASE, limit)
        self.queues = {}
        self.late = []
        """What was on its way in streams that were given up, and arrives all the same."""
        self.permitted_until = -1.0
        self.beat_due = True
        self.views = []
        self.block = self.hand = None
        self.got = []
        self.over = False

    def perform(self):
        for order in self.core.orders():
            match order:
                case SendBeat():
                    self.beat_due = True
                case OpenStream(task, _, opening):
                    self.late += self.queues.get(task, ([], []))[0]
                    self.queues[task] = ([], [])
                    self.queues[task][1].append(opening)
                case CloseStream(task):
                    self.late += self.queues.pop(task, ([], []))[0]
                case SendAck(task, ack):
                    if task in self.queues:
                        self.queues[task][1].append(ack)

    def step(self):
        """Take one element, if there is one; a loop never looks at an element twice."""
        permitted = self.world.now < self.core.permitted_until
        if permitted and self.block is not None and self.block.at < self.block.count:
            self.block.at += 1
        else:
            answer = self.core.ask(self.world.now)
            if answer is Pause.OVER:
                self.over = True
            if not isinstance(answer, Hand):
                return
            self.hand = answer
            self.block = Counted(answer.stop - answer.start)
            if not self.core.accept(answer, self.block, self.world.now):
                self.block = None
                return
        assert self.world.now < self.permitted_until, "law 6: handed out without permission"
        task = self.hand.share.task
        self.got.append((task, self.hand.start + self.block.at - 1))


class World:
    """Shelves, a dispatcher that knows all, and loops; *chance* decides what happens next."""

    def __init__(self, chance, *, loops, tasks, faults=True, lockstep=False, limit=None):
        self.chance, self.faults, self.now = chance, faults, 0.0
        self.lockstep, self.turn = lockstep, 0
        self.shelves = {}
        for task in range(1, tasks + 1):
            sizes = [chance.randint(1, 6) for _ in range(chance.randint(0, 6))]
            nbytes = chance.choice([1, 1 << 18, 1 << 21])
            split = chance.random() < 0.5
            self.shelves[task] = Shelf(task, sum(sizes), sizes, nbytes, split)
        self.limit = limit or (lambda: ByteLimit(1 << 20))
        self.loops = [Loop(self, f"loop{i}", self.limit()) for i in range(loops)]
        self.ids = iter(range(100, 10**6))
        self.live = {}
        self.as_of = 0
        self.given_up = set()
        self.owner = {}
        self.beats = {}

    def run(self, steps=20_000):
        for _ in range(steps):
            self.now += self.chance.choice([0.0, 0.001, 0.05])
            loop = self.chance.choice(self.loops)
            self.chance.choice(
                [self.take, self.take, self.beat, self.hear, self.hear, self.say, self.tick]
                + ([self.trouble] if self.faults and self.chance.random() < 0.03 else [])
            )(loop)
            loop.perform()
            if all(each.over for each in self.loops):
                return self
        raise AssertionError("law 10: the pass does not end")

    def take(self, loop):
        if self.lockstep:
            loop = self.loops[self.turn % len(self.loops)]
        before = len(loop.got)
        if not loop.over:
            loop.step()
        if len(loop.got) > before or loop.over:
            self.turn += 1
        loop.perform()

    def tick(self, loop):
        loop.core.tick(self.now)

    def beat(self, loop):
        """Let the dispatcher hear a loop, and answer; answers may be late, and come in order."""
        if loop.beat_due or self.chance.random() < 0.3:
            loop.beat_due = False
            beat = loop.core.beat(self.now)
            for task, holding in beat.holdings.items():
                self.shelves[task].take(holding.taken.runs)
            reader, standing = beat.reader, Standing.LIVE
            if reader is None:
                reader = self.live.get(loop.name)
                if reader is None:
                    reader = self.live[loop.name] = next(self.ids)
                    self.as_of += 1
            elif self.live.get(loop.name) != reader:
                standing = Standing.GONE
            self.as_of += 1
            tasks = {
                TaskId(task): TaskView(shelf.attempt, WorkerId(f"w{task}"))
                for task, shelf in self.shelves.items()
                if not shelf.done
            }
            loop.views.append(
                self.sent(loop, beat)
                or View(
                    self.as_of,
                    loop.name,
                    ReaderId(reader),
                    standing,
                    beat.beat,
                    tasks if standing is Standing.LIVE else {},
                    finished=not tasks and standing is Standing.LIVE,
                )
            )
        if loop.views and self.chance.random() < 0.7:
            late = self.faults and self.chance.random() < 0.1
            view = loop.views.pop(-1 if late else 0)
            if view.standing is Standing.LIVE:
                sent = self.beats[loop.name, view.beat]
                loop.permitted_until = max(loop.permitted_until, sent + LEASE)
            loop.core.viewed(view, self.now)

    def sent(self, loop, beat):
        self.beats[loop.name, beat.beat] = self.now

    def hear(self, loop):
        """Let something arrive at a loop's reader."""
        if loop.late and self.chance.random() < 0.2:
            message, nbytes = loop.late.pop(0)
            if isinstance(message, Frame):
                loop.core.received(message, None, nbytes, self.now)
        for task, (incoming, _) in list(loop.queues.items()):
            if incoming and self.chance.random() < 0.7:
                message, nbytes = incoming.pop(0)
                if isinstance(message, Frame):
                    loop.core.received(message, None, nbytes, self.now)
                    self.check_window(loop, task)
                else:
                    loop.core.recalled(message, self.now)

    def say(self, loop):
        """Let something arrive at the workers."""
        for task, (incoming, outgoing) in loop.queues.items():
            while outgoing and self.chance.random() < 0.8:
                reader = self.live.get(loop.name)
                message = outgoing.pop(0)
                if not isinstance(message, Ack):
                    reader = self.owner[loop.name, task] = message.reader
                else:
                    reader = self.owner[loop.name, task]
                self.shelves[task].hear(reader, message, incoming)
        for shelf in self.shelves.values():
            shelf.serve()

    def trouble(self, loop):
        if self.chance.random() < 0.1:
            self.now += 2 * LEASE  # everything stood still
        elif self.chance.random() < 0.6:
            for task in list(loop.queues):
                share = loop.core.shares[task]
                loop.late += loop.queues.pop(task)[0]
                loop.core.stream_broken(task, share.opening, "cut", self.now)
        elif loop.name in self.live:
            reader = self.live.pop(loop.name)
            self.given_up.add(loop.name)
            for shelf in self.shelves.values():
                shelf.part(reader)

    def check_window(self, loop, task):
        limit, share = loop.core.limit, loop.core.shares[task]
        if isinstance(limit, FrameLimit):
            asked = sum(s.streaming and s.balance > 0 for s in loop.core.shares.values())
            pieces = sum(len(s.pieces) for s in loop.core.shares.values())
            assert asked + pieces <= limit.frames + len(loop.core.shares), "frames are bounded"
        else:
            assert share.nbytes <= share.window + self.shelves[task].nbytes, "bytes are bounded"

    def everything(self):
        return {(t, n) for t, shelf in self.shelves.items() for n in range(shelf.total)}
