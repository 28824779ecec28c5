"""Recent looks at the mesh: looks, one after the other, and what happened between them."""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from penstock.explanation.looks import JobLook, MeshLook
from penstock.explanation.trouble import Trouble, counted
from penstock.protocol.names import printable
from penstock_dispatcher.core.records import title_of
from penstock_dispatcher.core.stats import DispatcherStats, IterationStats, WorkerSummary
from penstock_dispatcher.fact_log import Notice, NoticeKind
from penstock_dispatcher.page.pace import PeerPace, RateMeter, paces

SECONDS_KEPT = 240
"""Samples that are kept as they came: of four minutes, at one a second."""

MINUTES_KEPT = 360
"""Averages of a minute that are kept: of six hours."""

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class PassSample:
    """A look at a pass *at* a time, in seconds since 1970. Rates are per second.

    *wait* is the share of its time that the loop waits which waits most, from 0 to 1. *filled* is
    how full buffers of workers are, *held* how full those of readers, from 0 to 1.
    """

    at: float
    wait: float
    steps: float
    elements: float
    nbytes: float
    filled: float
    held: float


FIELDS = PassSample.__slots__
"""The names of the columns."""


class TimeLine:
    """Samples of a pass in order: the newest as they came, those before as averages of minutes.

    At most `SECONDS_KEPT` and `MINUTES_KEPT`, which take about 150 KiB.
    """

    def __init__(self) -> None:
        self._seconds: deque[PassSample] = deque(maxlen=SECONDS_KEPT)
        self._minutes: deque[PassSample] = deque(maxlen=MINUTES_KEPT)
        self._minute: list[PassSample] = []
        """Samples of the current minute: at most a minute's, as sampling has a pause."""

    def add(self, sample: PassSample) -> None:
        """Add the newest sample."""
        if self._minute and sample.at // MINUTE != self._minute[0].at // MINUTE:
            self._minutes.append(_mean(self._minute))
            self._minute = []
        self._minute.append(sample)
        self._seconds.append(sample)

    @property
    def newest(self) -> PassSample | None:
        """The last sample."""
        return self._seconds[-1] if self._seconds else None

    def columns(self) -> dict[str, list[float]]:
        """Return a list for each of `FIELDS`, all of one length, in the order of time."""
        first = self._seconds[0].at if self._seconds else 0.0
        samples = [*(one for one in self._minutes if one.at < first), *self._seconds]
        rows = [astuple(one) for one in samples]
        return {name: [round(row[i], 4) for row in rows] for i, name in enumerate(FIELDS)}


def _mean(samples: Sequence[PassSample]) -> PassSample:
    return PassSample(
        *(sum(column) / len(samples) for column in zip(*map(astuple, samples), strict=True))
    )


NOTICES_KEPT = 400
"""Sentences on what happened that are kept, the newest; each is cut at `LONGEST` characters."""

LONGEST = 400

LINES_KEPT = 32
"""Passes whose time lines are kept, those that were seen last: 5 MiB in all."""


SLOW_FOR = 5
"""A worker is slow after this many looks at it in a row: a task that has just begun makes little.
"""

LOST_SHOWN = 60.0
"""Seconds for which a lost worker stays in sight, unless it comes back."""


@dataclass(frozen=True, slots=True)
class DatedNotice:
    """A notice with its *number*, counted upwards, and its time in seconds since 1970."""

    number: int
    at: float
    notice: Notice


@dataclass(frozen=True, slots=True)
class Moment:
    """All that is known of the mesh *at* a time. Rates are elements a second."""

    number: int
    at: float
    stats: DispatcherStats
    looks: Mapping[int, JobLook]
    """The running passes, by iteration, with reports on their slowest parts."""
    by_worker: Mapping[str, float]
    by_task: Mapping[int, float]
    samples: Mapping[int, PassSample]
    """The newest sample of each pass that runs."""
    trouble: Trouble | None = None
    """The worst that is wrong."""
    lost: Mapping[str, float] = field(default_factory=dict)
    """The workers that were lost in the last minute: seconds since each was last heard."""
    paces: Mapping[str, PeerPace] = field(default_factory=dict)
    """How fast workers are beside their peers, if they have any."""


