"""A small world for the reader's core: a worker's task, a dispatcher, training loops."""

from penstock.protocol.control import ReaderView, SaveResult, TaskView
from penstock.protocol.data import Ack, FrameHeader, Subscribe
from penstock.protocol.nearness import TargetWorkers, WorkerProfile
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, TaskId, WorkerId
from penstock.reader.core.effects import CloseTaskStream, OpenTaskStream, SendAck, SendHeartbeat
from penstock.reader.core.limits import ByteLimit, FrameLimit
from penstock.reader.core.reachability import Vicinity
from penstock.reader.core.session_core import NoElement
from penstock.reader.core.state_machine import ReaderCore
from tests.reader.core.driven_core import LEASE, BlockInHand, Buffer
from tests.reader.produced_task import ProducedTask


class Loop:
    """One training loop with its reader, and the messages on their way to and from it."""

    def __init__(self, world, name, limit, buffer=None):
        self.world, self.name = world, name
        # Every second one prefers every second task.
        target = TargetWorkers.AUTO if ord(name[-1]) % 2 else TargetWorkers.ANY
        vicinity = Vicinity(target, "h")
        self.core = ReaderCore(IterationId(1), name, LEASE, limit, vicinity=vicinity)
        self.buffer = self.core.acks.deliveries.tracker = buffer or BlockInHand()
        self.dry = False
        self.saved = None
        self.queues = {}
        self.late = []
        """What was on its way in streams that broke, and arrives all the same."""
        self.lease_until = -1.0
        self.heartbeat_due = True
        self.views = []
        self.got = []
        self.over = False

    def perform(self):
        for effect in self.core.take_effects():
            match effect:
                case SendHeartbeat():
                    self.heartbeat_due = True
                case OpenTaskStream(task, _, request):
                    self.late += self.queues.get(task, ([], []))[0]
                    self.queues[task] = ([], [])
                    self.queues[task][1].append(request)
                case CloseTaskStream(task):
                    self.late += self.queues.pop(task, ([], []))[0]
                case SendAck(task, ack):
                    if task in self.queues:
                        self.queues[task][1].append(ack)

    def step(self):
        """Take one element, if there is one; a loop never looks at an element twice."""
        buffer, block = self.buffer, isinstance(self.buffer, BlockInHand)
        if (
            block
            and buffer.free
            and buffer.held
            and self.world.now < self.core.membership.lease_until
        ):
            self.take()  # and nobody is told
            return
        self.core.loop_waiting()
        if not block:
            self.fill()
        elif not buffer.held:
            self.pull(None)
        full = buffer.held and (block or self.dry or len(buffer.held) >= buffer.size)
        if full and self.core.permit(self.world.now) is True:
            self.take()
            self.core.loop_running(self.world.now)
            buffer.free = True
        elif self.dry and not buffer.held:
            self.dry = False  # what others lose may still come
            self.over = self.core.finished

    def take(self):
        assert self.world.now < self.lease_until, "law 6: handed out without permission"
        assert self.core.save_state.barrier is None, "law 6: handed out at a cut"
        self.got.append(self.buffer.take())

    def fill(self):
        buffer = self.buffer
        while len(buffer.held) < buffer.size and not self.dry:
            if not self.pull(buffer.size - len(buffer.held)):
                return

    def pull(self, limit):
        core, now = self.core, self.world.now
        answer = core.next_slice(now, limit)
        if answer is NoElement.WAIT:
            return False
        if isinstance(answer, NoElement):
            self.dry = True
        elif core.deliver(answer, now):
            numbers = range(answer.start, answer.stop)
            self.buffer.put((answer.frame.task, number) for number in numbers)
        return True


