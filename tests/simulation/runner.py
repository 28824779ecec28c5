"""A worker's runner: it makes frames while there is room, asks for splits, and may die."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import TransformError
from penstock.protocol.definition import MixtureOutline
from penstock.protocol.types import Checkpoint, Codec, Failure
from penstock_worker.core.events import RunnerLost, RunnerNotStarted, StartRunner
from penstock_worker.runner.messages import (
    AddSplits,
    ArenaFull,
    CheckpointTaken,
    Flush,
    FrameReady,
    FreeFrames,
    PauseRun,
    RunEnded,
    RunFailed,
    RunPaused,
    SetWindow,
    SplitsNeeded,
)
from simulation.pipeline import Element, Engine, Rest
from simulation.world import LawBroken

if TYPE_CHECKING:
    from simulation.worker import SimWorker

MOST = 4
"""Elements in a frame, at most."""

IN_WINDOW = 2
"""A frame of several elements takes no more than one in so many bytes of a window."""


@dataclass(frozen=True, slots=True)
class Work:
    """What all runners of a schedule make: *size* units, *passes* times; *room* is for elements.

    None gets beyond the unit *fails*. Of a cached job *cache* bytes are kept, and elements are up
    to *weights* times as large.
    """

    size: int
    passes: int
    nbytes: int
    room: int
    cache: int = 1 << 30
    weights: int = 1
    fails: int = -1
    mixture: MixtureOutline | None = None
    """Of a job that reads a mixture, whose turns are the units."""

    def nbytes_of(self, number: int) -> int:
        """Return how large an element is."""
        return self.nbytes * (1 + number % self.weights)


FAILURE = Failure.of(TransformError("map(f)", 0, "no pipeline gets beyond it"))


@dataclass(frozen=True, slots=True)
class Batch:
    """Elements from *first* on that were made, and may wait for room.

    *start* and *before* are where the engine stood, *rest* is why it made no more.
    """

    start: int
    before: Checkpoint | None
    first: int
    elements: tuple[Element, ...]
    nbytes: int
    rest: Rest | None


class Arena:
    """Where a runner's frames lie. They may be read until their places are freed."""

    def __init__(self) -> None:
        self.frames: dict[int, tuple[Element, ...]] = {}
        self._offset = 0

    def put(self, elements: tuple[Element, ...]) -> int:
        """Put a frame in; return its place."""
        self._offset += 1
        self.frames[self._offset] = elements
        return self._offset

    def read(self, made: FrameReady) -> tuple[Element, ...]:
        """Return what lies at a place."""
        if made.offset not in self.frames:
            raise LawBroken("memory: a frame is sent whose place was freed")
        return self.frames[made.offset]

    def free(self, offset: int) -> None:
        """Take a place back."""
        if self.frames.pop(offset, None) is None:
            raise LawBroken("memory: a place is freed twice")

    def keep(self, frames: tuple[FrameReady, ...]) -> None:
        """Give up all but *frames*."""
        kept = {made.offset for made in frames}
        self.frames = {offset: one for offset, one in self.frames.items() if offset in kept}


