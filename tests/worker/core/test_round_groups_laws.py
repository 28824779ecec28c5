"""What holds of a grouped task whatever its consumers, its runners and its floor do."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Checkpoint
from penstock_worker.core.events import DispatcherConnected, RunnerLost, StreamWritable
from penstock_worker.runner.messages import ArenaFull, CheckpointTaken
from tests.worker.core.driven_task import TASK
from tests.worker.core.group_consumers import EACH, GroupConsumers


class Consumer:
    """What one consumer has: all groups below *held*, and its loop took those below *taken*."""

    def __init__(self):
        self.held = self.taken = 0
        self.stream = None
        self.reader = 0
        self.subscription = 0
        self.seen = 0
        """How many frames of its stream have arrived."""


class World(GroupConsumers):
    """A task of *total* elements, and a runner with room for so many frames."""

    def __init__(self, consumers, remainder, total, frames):
        super().__init__(consumers, remainder=remainder)
        self.task_total, self.frames = total, frames
        self.consumers = [Consumer() for _ in range(consumers)]
        self.floors = self.streams = self.readers = 0
        self.released = 0
        """How many groups all had at a time: only those are taken."""
        self.deaths = 0
        self.writes = False

    @property
    def groups(self):
        return self.run.grouped.count(self.task_total, ended=True)

    def step(self, what, which, much):
        index = which % len(self.consumers)
        consumer = self.consumers[index]
        match what:
            case "make":
                self.produce(much)
            case "open":
                self.subscribe(index, restart=much % 3 == 0, back=much % 2)
            case "close" if consumer.stream is not None:
                self.close(consumer.stream)
                consumer.stream = None
            case "credit" if consumer.stream is not None:
                self.ack(consumer.stream, floor=self.floors, credit=EACH * much)
            case "arrive" if consumer.stream is not None:
                self.arrive(consumer)
            case "take":
                self.released = max(self.released, min(c.held for c in self.consumers))
                here = min(consumer.held, self.released)
                consumer.taken = max(consumer.taken, min(here, consumer.taken + much))
            case "floor":
                self.settle()
            case "die" if self.attempt and self.attempt.run and self.deaths < 2:
                self.deaths += 1
                self.tell(RunnerLost(self.runner, "died"))
            case "checkpoint" if self.attempt and self.attempt.run:
                self.tell(CheckpointTaken(self.runner, Checkpoint(self.made)))
            case _:
                pass
        self.check()

    def produce(self, much):
        for _ in range(much):
            attempt = self.attempt
            if attempt is None or attempt.run is None or attempt.delivery.total is not None:
                return
            if self.made >= self.task_total:
                self.end()
            elif sum(run == self.runner for run, _ in self.places) >= self.frames:
                self.tell(ArenaFull(self.runner))
                return
            else:
                self.deaths = 0
                self.make()

    def subscribe(self, index, *, restart, back):
        consumer = self.consumers[index]
        if consumer.reader == 0 or restart:
            self.readers += 1
            consumer.reader, consumer.subscription = self.readers, 0
            consumer.held = consumer.taken
        consumer.held = max(consumer.taken, consumer.held - back)
        consumer.subscription += 1
        self.streams += 1
        consumer.stream, consumer.seen = self.streams, 0
        self.open(
            self.streams, index, consumer.held, reader=consumer.reader,
            subscription=consumer.subscription, credit=5 * EACH // 2,
        )  # fmt: skip

    def arrive(self, consumer):
        """Let all that was sent arrive: each consumer's groups in order, without a gap."""
        sent = self.sent.get(consumer.stream, [])
        for group, number, filler in sent[consumer.seen :]:
            index = self.consumers.index(consumer)
            total = self.task_total if group == self.groups - 1 else None
            assert group == consumer.held, "a group is left out"
            if self.run.grouped.element(group, index, None) == number:
                assert not filler
            else:
                assert total is not None, "an element of another consumer"
                assert filler == (self.run.grouped.remainder is Remainder.PAD)
                assert self.run.grouped.floor(group) <= number < total
            consumer.held += 1
        consumer.seen = len(sent)
        self.tell(StreamWritable(consumer.stream))

    def settle(self):
        """Let the dispatcher say what all have taken."""
        groups = min(consumer.taken for consumer in self.consumers)
        self.floors = self.run.grouped.floor(groups)
        self.assign(floor=self.floors)

    def check(self):
        attempt = self.attempt
        if (TASK, self.run.attempt) in self.core.heartbeat().ended:
            self.next_attempt()
        elif attempt is not None:
            floor = attempt.delivery.floor
            assert len(self.places) <= max(0, attempt.delivery.head - floor)
            assert all(numbers[0] >= floor for numbers, _ in self.places.values())
            assert sum(100 for _ in self.places) == attempt.delivery.nbytes
            for consumer in self.consumers:
                if consumer.stream in self.ends:
                    assert self.ends[consumer.stream] is None
                    consumer.stream = None

    def next_attempt(self):
        self.places.clear()
        self.assign(listed=False)
        for consumer in self.consumers:
            consumer.stream, consumer.reader = None, 0
            consumer.held = max(consumer.taken, min(consumer.held, self.released))
        self.run = replace(self.run, attempt=self.run.attempt + 1)
        self.assign()

    def finish(self):
        """Let all consumers read to the end."""
        for _ in range(50 * (self.groups + 5)):
            for index, consumer in enumerate(self.consumers):
                if consumer.stream is None:
                    self.step("open", index, 1)
                for what in ("arrive", "take", "credit"):
                    self.step(what, index, 1)
            self.step("make", 0, 3)
            self.step("floor", 0, 0)
            if self.attempt.delivery.done:
                return
        raise AssertionError("it does not end")


STEPS = st.tuples(
    st.sampled_from(
        ["make", "make", "open", "close", "credit", "arrive", "arrive", "take", "floor", "die",
         "checkpoint"]
    ),
    st.integers(0, 3),
    st.integers(1, 6),
)  # fmt: skip


@given(
    consumers=st.integers(1, 4),
    remainder=st.sampled_from(Remainder),
    total=st.integers(0, 30),
    frames=st.integers(1, 12),
    steps=st.lists(STEPS, max_size=80),
)
def test_each_consumer_gets_its_groups_in_order_and_all_come_to_the_end(
    consumers, remainder, total, frames, steps
):
    world = World(consumers, remainder, total, frames)
    for step in steps:
        world.step(*step)

    world.finish()

    assert [consumer.taken for consumer in world.consumers] == [world.groups] * consumers
    assert world.tell(DispatcherConnected()) == []
    assert not world.places
