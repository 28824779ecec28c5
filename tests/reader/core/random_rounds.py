"""A small world of coordinated reads: real consumers' cores, and tasks, a dispatcher, chance."""

from dataclasses import dataclass, field
from functools import partial

from penstock.protocol.control import ReaderView, TaskView
from penstock.protocol.data import FrameHeader, StreamEnd, Subscribe
from penstock.protocol.ranges import RangeSet
from penstock.protocol.rounds import RoundEntry, RoundsView
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock.reader.core.effects import CloseTaskStream, OpenTaskStream, SendAck, SendHeartbeat
from penstock.reader.core.rounds import Consumer, RoundsCore
from penstock.reader.core.session_core import NoElement
from tests.reader.core.driven_core import Buffer


@dataclass
class Task:
    """One task of *groups* groups, run by its *attempt*; *made* says how far that is."""

    groups: int
    nbytes: int
    attempt: int = 1
    made: int = 0
    running: bool = True


@dataclass
class WorkerEnd:
    """The worker's end of one stream."""

    group: int
    subscription: int
    attempt: int
    credit: int
    out: list = field(default_factory=list)


class ConsumerLoop:
    """One consumer: its core, an operator that keeps a few elements, and its training loop."""

    def __init__(self, world, index, start):
        self.world, self.index, self.start = world, index, start
        self.ids = iter(range(1000 * index + 1 + 100 * len(world.log), 10**9))
        consumer = Consumer(index, world.count, start)
        limit = world.limit()
        self.core = RoundsCore(IterationId(1), f"c{index}", limit, None, consumer, 1)
        self.buffer = self.core.acks.deliveries.tracker = Buffer(3, world.chance)
        self.reader, self.streams, self.views, self.got = None, {}, [], []
        self.heartbeat_due, self.taken, self.held, self.over = True, start, {}, False

    def perform(self):
        for effect in self.core.take_effects():
            match effect:
                case SendHeartbeat():
                    self.heartbeat_due = True
                case OpenTaskStream(task, _, Subscribe() as request):
                    self.streams[task] = WorkerEnd(
                        request.wants.group, request.subscription, request.attempt, request.credit
                    )
                    if request.reader != self.reader:
                        self.end(task)
                case CloseTaskStream(task):
                    self.streams.pop(task, None)
                case SendAck(task, ack):
                    if task in self.streams:
                        self.streams[task].credit += ack.credit

    def end(self, task):
        """Let a worker end a stream: its reader is gone."""
        stream = self.streams.pop(task)
        end = StreamEnd(task, stream.attempt)
        self.core.on_stream_ended(stream.subscription, end, self.world.now)

    def pull(self):
        now = self.world.now
        if len(self.buffer.held) < self.buffer.size:
            found = self.core.next_slice(now, self.world.chance.choice([1, 2, None]))
            if not isinstance(found, NoElement):
                assert self.core.deliver(found, now)
                self.buffer.put([piece.load for piece in found.pieces])
            self.over = found is NoElement.END and not self.buffer.held

    def take(self):
        if self.buffer.held:
            self.got.append(self.buffer.held.pop(min(self.buffer.held)))

    def interrupt(self):
        """Drop what the operator has: it comes again."""
        tags = RangeSet.of(*((tag, tag + 1) for tag in self.buffer.held))
        self.buffer.held.clear()
        self.core.requeue(tags, self.world.now)


