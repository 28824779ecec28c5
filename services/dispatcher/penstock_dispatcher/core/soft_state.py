"""The soft state: reports of heartbeats, not journaled because the next heartbeats repeat them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.control import AttemptProgress, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.measures import added
from penstock.protocol.nearness import LOCAL_TRANSPORT
from penstock.protocol.ranges import NOTHING_ACKED, AckedSet
from penstock.protocol.rounds import GroupsHeld, RoundsReport
from penstock.protocol.types import (
    DatasetId,
    IterationId,
    ReaderId,
    TaskId,
    Versions,
    WorkerId,
)
from penstock_dispatcher.core.cache_record import NO_PROGRESS, join
from penstock_dispatcher.core.events import Call
from penstock_dispatcher.core.measure_rates import MeasureRates
from penstock_dispatcher.core.recordings import HostReports
from penstock_dispatcher.core.split_provider import DrawRate, Pace

STANDS = 1.0
"""Seconds for which a result is valid: after them each reader has sent a newer heartbeat."""


@dataclass(frozen=True, slots=True)
class HeardNearby:
    """The workers that are *read*, each with the name of a reader's host, as found at some time."""

    at: float
    read: frozenset[tuple[str, str]]

    def stands(self, now: float) -> bool:
        """Return whether it need not be found out again."""
        return self.at <= now < self.at + STANDS

    def on_host_of(self, reader: ReaderHeartbeat, worker: WorkerId) -> bool:
        """Return whether some reader on the host of *reader* reads from *worker*."""
        return reader.process is not None and (reader.process.host, worker) in self.read


def find_nearby(heartbeats: Iterable[ReaderHeartbeat], now: float) -> HeardNearby:
    """Return who is read where, as the newest *heartbeats* of readers say."""
    found = set[tuple[str, str]]()
    for heartbeat in heartbeats:
        if heartbeat.process is None or not heartbeat.process.host:
            continue
        host, missed = heartbeat.process.host, heartbeat.unreachable
        for link in heartbeat.links:
            # What comes within a process says nothing of the way to it.
            if link.rate > 0 and link.transport != LOCAL_TRANSPORT and link.worker not in missed:
                found.add((host, link.worker))
    return HeardNearby(now, frozenset(found))


MOST_HEARD = 1024
"""How many workers that are gone are remembered: a copy may come from a snapshot of a host."""


BEHIND_WITHIN = 30.0
"""Seconds within which heartbeats that are behind add up."""


@dataclass(slots=True)
class Heard:
    """How far an incarnation of a worker was when it was heard, and how often it was behind."""

    incarnation: int
    seq: int
    revision: int
    behind: int = 0
    behind_since: float = 0.0


@dataclass(slots=True)
class WorkerLiveness:
    """The newest of a live worker's heartbeats, and when it came."""

    last_heard: float
    shown_at: float = -inf
    """When a heartbeat came that could not be handled yet, but whose figures are shown."""
    draining: bool = False
    drain_ordered: bool = False
    """Whether a client asked it to drain."""
    connected: bool = True
    versions: Versions | None = None
    stats: bytes = b""
    short_at: float | None = None
    """When it last refused a task, for want of room."""

    @property
    def seen(self) -> float:
        """When its newest heartbeat came, handled or not."""
        return max(self.last_heard, self.shown_at)

    @property
    def able(self) -> bool:
        """Whether tasks may be assigned to it."""
        return self.connected and not self.leaving

    def loads(self, pythons: Collection[str]) -> bool:
        """Return whether it can load a pipeline made by one of *pythons*; any, if there are none.

        True before it reported its version, which comes with its first heartbeat.
        """
        return not pythons or self.versions is None or self.versions.minor in pythons

    @property
    def leaving(self) -> bool:
        """Whether it drains, or is to."""
        return self.draining or self.drain_ordered


@dataclass(slots=True)
class WorkerDeparture:
    """An incarnation that is to leave, also when it is lost and comes back meanwhile."""

    incarnation: int
    calls: list[Call] = field(default_factory=list)
    """The calls that wait until it drains."""