class History:
    """Makes a `Moment` of each look, and remembers what the page shows of those before.

    Args:
        hears_facts: whether it hears facts of the dispatcher. If not, it finds the events in the
            difference of two looks.
    """

    def __init__(self, *, hears_facts: bool = True) -> None:
        self._hears_facts = hears_facts
        self.lines: OrderedDict[int, TimeLine] = OrderedDict()
        """The time lines of passes, by iteration."""
        self.notices: deque[DatedNotice] = deque(maxlen=NOTICES_KEPT)
        self.moment: Moment | None = None
        """The last look."""
        self._lost_at: dict[str, float] = {}
        """When each lost worker that has not come back was first missed."""
        self._slow_for: dict[str, int] = {}
        """In how many looks in a row each slow worker was slow."""
        self._workers: RateMeter[tuple[str, int]] = RateMeter()
        self._tasks: RateMeter[int] = RateMeter()
        self._passes: RateMeter[int] = RateMeter()
        self._moments, self._numbers = itertools.count(1), itertools.count(1)

    def tell(self, notice: Notice, at: float) -> None:
        """Record that something happened *at* a time, in seconds since 1970."""
        words = notice.words if len(notice.words) <= LONGEST else notice.words[: LONGEST - 1] + "…"
        told = replace(notice, words=words)
        self.notices.append(DatedNotice(next(self._numbers), at, told))

    def look(self, stats: DispatcherStats, seen: MeshLook, at: float) -> Moment:
        """Record a look *at* a time, in seconds since 1970, and return it with rates.

        *seen* is what *stats* say of jobs and of trouble.
        """
        running = [it for it in stats.iterations if not it.finished]
        made = self._workers.look(
            at, (((w.address, w.incarnation), _made(w)) for w in stats.workers)
        )
        tasks = self._tasks.look(at, ((t.task, t.head) for it in running for t in it.tasks))
        acked = self._passes.look(at, ((it.iteration, it.account.acked) for it in running))
        known = {look.iteration: look for look in seen.jobs}
        samples = {
            it.iteration: _sample(at, known.get(it.iteration), acked[it.iteration])
            for it in running
        }
        for iteration, sample in samples.items():
            self._line(iteration).add(sample)
        by_worker = {address: rate for (address, _), rate in made.items()}
        number, trouble = next(self._moments), seen.trouble
        lost, beside = self._lost(stats, at), self._paces(paces(running, known, tasks))
        moment = Moment(number, at, stats, known, by_worker, tasks, samples, trouble, lost, beside)
        found = _between(self.moment, moment)
        if self._hears_facts:
            found = itertools.chain(_began(self.moment, moment), found)
        else:
            found = itertools.chain(_decided(self.moment, moment), found)
        for notice in found:
            self.tell(notice, at)
        self.moment = moment
        return moment

    def _paces(self, seen: Mapping[str, PeerPace]) -> dict[str, PeerPace]:
        """Return *seen*, of which only those are slow that have been for a while."""
        self._slow_for = {
            name: self._slow_for.get(name, 0) + 1 for name, pace in seen.items() if pace.is_slow
        }
        return {
            name: replace(pace, is_slow=self._slow_for.get(name, 0) >= SLOW_FOR)
            for name, pace in seen.items()
        }

    def _lost(self, stats: DispatcherStats, at: float) -> dict[str, float]:
        """Return the workers that are still shown as lost, and when each was last heard."""
        new = self.moment is not None
        self._lost_at = {
            one.address: self._lost_at.get(one.address, at if new else at - one.heard)
            for one in stats.lost_workers
        }
        there = {worker.address for worker in stats.workers}
        return {
            one.address: one.heard
            for one in stats.lost_workers
            if one.address not in there and at - self._lost_at[one.address] < LOST_SHOWN
        }

    def _line(self, iteration: int) -> TimeLine:
        line = self.lines.setdefault(iteration, TimeLine())
        self.lines.move_to_end(iteration)
        while len(self.lines) > LINES_KEPT:
            self.lines.popitem(last=False)
        return line


def _made(worker: WorkerSummary) -> int:
    return _counter(worker, "elements_made")


def _counter(worker: WorkerSummary, name: str) -> int:
    stats: dict[str, Any] = worker.stats or {}
    return int(stats.get(name, 0))


def _sample(at: float, look: JobLook | None, elements: float) -> PassSample:
    if look is None:
        return PassSample(at, 0.0, 0.0, elements, 0.0, 0.0, 0.0)
    loops = [loop for loop in look.loops if loop.seconds > 0]
    return PassSample(
        at,
        max((loop.share for loop in loops), default=0.0),
        sum(loop.rate for loop in loops),
        elements,
        sum(link.rate for _, link in look.links),
        _full(sum(t.nbytes for t in look.tasks), sum(t.room for t in look.tasks)),
        _full(sum(link.held for _, link in look.links), sum(link.room for _, link in look.links)),
    )


