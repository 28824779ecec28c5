"""Trainers, workers with windows, and a dispatcher, as chance drives them; laws at each fact."""

import random
from collections import Counter, defaultdict

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import AttemptProgress, ElementCounts
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.types import Checkpoint, Mode, ReaderStatus
from penstock_dispatcher.core import facts as f
from penstock_dispatcher.core.facts import TrainerDone
from penstock_dispatcher.core.settings import CoreSettings
from tests.dispatcher.core.cached import CachedWorld

TRAINERS, LEASE = "abc", 3.0


class Window:
    """An attempt of a task at a worker: what it made last, and where each trainer is in it."""

    def __init__(self, order, total, room):
        self.task, self.attempt, self.total, self.room = order.task, order.attempt, total, room
        self.base = self.head = order.checkpoint.number
        self.sent = 0
        self.acked = {name: set(one.acked.ranges) for name, one in order.cached.trainers.items()}
        self.skipped = Counter({t: one.skipped for t, one in order.cached.trainers.items()})
        self.before = {name: one.before for name, one in order.cached.trainers.items()}
        self.trainer_of = dict(order.cached.readers)
        self.out = {reader: set(runs) for reader, runs in order.unacked.items()}
        self.gone = defaultdict(set)
        """What each trainer skipped here, or came too late for."""

    @property
    def ended(self):
        return self.head == self.total

    def subscribe(self, reader, trainer, acked, unacked):
        """Let a reader say what it has: the rest goes to others."""
        if trainer not in self.acked:
            self.acked[trainer], self.before[trainer] = set(range(self.base)), self.base
            self.gone[trainer] |= set(range(self.base))
        self.trainer_of[reader] = trainer
        self.acked[trainer] |= acked
        self.out[reader] = unacked - self.acked[trainer]
        self._skip(trainer)

    def ack(self, reader, numbers):
        self.acked[self.trainer_of[reader]] |= numbers
        self.out[reader] -= numbers

    def lose(self, readers):
        """Let readers be gone: what they had is for others of their trainers."""
        for reader in [one for one in self.out if one in readers]:
            del self.out[reader]
            self._skip(self.trainer_of[reader])

    def ready(self, trainer):
        unacked = [self.out[one] for one in self.out if self.trainer_of[one] == trainer]
        taken = self.acked[trainer].union(*unacked)
        return [number for number in range(self.base, self.head) if number not in taken]

    def give(self, reader):
        """Give a reader one element, if there is one for it, or one can be made."""
        trainer = self.trainer_of[reader]
        if not self.ready(trainer) and not self.ended:
            self.head += 1
            if self.head - self.base > self.room:
                self.base += 1
                for other in self.acked:
                    self._skip(other)
        for number in self.ready(trainer)[:1]:
            self.out[reader].add(number)
            self.sent += 1
            return number
        return None

    def _skip(self, trainer):
        unacked = [self.out[one] for one in self.out if self.trainer_of[one] == trainer]
        lost = set(range(self.base)) - self.acked[trainer].union(*unacked)
        self.acked[trainer] |= lost
        self.gone[trainer] |= lost
        self.skipped[trainer] += len(lost)

    def progress(self, start):
        acked = {name: _acked(numbers) for name, numbers in self.acked.items()}
        live = {self.trainer_of[reader] for reader in self.out}
        floor = min((acked[name].floor for name in live), default=self.base)
        return AttemptProgress(
            self.attempt,
            self.head,
            AckedSet(floor),
            Checkpoint(max(start, min(floor, self.head) // 5 * 5), (0,)),
            counts=ElementCounts(self.head - start, sent=self.sent),
            ended=self.ended,
            trainers={
                name: TrainerProgress(acked[name], self.skipped[name], self.before[name])
                for name in acked
            },
        )


class RandomCached(CachedWorld):
    """A pass of a cached job, in which now and then something dies or is late."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.calm, self.restarts, self.lost_windows = False, 0, 0
        self.windows, self.orders = {}, {}
        self.consumed = defaultdict(Counter)
        """How often each trainer's loops had each element, by (trainer, task)."""
        self.left_out = defaultdict(set)
        self.of_the_dead, self.known = defaultdict(set), defaultdict(AckedSet)
        self.told = defaultdict(AckedSet)
        self.total, self.room = self.chance.choice([0, 1, 17, 40]), self.chance.choice([1, 4, 12])
        settings = CoreSettings(reader_lease=LEASE, idle=100.0, sweep_interval=1.0)
        super().__init__(Mode.OFF, settings=settings)
        self.worker("w0")

    # --- laws ---

    def perform(self, effects):
        effects = list(effects)
        for effect in effects:
            fact = getattr(effect, "fact", None)
            if fact is not None:
                self.check(fact)
        super().perform(effects)

    def check(self, fact):
        state = self.core.state
        match fact:
            case f.AttemptStarted(task, attempt, _, _, unacked) if attempt > 1:
                iteration = state.iterations[state.owners[task]]
                for reader in self.readers.values():
                    known = iteration.readers.get(reader.id)
                    if known is None or known.status is not ReaderStatus.LIVE:
                        continue
                    if iteration.tasks[task].is_done(reader.trainer):
                        continue
                    assert reader.said[task].fence >= attempt, "a reader accepts the old attempt"
                    acked = fact.trainers.get(reader.trainer, TrainerProgress()).acked
                    left = reader.said[task].buffered - acked.ranges
                    assert unacked.get(reader.id, RangeSet()) == left
            case f.ReaderRemoved(_, name, ReaderStatus.EXPIRED):
                for reader in self.readers.values():
                    if reader.id == name:
                        self.note_dead(reader)
            case f.CheckpointSaved(task, at):
                assert at.number <= self.told[task].floor, "a checkpoint is ahead of trainers"
            case TrainerDone(task, trainer):
                assert self.has_all(trainer, task), "a trainer is done that has not all"

    def has_all(self, trainer, task):
        had = set(self.consumed[trainer, task]) | self.left_out[trainer, task]
        return had >= set(range(self.total))

    def check_growth(self):
        """Assert that what is acked of a trainer only grows, and is no more than it had."""
        for name, iteration in self.core.state.iterations.items():
            for task, record in iteration.tasks.items():
                for trainer, one in self.core.ctx.trainers(task, record).items():
                    numbers = set(one.progress.acked.ranges)
                    had = set(self.consumed[trainer, task]) | self.left_out[trainer, task]
                    assert numbers <= had, f"{trainer} did not have {numbers - had}"
                for trainer, one in record.trainers.items():
                    was, now = self.known[name, task, trainer], one.progress.acked
                    assert was | now == now, "what was acked is not any more"
                    self.known[name, task, trainer] = now

    # --- what may happen ---

    def step(self):
        self.now += self.chance.uniform(0, 0.3)
        self.tell_tick()
        doings = [self.read, self.read, self.read, self.consume, self.consume, self.beat_all]
        self.chance.choice(doings + [self.report_all] * 2 + ([] if self.calm else [self.trouble]))()
        self.check_growth()

    def tell_tick(self):
        self.passes(0.25)

    def trouble(self):
        match self.chance.randrange(12):
            case 0 | 1 | 2 if len(self.readers) < 5:
                trainer = self.chance.choice(TRAINERS)
                self.joins(trainer, session=f"{trainer}{self.chance.getrandbits(30)}")
            case 3 if self.readers:
                self.kill(self.chance.choice(list(self.readers.values())))
            case 4 if self.readers:
                reader = self.chance.choice(list(self.readers.values()))
                self.say(reader, leaving=True)
                del self.readers[reader.session]
            case 5 if len(self.progress) > 1:
                self.dies(self.chance.choice(list(self.progress)))
            case 6 | 7 if len(self.progress) < 3:
                free = next(n for n in ("w0", "w1", "w2") if n not in self.progress)
                self.worker(free)
            case 8:
                self.restarts += 1
                self.restart()
                for worker in self.progress:
                    self.beat(worker)

    def joins(self, trainer, session=None):
        reader = super().joins(trainer, session)
        reader.acked, reader.unacked = defaultdict(set), defaultdict(set)
        reader.streams, reader.said, reader.lease_until = {}, {}, 0.0
        return reader

    def kill(self, reader):
        """End a process that reads, in the midst of anything."""
        del self.readers[reader.session]
        self.note_dead(reader)

    def note_dead(self, reader):
        """Note that what a reader had may come to its trainer again: it may not have told of it."""
        for task, numbers in reader.acked.items():
            self.of_the_dead[reader.trainer, task] |= numbers

    def dies(self, name):
        for key in [key for key in self.windows if key[0] == name]:
            self.drop(key)
            self.lost_windows += 1
        super().dies(name)

    def drop(self, key):
        window = self.windows.pop(key)
        del self.orders[key]
        for trainer, numbers in window.gone.items():
            self.left_out[trainer, window.task] |= numbers
        self.progress[key[0]].pop(window.task, None)

    def window(self, task, seen):
        """Return the attempt that a view says is read, if its worker runs it."""
        self.obey()
        return self.windows.get((seen.worker, task, seen.attempt))

    def obey(self):
        """Let workers run what they are assigned."""
        for worker in self.progress:
            order = self.assignments.get(worker)
            runs = {(worker, one.task, one.attempt): one for one in order.tasks} if order else {}
            for key in [key for key in self.windows if key[0] == worker and key not in runs]:
                self.drop(key)
            for key, one in runs.items():
                if key not in self.windows:
                    self.windows[key] = Window(one, self.total, self.room)
                    self.orders[key] = one
                over = {r for r, status in order.readers.items() if status is not ReaderStatus.LIVE}
                self.windows[key].lose(over)
        self.note_gone()

    def note_gone(self):
        for (_, task, _), window in self.windows.items():
            for trainer, numbers in window.gone.items():
                self.left_out[trainer, task] |= numbers

    def beat_all(self):
        self.obey()
        for (worker, task, _), window in self.windows.items():
            order = self.orders[worker, task, window.attempt]
            progress = window.progress(order.checkpoint.number)
            self.progress[worker][task] = progress
            self.told[task] |= progress.acked
        for worker in list(self.progress):
            self.beat(worker)

    def read(self):
        """Let each reader open its streams, and get an element perhaps."""
        for reader in self.readers.values():
            for task, seen in reader.view.tasks.items() if reader.id and reader.view else ():
                window = self.window(task, seen)
                if window is None or reader.fences[task] > seen.attempt:
                    continue
                if reader.streams.get(task) != (seen.attempt, reader.id):
                    reader.streams[task] = seen.attempt, reader.id
                    acked, unacked = reader.acked[task], reader.unacked[task]
                    window.subscribe(reader.id, reader.trainer, set(acked), set(unacked))
                if reader.id in window.out and len(reader.unacked[task]) < 3:
                    number = window.give(reader.id)
                    if number is not None:
                        reader.unacked[task].add(number)
        self.note_gone()

    def consume(self):
        """Let each loop have an element, unless its lease is over."""
        for reader in self.readers.values():
            for task in list(reader.unacked):
                if not reader.unacked[task] or not reader.id or self.now > reader.lease_until:
                    continue
                if self.chance.random() < 0.3:
                    continue
                number = min(reader.unacked[task])
                reader.unacked[task].remove(number)
                reader.acked[task].add(number)
                reader.consumed += 1
                key = reader.trainer, task
                again = number in self.consumed[key] and number not in self.of_the_dead[key]
                assert not again, f"{reader.trainer} had {number} of task {task} before"
                self.consumed[key][number] += 1
                self.tell_worker(reader, task, number)

    def tell_worker(self, reader, task, number):
        seen = reader.view.tasks.get(task)
        window = None if seen is None else self.windows.get((seen.worker, task, seen.attempt))
        if window is not None and reader.streams.get(task) == (window.attempt, reader.id):
            if reader.id in window.out:
                window.ack(reader.id, {number})

    def report_all(self):
        for reader in list(self.readers.values()):
            self.say(reader)

    def say(self, reader, leaving=False):
        if leaving:
            reader.unacked.clear()
        for task in reader.fences:
            unacked = RangeSet.of(*((n, n + 1) for n in reader.unacked[task]))
            reader.reports[task] = (_acked(reader.acked[task]), unacked)
        beat = reader.heartbeat(leaving=leaving)
        reader.said = dict(beat.reports)
        reader.lease_until = self.now + LEASE
        self.tell(beat)
        if reader.id is None and not leaving:
            reader.unacked.clear()  # it expired

    def settle(self):
        """Let everything that can end come to its end."""
        self.calm = True
        if not self.progress:
            self.worker("w0")
        for trainer in TRAINERS:
            if all(reader.trainer != trainer for reader in self.readers.values()):
                self.joins(trainer, session=f"{trainer} last")
        for _ in range(3000):
            self.step()
            if self.readers and all(reader.finished for reader in self.readers.values()):
                return
        raise AssertionError("a reader waits for ever")


def _acked(numbers):
    return AckedSet(0, RangeSet.of(*((n, n + 1) for n in numbers)))