class SimRunner:
    """One run."""

    def __init__(self, worker: SimWorker, start: StartRunner, work: Work) -> None:
        self.worker, self.start, self.work = worker, start, work
        self.arena = Arena()
        self.over = self.kept = False
        """Whether nothing more is made; whether of a dead one frames are needed."""
        self._engine = Engine(start.assignment, work.size, work.passes, work.mixture)
        self._window = start.window
        self._batch: Batch | None = None
        """What waits for room in the window."""
        self._asked = -1
        self._used = self._nbytes = 0
        """Elements and bytes that lie in the arena."""
        self._sizes: dict[int, tuple[int, int]] = {}
        self._paused = self._failed = False
        self._waits: Rest | ArenaFull | None = None
        self.worker.at(start.delay + 0.01, self._begin)

    def tell(self, order: AddSplits | FreeFrames | SetWindow | Flush | PauseRun) -> None:
        """Hear the worker."""
        match order:
            case AddSplits(_, _, position, splits):
                self._engine.grow(position, splits)
                if self._waits is Rest.DRY:
                    self._go_on()
            case FreeFrames(_, offsets):
                for offset in offsets:
                    self.arena.free(offset)
                    count, nbytes = self._sizes.pop(offset, (0, 0))
                    self._used, self._nbytes = self._used - count, self._nbytes - nbytes
                if isinstance(self._waits, ArenaFull):
                    self._go_on()
            case SetWindow():
                self._window = order
                if isinstance(self._waits, ArenaFull):
                    self._go_on()
            case Flush():
                pass
            case PauseRun():
                self._paused = True
                if self._waits is not None:
                    self._go_on()

    def keep(self, frames: tuple[FrameReady, ...]) -> None:
        """Give up all but *frames*, which are needed until they are freed."""
        self.over = self.kept = True
        self.arena.keep(frames)

    def die(self) -> None:
        """Be killed by user code."""
        if not self.over:
            self.over = True
            self.worker.apply(RunnerLost(self.start.run, "the process died of SIGKILL"))

    def lack_room(self) -> None:
        """Find that the system has no room for what it needs to go on, and end."""
        if not self.over:
            self.over = True
            self.worker.apply(RunnerNotStarted(self.start.run, "no thread"))

    def _go_on(self) -> None:
        self._waits = None
        self.worker.at(0.001, self._step)

    def _begin(self) -> None:
        if self.over:
            return
        if self.worker.now < self.worker.no_room_until:
            self.over = True
            self.worker.apply(RunnerNotStarted(self.start.run, "no room"))
            return
        self._step()

    def _step(self) -> None:
        if self.over or self._waits is not None:
            return
        if self.worker.now < self.worker.stuck_until:
            self.worker.at(1.0, self._step)
            return
        chance, engine, run = self.worker.world.chance, self._engine, self.start.run
        if self._paused:
            self.over = True
            waiting = self._batch
            before = None if waiting is None else waiting.before
            self._report(CheckpointTaken(run, before or engine.state()), RunPaused(run))
            return
        room = max(1, self.start.room // self.work.nbytes)
        if self._window is None and self._used >= room:
            self._wait_for_room()
            return
        if self._batch is None:
            task = self.start.assignment
            single = self.start.flush_each or task.grouped is not None or task.stride is not None
            self._batch = self._make(1 if single else chance.randint(1, MOST))
        batch = self._batch
        if not self._fits(batch):
            self._wait_for_room()
            return
        self._batch = None
        self._send(batch)
        if self._failed:
            self.over = True
            self._report(RunFailed(run, engine.number - 1, FAILURE))
            return
        self._follow(batch, engine.number > batch.start)

    def _follow(self, batch: Batch, made: bool) -> None:  # noqa: FBT001
        """Go on behind what was sent."""
        chance, engine, run = self.worker.world.chance, self._engine, self.start.run
        if batch.rest is Rest.ENDED:
            self.over = True
            self._report(CheckpointTaken(run, engine.state()), RunEnded(run, engine.number))
            return
        if batch.rest is None and made and chance.random() < 0.3:
            self._report(CheckpointTaken(run, engine.state()))
        if self.over or self._paused:
            self._go_on()
            return
        rest = batch.rest
        if rest is Rest.DRY or (engine.place >= engine.stop - 1 and chance.random() < 0.3):
            self._need()
        if rest is Rest.DRY and self._asked == engine.stop:
            self._waits = rest
        else:
            self.worker.at(0.02 + 0.25 * chance.random(), self._step)

    def _wait_for_room(self) -> None:
        self._waits = ArenaFull(self.start.run)
        self._report(self._waits)

    def _make(self, limit: int) -> Batch:
        """Make a frame of what is not known."""
        engine, first, elements = self._engine, self._engine.number, list[Element]()
        start, nbytes, rest = first, 0, None
        window = self._window
        before = None if window is None else engine.state()
        most = None if window is None else window.nbytes // IN_WINDOW
        while len(elements) < limit:
            more = self.work.nbytes_of(engine.number)
            if elements and most is not None and nbytes + more > most:
                break
            made = engine.make()
            if isinstance(made, Rest):
                rest = made
                break
            if made.unit == self.work.fails:
                self._failed = True
                break
            if engine.number <= self.start.send_from:
                first = engine.number
            else:
                elements.append(made)
                nbytes += more
        return Batch(start, before, first, tuple(elements), nbytes, rest)

    def _fits(self, batch: Batch) -> bool:
        """Return whether there is room; as in `penstock_worker.runner.arena.Allocator`."""
        window = self._window
        if window is None or not batch.elements:
            return True
        in_use = self._nbytes + window.elsewhere
        return not in_use or in_use + batch.nbytes <= window.nbytes

    def _send(self, batch: Batch) -> None:
        elements, nbytes = batch.elements, batch.nbytes
        if not elements:
            return
        offset, count = self.arena.put(elements), len(elements)
        self._used, self._nbytes = self._used + count, self._nbytes + nbytes
        self._sizes[offset] = count, nbytes
        made = FrameReady(
            self.start.run, batch.first, count, offset, nbytes, b"", Codec.NONE, nbytes
        )
        self._report(made)

    def _need(self) -> None:
        engine = self._engine
        ends = sum(not split for split in engine.log[engine.place - engine.start :])
        if engine.dynamic and engine.turn + ends < self.work.passes and self._asked != engine.stop:
            self._asked = engine.stop
            self._report(SplitsNeeded(self.start.run, 0, engine.stop))

    def _report(
        self,
        *reports: FrameReady
        | CheckpointTaken
        | SplitsNeeded
        | ArenaFull
        | RunPaused
        | RunEnded
        | RunFailed,
    ) -> None:
        for report in reports:
            if not self.worker.dead:
                self.worker.apply(report)
