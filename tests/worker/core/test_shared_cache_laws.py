"""What holds of a cached task whatever its trainers, its runners and its workers do."""

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.cache import Cached, TrainerProgress, WhenFull
from penstock.protocol.ranges import NOTHING_ACKED, RangeSet
from penstock.protocol.types import Checkpoint, ReaderStatus
from penstock_worker.core.events import RunnerLost, StreamWritable, Tick
from penstock_worker.runner.messages import CheckpointTaken
from tests.worker.core.cache_trainers import NBYTES, CacheTrainers
from tests.worker.core.driven_task import TASK


class Reader:
    """A live reader of a trainer: it *holds* what has arrived, and its loop took the rest."""

    def __init__(self, name, trainer):
        self.name, self.trainer = name, trainer
        self.stream = None
        self.subscription = self.seen = 0
        self.holds, self.unsent = [], []
        """What its loop did not take, and what it took and did not ack."""


class World(CacheTrainers):
    """A task of *total* elements that trainers "a" and "b" read, and later perhaps "c"."""

    def __init__(self, when_full, total, frames):
        self.total, self.when_full = total, when_full
        self.readers, self.names, self.opened = [], 0, 0
        self.taken = {}
        """By trainer: what its loops took."""
        self.reported = {}
        """By trainer: the last `TrainerProgress` that the dispatcher got."""
        self.acks = {}
        """By trainer: what its readers have acked."""
        self.checkpoint, self.state = 0, None
        self.deaths = 0
        for trainer in "ab":
            self.join(trainer)
        readers = {reader.name: reader.trainer for reader in self.readers}
        super().__init__(when_full, frames=frames, readers=readers)
        self.writes = False

    def join(self, trainer):
        self.names += 1
        self.readers.append(Reader(self.names, trainer))
        self.taken.setdefault(trainer, [])
        self.acks.setdefault(trainer, NOTHING_ACKED)

    def step(self, what, which, much):
        reader = self.readers[which % len(self.readers)]
        match what:
            case "join" if len(self.readers) < 6:
                self.join("abc"[which % 3])
            case "make":
                self.produce(much)
            case "open":
                self.subscribe(reader, much * NBYTES)
            case "close" if reader.stream is not None:
                self.close(reader.stream)
                reader.stream = None
            case "arrive":
                self.arrive(reader)
            case "take":
                self.take(reader, much)
            case "ack":
                self.give(reader, much * NBYTES)
            case "leave":
                self.leave(reader)
            case "beat":
                self.beat()
            case "state":
                self.tell(CheckpointTaken(self.runner, Checkpoint(self.made)))
            case "die" if self.deaths < 2 and self.attempt.run is not None:
                self.deaths += 1
                self.tell(RunnerLost(self.runner, "died"))
                assert self.attempt.run is None or self.made == self.cache.head
            case "tick":
                self.tell(Tick())
            case "move":
                self.move()
            case _:
                pass
        self.check()

    def produce(self, much):
        for _ in range(much):
            if self.attempt.run is None or self.attempt.delivery.total is not None:
                return
            if self.made >= self.total:
                self.end()
            elif self.make() == 0:
                return
            else:
                self.deaths = 0

    def subscribe(self, reader, credit):
        self.opened += 1
        reader.subscription += 1
        if reader.stream is not None:
            self.close(reader.stream)
        reader.stream, reader.seen, reader.unsent = self.opened, 0, []
        self.told(reader.trainer, self.taken_by(reader))
        self.open(
            self.opened, reader.trainer, reader=reader.name, subscription=reader.subscription,
            credit=credit, holds=[(n, n + 1) for n in reader.holds],
            acked=self.taken_by(reader).spans,
        )  # fmt: skip
        assert self.ends.get(reader.stream) is None

    def taken_by(self, reader):
        mine = [number for who, number in self.taken[reader.trainer] if who == reader.name]
        return RangeSet.of(*((n, n + 1) for n in mine))

    def told(self, trainer, numbers):
        self.acks[trainer] = self.acks[trainer].union(numbers)

    def arrive(self, reader):
        if reader.stream is None:
            return
        new = self.got(reader.stream)[reader.seen :]
        reader.seen += len(new)
        reader.holds += new
        self.tell(StreamWritable(reader.stream))

    def take(self, reader, much):
        for _ in range(min(much, len(reader.holds))):
            number = reader.holds.pop(0)
            assert all(number != n for _, n in self.taken[reader.trainer]), "it comes again"
            self.taken[reader.trainer].append((reader.name, number))
            reader.unsent.append(number)

    def give(self, reader, credit):
        if reader.stream is not None:
            spans = [(number, number + 1) for number in reader.unsent]
            reader.unsent = []
            self.told(reader.trainer, RangeSet.of(*spans))
            self.ack(reader.stream, *spans, credit=credit)

    def live(self):
        return {reader.name: reader.trainer for reader in self.readers}

    def leave(self, reader):
        """Leave, if the trainer has another reader: the dispatcher gets all acks before."""
        if sum(other.trainer == reader.trainer for other in self.readers) < 2:
            return
        self.readers.remove(reader)
        self.told(reader.trainer, self.taken_by(reader))
        self.assign(cached=self.cached(), status={reader.name: ReaderStatus.LEFT})

    def cached(self):
        trainers = {}
        for name, acks in self.acks.items():
            known = self.reported.get(name, TrainerProgress())
            if name in self.reported or acks.ranges:
                trainers[name] = replace(known, acked=known.acked | acks)
        return Cached("job", self.when_full, trainers, self.live())

    def beat(self):
        progress = self.core.heartbeat().progress[TASK]
        self.reported |= progress.trainers
        if progress.checkpoint is not None:
            self.checkpoint = max(self.checkpoint, progress.checkpoint.number)

    def move(self):
        """End the attempt as if its worker had died; readers say what they have, and go on."""
        self.assign(listed=False)
        self.places.clear()
        for reader in self.readers:
            self.told(reader.trainer, self.taken_by(reader))
            reader.stream, reader.subscription, reader.unsent = None, 0, []
        unacked = {r.name: RangeSet.of(*((n, n + 1) for n in r.holds)) for r in self.readers}
        self.run = replace(
            self.run, attempt=self.run.attempt + 1, checkpoint=Checkpoint(self.checkpoint),
            unacked=unacked, cached=self.cached(),
        )  # fmt: skip
        self.assign()

    def check(self):
        cache = self.cache
        kept = {number for numbers, _ in self.places.values() for number in numbers}
        assert kept == set(range(cache.oldest, cache.head)), "the window has gaps"
        assert cache.nbytes == sum(nbytes for _, nbytes in self.places.values())
        assert cache.nbytes <= self.attempt.room
        for name, place in cache.trainers().items():
            taken = {number for _, number in self.taken[name]}
            known = place.acked.ranges
            there = len(known - RangeSet.of(*((n, n + 1) for n in taken)))
            waiting = sum(number not in place.acked for number in taken)
            assert there == place.skipped + place.before, "the account does not balance"
            assert waiting <= sum(len(r.unsent) for r in self.readers if r.trainer == name) or any(
                r.stream is None for r in self.readers if r.trainer == name
            )
            if self.when_full is WhenFull.WAIT:
                assert place.skipped == 0

    def finish(self):
        for _ in range(60 * (self.total + 5)):
            for index, reader in enumerate(self.readers):
                if reader.stream is None:
                    self.step("open", index, 3)
                for what in ("arrive", "take", "ack"):
                    self.step(what, index, 5)
            self.step("make", 0, 3)
            self.step("tick", 0, 0)
            places = [self.cache.trainers().get(trainer) for trainer in self.live().values()]
            if self.cache.total is not None and all(
                place and place.acked.floor >= self.total for place in places
            ):
                return
        raise AssertionError("it does not end")