@dataclass(slots=True)
class RunnerShortage:
    """Workers that had no room for a task since element *head* was the next: how often, and why."""

    head: int
    refusals: dict[WorkerId, int] = field(default_factory=dict)
    why: dict[WorkerId, str] = field(default_factory=dict)


@dataclass(slots=True)
class ReaderLiveness:
    """The newest of a live reader's heartbeats, and when it came."""

    last_heard: float
    heartbeat: ReaderHeartbeat
    held: Mapping[TaskId, GroupsHeld] = field(default_factory=dict)
    """The groups that a consumer of coordinated reads has, by task."""
    shown_at: float = -inf
    """When a heartbeat came that could not be handled yet, but whose figures are shown."""
    shown: ReaderHeartbeat | None = None
    """That heartbeat."""

    @property
    def seen(self) -> float:
        """When its newest heartbeat came, handled or not."""
        return max(self.last_heard, self.shown_at)

    @property
    def newest(self) -> ReaderHeartbeat:
        """The newest heartbeat, handled or not: only for display, never for decisions."""
        return self.heartbeat if self.shown is None else self.shown

    @property
    def report(self) -> RoundsReport | None:
        """The report of a consumer under its id, since this dispatcher was started."""
        heard = self.heartbeat.reader is not None and self.heartbeat.seq >= 0
        return self.heartbeat.rounds if heard else None


@dataclass(slots=True)
class ConsumersWaited:
    """The consumers of an iteration that others wait for: not longer than *since* that time.

    *left* are those that left since then, *lost* those that all were told of. *lacking* has of each
    task a consumer that did not have its next group, when that was last asked.
    """

    since: float
    left: set[int] = field(default_factory=set)
    lost: frozenset[int] = frozenset()
    lacking: dict[TaskId, int] = field(default_factory=dict)