class RandomCluster:
    """Tasks, a dispatcher that knows all, and loops; *chance* decides what happens next."""

    def __init__(
        self,
        chance,
        *,
        loops,
        tasks,
        faults=True,
        lockstep=False,
        limit=None,
        buffers=False,
        saves=False,
    ):
        self.chance, self.faults, self.now = chance, faults, 0.0
        self.lockstep, self.turn, self.saves = lockstep, 0, saves
        self.sources = {}
        for task in range(1, tasks + 1):
            sizes = [chance.randint(1, 6) for _ in range(chance.randint(0, 6))]
            nbytes = chance.choice([1, 1 << 18, 1 << 21])
            split = chance.random() < 0.5
            self.sources[task] = ProducedTask(task, sum(sizes), sizes, nbytes, split)
        self.limit = limit or (lambda: ByteLimit(1 << 20))
        self.loops = [
            Loop(
                self,
                f"loop{i}",
                self.limit(),
                Buffer(chance.randint(1, 9), chance, splits_elements=buffers == "cut")
                if buffers
                else None,
            )
            for i in range(loops)
        ]
        self.reports = {}
        self.barriers, self.save_results = {}, []
        self.ids = iter(range(100, 10**6))
        self.live = {}
        self.revision = 0
        self.expired = set()
        self.owner = {}
        self.heartbeats = {}

    def run(self, steps=20_000):
        for _ in range(steps):
            self.now += self.chance.choice([0.0, 0.001, 0.05])
            loop = self.chance.choice(self.loops)
            self.chance.choice(
                [self.take, self.take, self.heartbeat, self.hear, self.hear, self.say, self.tick]
                + ([self.save] if self.saves else [])
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
        loop.core.on_tick(self.now)

    def heartbeat(self, loop):
        """Let the dispatcher hear a loop, and answer; answers may be late, and come in order."""
        if loop.heartbeat_due or self.chance.random() < 0.3:
            loop.heartbeat_due = False
            heartbeat = loop.core.heartbeat(self.now)
            for task, report in heartbeat.reports.items():
                self.sources[task].ack(report.acked.ranges)
            self.reports[loop.name] = heartbeat
            reader, status = heartbeat.reader, ReaderStatus.LIVE
            if reader is None:
                reader = self.live.get(loop.name)
                if reader is None:
                    reader = self.live[loop.name] = next(self.ids)
                    self.revision += 1
            elif self.live.get(loop.name) != reader:
                status = ReaderStatus.EXPIRED
            self.begin_attempts()
            self.judge(loop, heartbeat)
            self.revision += 1
            tasks = {
                TaskId(task): TaskView(
                    abs(source.attempt),
                    WorkerId(f"w{task}") if source.attempt > 0 else None,
                    profile=WorkerProfile("h" if task % 2 else "far"),
                )
                for task, source in self.sources.items()
                if not source.done
            }
            loop.views.append(
                self.sent(loop, heartbeat)
                or ReaderView(
                    self.revision,
                    loop.name,
                    ReaderId(reader),
                    status,
                    heartbeat.seq,
                    tasks if status is ReaderStatus.LIVE else {},
                    finished=not tasks and status is ReaderStatus.LIVE,
                    save_results=tuple(self.save_results[-4:]),
                    next_save=len(self.save_results),
                )
            )
        if loop.views and self.chance.random() < 0.7:
            late = self.faults and self.chance.random() < 0.1
            view = loop.views.pop(-1 if late else 0)
            if view.status is ReaderStatus.LIVE:
                sent = self.heartbeats[loop.name, view.seq]
                loop.lease_until = max(loop.lease_until, sent + LEASE)
            loop.core.on_view(view, self.now)

    def begin_attempts(self):
        """Let attempts begin that every live reader reported on."""
        for task, source in self.sources.items():
            if source.attempt > 0:
                continue
            reports = {
                self.live[name]: heartbeat.reports.get(task)
                for name, heartbeat in self.reports.items()
                if self.live.get(name) is not None and heartbeat.reader == self.live[name]
            }
            given = all(
                report is not None and report.fence > -source.attempt for report in reports.values()
            )
            if given and len(reports) == len(self.live):
                source.start({reader: report.buffered for reader, report in reports.items()})

    def judge(self, loop, heartbeat):
        """Save when all live readers are at a barrier: what is acked must be what loops have."""
        live = {name for name in self.live if self.live[name] is not None}
        self.barriers[loop.name] = heartbeat.barrier if loop.name in live else None
        barriers = [self.barriers.get(name) for name in live]
        number = len(self.save_results)
        if barriers and all(
            barrier is not None and barrier.number == number for barrier in barriers
        ):
            acked = {task: source.acked for task, source in self.sources.items()}
            had = {element for each in self.loops for element in each.got}
            for task, numbers in acked.items():
                for name in live - self.expired:
                    mine = {n for t, n in self.named(name).got if t == task}
                    assert mine <= set(numbers), "law 11: handed out and not in the save"
                missing = {(task, n) for n in numbers} - had
                assert not missing, "law 2: saved as taken, and nobody has it"
            self.save_results.append(SaveResult(number, "", b"state"))

    def named(self, name):
        return next(loop for loop in self.loops if loop.name == name)

    def save(self, loop):
        """Let a loop come to a barrier, or hear the result."""
        if self.chance.random() < 0.2 or loop.core.save_state.barrier is not None:
            loop.core.save("", 1.0, self.now)

    def sent(self, loop, heartbeat):
        self.heartbeats[loop.name, heartbeat.seq] = self.now

    def hear(self, loop):
        """Let something arrive at a loop's reader."""
        if loop.late and self.chance.random() < 0.2:
            message, nbytes = loop.late.pop(0)
            if isinstance(message, FrameHeader):
                loop.core.on_frame(message, None, nbytes, self.now)
        for task, (incoming, _) in list(loop.queues.items()):
            if incoming and self.chance.random() < 0.7:
                message, nbytes = incoming.pop(0)
                if isinstance(message, FrameHeader):
                    loop.core.on_frame(message, None, nbytes, self.now)
                    self.check_window(loop, task)
                else:
                    loop.core.on_recall(message, self.now)

    def say(self, loop):
        """Let something arrive at the workers."""
        for task, (incoming, outgoing) in loop.queues.items():
            while outgoing and self.chance.random() < 0.8:
                reader = self.live.get(loop.name)
                message = outgoing.pop(0)
                if isinstance(message, Subscribe):
                    loop.core.on_answered(task, message.subscription, self.now)
                if not isinstance(message, Ack):
                    reader = self.owner[loop.name, task] = message.reader
                else:
                    reader = self.owner[loop.name, task]
                self.sources[task].hear(reader, message, incoming)
        for source in self.sources.values():
            source.serve()

    def trouble(self, loop):
        kind = self.chance.random()
        if kind < 0.1:
            self.now += 2 * LEASE  # everything stood still
        elif kind < 0.3:
            self.lose_worker(self.chance.choice(list(self.sources.values())))
        elif self.chance.random() < 0.6:
            for task in list(loop.queues):
                share = loop.core.tasks[task]
                loop.late += loop.queues.pop(task)[0]
                loop.core.on_stream_broken(task, share.subscription, "cut", self.now)
        elif loop.name in self.live:
            reader = self.live.pop(loop.name)
            self.expired.add(loop.name)
            for source in self.sources.values():
                source.part(reader)

    def lose_worker(self, source):
        """Let the dispatcher end an attempt; its streams break, or its frames come late."""
        if source.attempt < 0 or source.done:
            return
        source.end()
        self.revision += 1

    def check_window(self, loop, task):
        limit, share = loop.core.limit, loop.core.tasks[task]
        if isinstance(limit, FrameLimit):
            asked = sum(s.streaming and s.balance > 0 for s in loop.core.tasks.values())
            slices = sum(len(s.slices) for s in loop.core.tasks.values())
            assert asked + slices <= limit.frames + len(loop.core.tasks), "frames are bounded"
        else:
            assert share.nbytes <= share.window + self.sources[task].nbytes, "bytes are bounded"

    def everything(self):
        return {(t, n) for t, source in self.sources.items() for n in range(source.total)}