WHAT = [
    "make", "make", "make", "open", "open", "close", "arrive", "arrive", "take", "take", "ack",
    "ack", "leave", "join", "beat", "state", "die", "tick", "move",
]  # fmt: skip

STEPS = st.tuples(st.sampled_from(WHAT), st.integers(0, 5), st.integers(1, 6))


def gets_each_element_once_or_it_is_counted(world, steps):
    for step in steps:
        world.step(*step)
    world.finish()
    for trainer in world.live().values():
        place = world.cache.trainers()[trainer]
        taken = [number for _, number in world.taken[trainer]]
        assert len(taken) == len(set(taken))
        assert len(taken) + place.skipped + place.before == world.total
        if world.when_full is WhenFull.WAIT and trainer in "ab":
            assert sorted(taken) == list(range(world.total))


@given(
    when_full=st.sampled_from(WhenFull),
    total=st.integers(0, 30),
    frames=st.integers(1, 12),
    steps=st.lists(STEPS, max_size=80),
)
def test_each_trainer_gets_each_element_once_or_it_is_counted(when_full, total, frames, steps):
    gets_each_element_once_or_it_is_counted(World(when_full, total, frames), steps)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_it_is_so_in_long_runs_too(seed):
    rng = random.Random(seed)
    world = World(rng.choice(list(WhenFull)), rng.randint(20, 60), rng.randint(1, 8))
    steps = rng.randint(50, 300)

    gets_each_element_once_or_it_is_counted(
        world, ((rng.choice(WHAT), rng.randint(0, 5), rng.randint(1, 6)) for _ in range(steps))
    )
