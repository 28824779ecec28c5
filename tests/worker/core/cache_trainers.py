"""A worker's core that runs one cached task, a runner with a window, and trainers' readers."""

from dataclasses import replace

from penstock.protocol.cache import Cached, WhenFull
from penstock.protocol.ranges import NO_RANGES, NOTHING_ACKED, AckedSet, RangeSet
from penstock.protocol.types import Checkpoint, ReaderId, WorkerId
from penstock_worker.core.events import HeartbeatDue, LogError, SendToRunner, StartRunner
from penstock_worker.core.state_machine import WorkerCore
from penstock_worker.runner.messages import ArenaFull, SetWindow
from tests.worker.core.driven_task import RUN, TASK, DrivenTask

NBYTES = 100
"""Bytes of each element, where nothing else is said."""


class CacheTrainers(DrivenTask):
    """Passes events to the core as a runner would whose frames are of *size* elements each."""

    def __init__(
        self, when_full=WhenFull.SKIP, *, frames=4, size=1, ahead=10**6, checkpoint=0, **assignment
    ):
        trainers, readers = assignment.pop("trainers", {}), assignment.pop("readers", {})
        cached = Cached("job", when_full, trainers, readers)
        run = replace(RUN, checkpoint=Checkpoint(checkpoint), cached=cached, **assignment)
        self.size, self.window, self.beats = size, None, 0
        self.streams = {}
        """By stream: (reader, trainer)."""
        cache = frames * size * NBYTES
        super().__init__(WorkerCore(WorkerId("host:1"), 7, None, ahead, cache), run)

    @property
    def cache(self):
        return self.attempt.delivery

    def perform(self, effect):
        match effect:
            case StartRunner():
                super().perform(effect)
                self.window = effect.window
            case SendToRunner(SetWindow() as window):
                assert window.run == self.runner
                self.window = window
            case HeartbeatDue():
                self.beats += 1
            case LogError(text):
                assert "a bug" not in text
            case _:
                super().perform(effect)

    # --- the dispatcher ---

    def assign(self, *, status=(), cached=None, **how):
        changes = {} if cached is None else {"cached": cached}
        return super().assign(readers=status, **how, **changes)

    def progress(self, trainer=None):
        progress = self.core.heartbeat().progress[TASK]
        return progress if trainer is None else progress.trainers[trainer]

    # --- the runner ---

    def in_use(self):
        return sum(nbytes for (run, _), (_, nbytes) in self.places.items() if run == self.runner)

    def fits(self, nbytes):
        in_use = self.in_use() + self.window.elsewhere
        return in_use == 0 or in_use + nbytes <= self.window.nbytes

    def make(self, frames=1, *, nbytes=None, size=None):
        """Make *frames*; return how many of them there was room for."""
        size = size or self.size
        nbytes = size * NBYTES if nbytes is None else nbytes
        for done in range(frames):
            tries = 0
            while not self.fits(nbytes):
                before = self.window, len(self.places)
                self.tell(ArenaFull(self.runner))
                tries += 1
                if before == (self.window, len(self.places)) or tries > 1000:
                    return done
            self.make_frame(size, nbytes)
        return frames

    # --- readers ---

    def open(
        self, stream, trainer, *, reader=None, subscription=1, credit=10**6, acked=(), holds=(),
        wants=None,
    ):  # fmt: skip
        who = ReaderId(stream if reader is None else reader)
        self.streams[stream] = who, trainer
        acked = NOTHING_ACKED.union(RangeSet.of(*acked)) if acked else NOTHING_ACKED
        mine = (subscription, acked, RangeSet.of(*holds), credit, wants, trainer)
        return self.open_stream(stream, who, *mine)

    def got(self, stream):
        return self.sent.get(stream, [])

    def place_of(self, trainer):
        """Return (floor, more, skipped, before) of a trainer."""
        place = self.progress(trainer)
        return place.acked.floor, place.acked.more.spans, place.skipped, place.before


def acked(floor, *more):
    return AckedSet(floor, RangeSet.of(*more) if more else NO_RANGES)
