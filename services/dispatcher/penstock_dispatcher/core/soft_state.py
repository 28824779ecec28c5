"""What heartbeats told: not journaled, for it comes back by itself with the next heartbeats."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet
from penstock.protocol.types import IterationId, ReaderId, TaskId, Versions, WorkerId
from penstock_dispatcher.core.events import Call
from penstock_dispatcher.core.split_provider import DrawRate


@dataclass(slots=True)
class WorkerLiveness:
    """The newest of a live worker's beats, and when it came."""

    at: float
    draining: bool = False
    ordered: bool = False
    """Whether somebody wants it to leave."""
    connected: bool = True
    versions: Versions | None = None
    stats: bytes = b""
    short_at: float | None = None
    """When it last turned down a task, for want of room."""

    @property
    def able(self) -> bool:
        """Whether it may be given something to run."""
        return self.connected and not self.leaving

    def loads(self, pythons: Collection[str]) -> bool:
        """Say whether it can load what was made by one of *pythons*, or by any if there are none.

        Who has not said what it runs is believed to: it tells with its first beat.
        """
        return not pythons or self.versions is None or self.versions.minor in pythons

    @property
    def leaving(self) -> bool:
        """Whether it is about to leave in order."""
        return self.draining or self.ordered


@dataclass(slots=True)
class WorkerDeparture:
    """A life of a worker that is to leave, also when it is lost and comes back meanwhile."""

    incarnation: int
    calls: list[Call] = field(default_factory=list)
    """Those who wait to hear that it does."""


@dataclass(slots=True)
class RunnerShortage:
    """Who had no room for a task since element *made* was the next: how often, and why."""

    made: int
    by: dict[WorkerId, int] = field(default_factory=dict)
    why: dict[WorkerId, str] = field(default_factory=dict)


@dataclass(slots=True)
class ReaderLiveness:
    """The newest of a live reader's beats, and when it came."""

    at: float
    beat: ReaderHeartbeat


@dataclass(slots=True)
class SoftState:
    """All that is volatile. Silence before *since* counts against nobody."""

    since: float
    workers: dict[WorkerId, WorkerLiveness] = field(default_factory=dict)
    readers: dict[ReaderId, ReaderLiveness] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)
    """The tokens of readers whose streams are up."""
    progress: dict[TaskId, AttemptProgress] = field(default_factory=dict)
    learnt: dict[TaskId, AckedSet] = field(default_factory=dict)
    departures: dict[WorkerId, WorkerDeparture] = field(default_factory=dict)
    shortages: dict[TaskId, RunnerShortage] = field(default_factory=dict)
    paces: dict[tuple[TaskId, int], DrawRate] = field(default_factory=dict)
    saves: dict[IterationId, float] = field(default_factory=dict)
    """Since when readers of an iteration have been at the cut of its next save."""
    idle_since: dict[IterationId, float] = field(default_factory=dict)
    quiet: frozenset[WorkerId] = frozenset()
    """The workers that missed two beats."""
    silent: frozenset[ReaderId] = frozenset()
    """The readers that missed two beats."""
    held_by: dict[IterationId, str] = field(default_factory=dict)
    """What those keep from the others, in words."""

    def worker_beat(self, beat: WorkerHeartbeat, now: float) -> bool:
        """Note a beat; say whether it changes what the worker may be given."""
        word = self.workers.setdefault(beat.worker, WorkerLiveness(now))
        was_able = word.able
        word.at, word.draining, word.connected = now, beat.draining, True
        word.versions = beat.versions or word.versions
        word.stats = beat.stats or word.stats
        return word.able != was_able

    def reader_beat(self, reader: ReaderId, beat: ReaderHeartbeat, now: float) -> None:
        """Note a beat, unless a newer one was heard."""
        self.lines.add(beat.token)
        word = self.readers.get(reader)
        if word is None:
            self.readers[reader] = ReaderLiveness(now, beat)
            return
        word.at = now
        if reader in self.silent:
            self.held_by.pop(beat.iteration, None)  # said of the others anew, soon
        if beat.beat > word.beat.beat:
            word.beat = beat

    def missed(self, reader: ReaderId) -> bool:
        """Say whether a reader told that it does not reach some workers."""
        word = self.readers.get(reader)
        return word is not None and bool(word.beat.unreached)

    def learn(self, task: TaskId, taken: AckedSet) -> None:
        """Know that these numbers are taken."""
        known = self.learnt.get(task, NOTHING_ACKED)
        more = taken.more.spans
        if taken.floor > known.floor or (more and more != known.more.spans):
            self.learnt[task] = known | taken

    def silence(self, at: float, now: float) -> float:
        """Return for how long somebody was silent who was heard *at* that time."""
        return now - max(at, self.since)

    def forget(
        self, iteration: IterationId, tasks: Iterable[TaskId], readers: Iterable[ReaderId]
    ) -> None:
        """Forget *tasks* and *readers* of an iteration that is over."""
        self.saves.pop(iteration, None)
        gone = set(tasks)
        for task in gone:
            self.progress.pop(task, None)
            self.learnt.pop(task, None)
            self.shortages.pop(task, None)
        for key in [key for key in self.paces if key[0] in gone]:
            del self.paces[key]
        for reader in readers:
            self.readers.pop(reader, None)