@dataclass(slots=True)
class SoftState:
    """All that is volatile. Silence before *since* does not count."""

    since: float
    began: float = 0.0
    """When the process began."""
    lost: dict[WorkerId, float] = field(default_factory=dict)
    """When each worker was last heard that died, or was silent too long, and has not come back."""
    workers: dict[WorkerId, WorkerLiveness] = field(default_factory=dict)
    readers: dict[ReaderId, ReaderLiveness] = field(default_factory=dict)
    connected: set[str] = field(default_factory=set)
    """The sessions of readers whose streams are up."""
    progress: dict[TaskId, AttemptProgress] = field(default_factory=dict)
    inherited: dict[TaskId, int] = field(default_factory=dict)
    """The attempts that began before this process."""
    measured: dict[IterationId, MeasureRates] = field(default_factory=dict)
    """The newest counts of the operators of an iteration."""
    reported_acks: dict[TaskId, AckedSet] = field(default_factory=dict)
    trainers: dict[TaskId, dict[str, TrainerProgress]] = field(default_factory=dict)
    """Of cached jobs: the newest reports on each task's trainers."""
    departures: dict[WorkerId, WorkerDeparture] = field(default_factory=dict)
    shortages: dict[TaskId, RunnerShortage] = field(default_factory=dict)
    draw_rates: dict[tuple[TaskId, int], DrawRate] = field(default_factory=dict)
    shares: dict[IterationId, Mapping[WorkerId, int]] = field(default_factory=dict)
    """How many tasks of an iteration each worker should run at once, when that was last asked."""
    sharing: dict[IterationId, int] = field(default_factory=dict)
    """The number of tasks that the remaining splits should serve, since an iteration was last
    scheduled."""
    resting: dict[TaskId, float] = field(default_factory=dict)
    """Tasks that get no split for now, since when: others have their worker's slots."""
    full: set[IterationId] = field(default_factory=set)
    """Iterations that are read in order and have the largest allowed number of tasks."""
    paces: defaultdict[IterationId, Pace] = field(default_factory=lambda: defaultdict(Pace))
    """Of jobs that are read in order: how fast their tasks go."""
    barrier_since: dict[IterationId, float] = field(default_factory=dict)
    """Since when readers of an iteration have been at the barrier of its next save."""
    idle_since: dict[IterationId, float] = field(default_factory=dict)
    opened_by: dict[IterationId, str] = field(default_factory=dict)
    """The identity that opened each unfinished iteration, if this process opened it."""
    unused_since: dict[DatasetId, float] = field(default_factory=dict)
    """The datasets that no iteration reads and no chosen id stands for."""
    consumers: dict[IterationId, ConsumersWaited] = field(default_factory=dict)
    """Of coordinated reads: the consumers that others wait for."""
    back: dict[ReaderId, int] = field(default_factory=dict)
    """Consumers that expired and are heard again: the rounds below which they took all."""
    heard: dict[WorkerId, Heard] = field(default_factory=dict)
    """The newest heartbeat of each worker, also of some that are gone; the newest is last."""
    vacant_since: dict[int, float] = field(default_factory=dict)
    """The places in the list of workers that have no worker, and since when."""
    quiet: frozenset[WorkerId] = frozenset()
    """The workers that missed two heartbeats."""
    silent: frozenset[ReaderId] = frozenset()
    """The readers that missed two heartbeats."""
    held_by: dict[IterationId, str] = field(default_factory=dict)
    """The unacked elements of silent readers, in words."""
    hosted: dict[str, HostReports] = field(default_factory=dict)
    """Of saves that workers host, by id."""
    nearby: HeardNearby | None = None
    """On which hosts which workers are read, when that was last asked."""

    def times_behind(self, heartbeat: WorkerHeartbeat, now: float) -> int:
        """Return how often streams began lately behind what their incarnation had said.

        It is 0 if *heartbeat* is not behind. A stream that another overtook is late once; a copy of
        the process begins streams behind again and again.
        """
        heard = self.heard.get(heartbeat.worker)
        if heard is None or heard.incarnation != heartbeat.incarnation or not heartbeat.seq:
            return 0
        if heartbeat.seq > heard.seq and heartbeat.revision >= heard.revision:
            return 0
        if now > heard.behind_since + BEHIND_WITHIN:
            heard.behind, heard.behind_since = 0, now
        heard.behind += heartbeat.versions is not None  # which it has when it begins a stream
        return max(heard.behind, 1)

    def lose(self, worker: WorkerId) -> None:
        """Record that *worker* is gone, and did not drain."""
        self.lost[worker] = self.workers[worker].seen
        if len(self.lost) > MOST_HEARD:
            del self.lost[next(iter(self.lost))]

    def on_worker_heartbeat(self, heartbeat: WorkerHeartbeat, now: float) -> bool:
        """Record a heartbeat; return whether it changes what may be assigned to the worker."""
        self.lost.pop(heartbeat.worker, None)
        before = self.heard.pop(heartbeat.worker, None)
        heard = Heard(heartbeat.incarnation, heartbeat.seq, heartbeat.revision)
        if before is not None and before.incarnation == heard.incarnation:
            heard.behind, heard.behind_since = before.behind, before.behind_since
        self.heard[heartbeat.worker] = heard
        if len(self.heard) > len(self.workers) + MOST_HEARD:
            del self.heard[next(iter(self.heard))]
        liveness = self.workers.setdefault(heartbeat.worker, WorkerLiveness(now))
        was_able = liveness.able
        liveness.last_heard, liveness.draining, liveness.connected = now, heartbeat.draining, True
        liveness.versions = heartbeat.versions or liveness.versions
        liveness.stats = heartbeat.stats or liveness.stats
        return liveness.able != was_able

    def on_reader_heartbeat(self, reader: ReaderId, heartbeat: ReaderHeartbeat, now: float) -> None:
        """Record a heartbeat, unless a newer one came before."""
        self.connected.add(heartbeat.session)
        liveness = self.readers.get(reader)
        if liveness is None:
            self.readers[reader] = ReaderLiveness(now, heartbeat, _held(heartbeat))
            return
        liveness.last_heard, liveness.shown = now, None
        if reader in self.silent:
            self.held_by.pop(heartbeat.iteration, None)  # computed anew for the others, soon
        if heartbeat.seq > liveness.heartbeat.seq:
            liveness.heartbeat, liveness.held = heartbeat, _held(heartbeat)

    def show(self, heartbeat: WorkerHeartbeat | ReaderHeartbeat, now: float) -> None:
        """Keep the figures of a heartbeat that cannot be handled yet, so that these are current."""
        if isinstance(heartbeat, WorkerHeartbeat):
            worker = self.workers.get(heartbeat.worker)
            if worker is not None:
                worker.shown_at, worker.stats = now, heartbeat.stats or worker.stats
        elif heartbeat.reader is not None:
            reader = self.readers.get(heartbeat.reader)
            if reader is not None:
                reader.shown_at, reader.shown = now, heartbeat

    def missed(self, reader: ReaderId, lease: float) -> bool:
        """Return whether a reader reported workers that it does not reach for as long as that."""
        liveness = self.readers.get(reader)
        return liveness is not None and misses(liveness.heartbeat, lease)

    def heard_nearby(self, now: float) -> HeardNearby:
        """Return on which hosts which workers are read, by readers that are heard."""
        if self.nearby is None or not self.nearby.stands(now):
            known = self.readers.items()
            heard = [one.heartbeat for name, one in known if name not in self.silent]
            self.nearby = find_nearby(heard, now)
        return self.nearby

    def in_process(self, reader: ReaderId) -> Mapping[WorkerId, int]:
        """Return the workers that a reader reported in its own process."""
        liveness = self.readers.get(reader)
        return {} if liveness is None else liveness.heartbeat.in_process

    def report_acks(self, task: TaskId, acked: AckedSet) -> None:
        """Record these numbers as acked."""
        known = self.reported_acks.get(task, NOTHING_ACKED)
        more = acked.more.spans
        if acked.floor > known.floor or (more and more != known.more.spans):
            self.reported_acks[task] = known | acked

    def report_measures(
        self, iteration: IterationId, task: TaskId, progress: AttemptProgress, now: float
    ) -> None:
        """Record what an attempt counted since its last report.

        If the attempt began before this process, its first report says nothing of lately.
        """
        last, measures = self.progress.get(task), progress.counts.measures
        known = last.counts.measures if last and last.attempt == progress.attempt else None
        if not measures or (known is None and self.inherited.get(task) == progress.attempt):
            return
        if more := added(known or (), measures):
            self.measured.setdefault(iteration, MeasureRates()).add(more, now)

    def report_trainer(self, task: TaskId, trainer: str, progress: TrainerProgress) -> None:
        """Record what became of a task's elements for a trainer."""
        reported = self.trainers.setdefault(task, {})
        if (was := reported.get(trainer, NO_PROGRESS)) != progress or trainer not in reported:
            reported[trainer] = join(was, progress)

    def silence(self, at: float, now: float) -> float:
        """Return the silence of a peer that was last heard *at* that time."""
        return now - max(at, self.since)

    def forget_task(self, task: TaskId) -> None:
        """Forget the reports on a task that is over."""
        self.progress.pop(task, None)
        self.inherited.pop(task, None)
        self.reported_acks.pop(task, None)
        self.trainers.pop(task, None)
        self.shortages.pop(task, None)
        self.resting.pop(task, None)

    def forget(
        self, iteration: IterationId, tasks: Iterable[TaskId], readers: Iterable[ReaderId]
    ) -> None:
        """Forget *tasks* and *readers* of an iteration that is over."""
        self.barrier_since.pop(iteration, None)
        self.opened_by.pop(iteration, None)
        self.consumers.pop(iteration, None)
        self.full.discard(iteration)
        self.paces.pop(iteration, None)
        self.measured.pop(iteration, None)
        self.shares.pop(iteration, None)
        self.sharing.pop(iteration, None)
        gone = set(tasks)
        for task in gone:
            self.forget_task(task)
        for key in [key for key in self.draw_rates if key[0] in gone]:
            del self.draw_rates[key]
        for reader in readers:
            self.readers.pop(reader, None)
            self.back.pop(reader, None)


def misses(heartbeat: ReaderHeartbeat, lease: float) -> bool:
    """Return whether *heartbeat* has workers that its reader does not reach for as long as that."""
    return any(one.seconds >= lease for one in heartbeat.unreachable.values())


def _held(heartbeat: ReaderHeartbeat) -> Mapping[TaskId, GroupsHeld]:
    if heartbeat.rounds is None or heartbeat.reader is None:
        return {}
    return {held.task: held for held in heartbeat.rounds.held}