def _full(nbytes: int, room: int) -> float:
    return min(1.0, nbytes / room) if room else 0.0


def _began(before: Moment | None, now: Moment) -> Iterator[Notice]:
    """Yield that the dispatcher started, which is the first that its page shows."""
    if before is not None:
        return
    if not now.stats.restarted:
        yield Notice(NoticeKind.STARTED, "the dispatcher started")
        return
    running = sum(not it.finished for it in now.stats.iterations)
    words = f"the dispatcher restarted and continues {counted(running, 'running job')}"
    yield Notice(NoticeKind.RESTARTED, f"{words}; earlier events are only in its log")


def _between(before: Moment | None, now: Moment) -> Iterator[Notice]:
    """Yield what happened between two looks that no fact tells of."""
    if before is None:
        return
    workers = {one.address: one for one in before.stats.workers}
    for worker in now.stats.workers:
        yield from _of_worker(workers.get(worker.address), worker)
    passes = {it.iteration: it for it in before.stats.iterations}
    for it in now.stats.iterations:
        yield from _of_pass(passes.get(it.iteration), it)


def _decided(before: Moment | None, now: Moment) -> Iterator[Notice]:
    """Yield what facts between two looks are about, as far as it can be seen."""
    if before is None:
        return
    were, are = ({w.address: w for w in moment.stats.workers} for moment in (before, now))
    for name in sorted(were.keys() - are.keys()):
        kind, became = NoticeKind.LOST, "is lost"
        if were[name].draining:
            kind, became = NoticeKind.LEFT, "is gone"
        yield Notice(kind, f"worker {name} {became}", worker=name)
    for name in sorted(are.keys() - were.keys()):
        yield Notice(NoticeKind.JOINED, f"worker {name} registered", worker=name)
    over = {it.iteration: it.finished for it in before.stats.iterations}
    for it in now.stats.iterations:
        job = printable(it.job)
        if it.iteration not in over:
            words = f"{title_of(it.job, it.repetition)} begins"
            yield Notice(NoticeKind.OPENED, words, job, it.iteration)
            continue
        yield from _died(before, it)
        if it.finished and not over[it.iteration]:
            yield Notice(
                NoticeKind.FINISHED,
                f"{title_of(it.job, it.repetition)} is finished",
                job,
                it.iteration,
            )


def _died(before: Moment, it: IterationStats) -> Iterator[Notice]:
    lived = {
        one.reader
        for was in before.stats.iterations
        if was.iteration == it.iteration
        for one in was.readers
        if one.status == "live"
    }
    died = [one for one in it.readers if one.status == "expired" and one.reader in lived]
    if died:
        which = f"the reader on {died[0].process}" if len(died) == 1 else f"{len(died)} readers"
        words = f"{which} expired: {'it' if len(died) == 1 else 'they'} read "
        words += title_of(it.job, it.repetition)
        yield Notice(NoticeKind.LOST, words, printable(it.job), it.iteration)


def _of_worker(was: WorkerSummary | None, worker: WorkerSummary) -> Iterator[Notice]:
    name = worker.address
    if worker.draining and (was is None or not was.draining):
        yield Notice(NoticeKind.DRAIN, f"worker {name} drains", worker=name)
    if was is None or was.incarnation != worker.incarnation:
        return
    lost = _counter(worker, "runners_lost") - _counter(was, "runners_lost")
    if lost > 0:
        words = "a runner ended" if lost == 1 else f"{lost} runners ended"
        yield Notice(NoticeKind.LOST, f"{words} unasked on worker {name}", worker=name)


def _of_pass(was: IterationStats | None, it: IterationStats) -> Iterator[Notice]:
    job = printable(it.job)
    again = 0 if was is None else it.account.requeued - was.account.requeued
    if again > 0:
        words = f"{again:,} elements of job {job} were requeued"
        yield Notice(NoticeKind.REQUEUED, words, job, it.iteration)
    for fault in it.faults:
        if was is None or fault not in was.faults:
            words = f"the account of job {job} does not balance: {fault}"
            yield Notice(NoticeKind.UNBALANCED, words, job, it.iteration)