class RandomRounds:
    """Consumers of tasks; *chance* decides what happens next."""

    def __init__(self, chance, *, count, tasks, limit, faults=True):
        self.chance, self.count, self.limit, self.faults = chance, count, limit, faults
        self.now, self.revision = 0.0, 0
        sizes = [0, 100, 3 << 19]
        self.tasks = {
            TaskId(n + 1): Task(chance.randint(0, 8), chance.choice(sizes)) for n in range(tasks)
        }
        self.log = []
        self.made_by = {}
        """Which attempt made what was released, by round."""
        self.loops = [ConsumerLoop(self, index, 0) for index in range(count)]
        self.gone = []
        """Loops of processes that died."""

    def run(self, steps=30_000):
        for _ in range(steps):
            self.now += self.chance.choice([0.0, 0.001, 0.03])
            loop = self.chance.choice(self.loops)
            peace = [loop.pull, loop.take, self.make]
            peace += [partial(act, loop) for act in (self.hear, self.send, self.tick)]
            trouble = self.faults and self.chance.random() < 0.1
            self.chance.choice([*peace, partial(self.trouble, loop)] if trouble else peace)()
            for each in self.loops:
                each.perform()
            if all(each.over for each in self.loops):
                return self
        raise AssertionError("the pass does not end")

    def make(self):
        task = self.chance.choice(list(self.tasks.values()))
        task.made = min(task.groups, task.made + 1)

    def tick(self, loop):
        loop.core.on_tick(self.now)

    def hear(self, loop):
        """Let the dispatcher hear a consumer and answer; the answer is late, and in order."""
        if loop.heartbeat_due or self.chance.random() < 0.2:
            loop.heartbeat_due = False
            beat = loop.core.heartbeat(self.now)
            if beat.reader is None and loop.reader is None:
                loop.reader = ReaderId(next(loop.ids))
            elif beat.reader == loop.reader:
                report = beat.rounds
                assert loop.taken <= report.taken <= len(self.log), "taken only grows"
                loop.taken = report.taken
                loop.held = {held.task: held for held in report.held}
            self.release()
            self.answer(loop, beat)
        if loop.views and self.chance.random() < 0.8:
            loop.core.on_view(loop.views.pop(0), self.now)

    def release(self):
        """Let the log grow while some task's next group is here at all consumers."""
        grown = True
        while grown:
            grown = False
            for name, task in self.tasks.items():
                group = self.released(name)
                held = [loop.held.get(name) for loop in self.loops]
                if all(h and h.attempt == task.attempt and h.groups > group for h in held):
                    self.made_by[len(self.log)] = task.attempt
                    self.log.append(RoundEntry(name, group))
                    grown = True

    def released(self, name):
        return sum(entry.task == name for entry in self.log)

    def answer(self, loop, beat):
        self.revision += 1
        known = beat.reader in (None, loop.reader)
        floor = min(each.taken for each in self.loops)
        settled = {n: sum(e.task == n for e in self.log[:floor]) for n in self.tasks}
        tasks = {
            name: TaskView(
                task.attempt,
                WorkerId(f"w{name}") if task.running else None,
                None,
                1,
                self.released(name),
                settled[name] * self.count,
            )
            for name, task in self.tasks.items()
            if settled[name] < task.groups
        }
        groups = sum(task.groups for task in self.tasks.values())
        last = groups if len(self.log) == groups else None
        rounds = RoundsView(loop.start, loop.taken, tuple(self.log[loop.taken :]), last)
        reader = loop.reader if known else beat.reader
        status = ReaderStatus.LIVE if known else ReaderStatus.EXPIRED
        loop.views.append(
            ReaderView(
                self.revision,
                f"c{loop.index}",
                reader,
                status,
                beat.seq,
                tasks if known else {},
                rounds=rounds if known else None,
            )
        )

    def send(self, loop):
        """Let workers send, and what they sent arrive."""
        for name, stream in list(loop.streams.items()):
            task = self.tasks[name]
            loop.core.on_answered(name, stream.subscription, self.now)
            live = task.running and stream.attempt == task.attempt
            if live and stream.credit > 0 and stream.group < task.made:
                stream.credit -= max(1, task.nbytes)
                stream.out.append((stream.group, task.attempt))
                stream.group += 1
            if stream.out and self.chance.random() < 0.8:
                group, attempt = stream.out.pop(0)
                number = group * self.count + loop.index
                own = RangeSet.of((number, number + 1))
                frame = FrameHeader(
                    name, attempt, stream.subscription, number, 1, 0, own, b"", group=group
                )
                load = (name, group, attempt)
                loop.core.on_frame(frame, load, max(1, task.nbytes), self.now)

    def trouble(self, loop):
        kind = self.chance.choice(["worker", "back", "cut", "interrupt", "expire", "restart"])
        task = self.chance.choice(list(self.tasks.values()))
        if kind == "worker":
            task.running = False
        elif kind == "back" and not task.running:
            task.running, task.attempt = True, task.attempt + 1
            task.made = 0
        elif kind == "cut":
            for name in list(loop.streams):
                subscription = loop.streams.pop(name).subscription
                loop.core.on_stream_broken(name, subscription, "cut", self.now)
        elif kind == "interrupt":
            loop.interrupt()
        elif kind == "expire" and loop.reader is not None:
            loop.reader = ReaderId(next(loop.ids))
            loop.held = {}
            for name in list(loop.streams):
                loop.end(name)
        elif kind == "restart" and self.chance.random() < 0.3:
            self.restart(loop)
        for each in self.tasks.values():
            if not each.running and self.chance.random() < 0.5:
                each.running, each.attempt, each.made = True, each.attempt + 1, 0

    def restart(self, loop):
        """Let a consumer's process die, and another begin with what was known to be taken."""
        self.gone.append(loop)
        new = ConsumerLoop(self, loop.index, loop.taken)
        new.ids = iter(range((loop.reader or 0) + 1, 10**9))
        self.loops[self.loops.index(loop)] = new
