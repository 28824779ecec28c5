"""What workers do with the windows of cached tasks, looked at whenever they have decided something.

What becomes acked for a trainer that its loops did not take is gone for it: as much must be counted
as skipped, or as gone before it came.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.protocol.cache import TrainerProgress
from penstock.protocol.types import ReaderId, ReaderStatus, TaskId
from penstock_worker.core.attempt import Attempt
from penstock_worker.core.shared_cache import SharedCache
from simulation.cache_ledger import CacheLedger
from simulation.worker import SimWorker
from simulation.world import LawBroken

NO_PROGRESS = TrainerProgress()


@dataclass
class Seen:
    """What an attempt was when it was looked at last."""

    head: int
    oldest: int
    nbytes: int
    share: int
    trainers: dict[str, TrainerProgress] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    names: Mapping[ReaderId, str] = field(default_factory=dict)
    total: int | None = None
    front: int = 0
    """The first number that was never sent to anybody."""


class CacheWatch:
    """Looks at the windows of all workers."""

    def __init__(self, ledger: CacheLedger, *, waits: bool) -> None:
        self.ledger, self.waits = ledger, waits
        self._seen: dict[tuple[SimWorker, TaskId, int], Seen] = {}

    def look(self, worker: SimWorker) -> None:
        """Hold what a worker has decided against the laws."""
        for task, attempt in worker.core.attempts.items():
            cache = attempt.delivery
            assert isinstance(cache, SharedCache)
            self._look_at(worker, task, attempt, cache)
        for task, progress in worker.core._ended.items():
            seen = self._seen.get((worker, task, progress.attempt))
            if seen is None:  # it was assigned to a worker that leaves
                for name, one in progress.trainers.items():
                    place = self.ledger.tasks[task].place(name)
                    place.gone.update(place.lacks(one.acked))
            else:
                stale = progress.attempt < self._newest(task)
                now = live(worker, seen.names)
                self._count(task, seen, progress.trainers, now, stale=stale)

    def _look_at(self, worker: SimWorker, task: TaskId, attempt: Attempt, c: SharedCache) -> None:
        key = worker, task, attempt.assignment.attempt
        room = attempt.cache_room
        assert room is not None
        seen, trainers = self._seen.get(key), c.trainers()
        if seen is None:
            assert attempt.assignment.cached is not None
            places = dict(attempt.assignment.cached.trainers)
            seen = self._seen[key] = Seen(c.head, c.head, 0, room.nbytes, places)
            seen.live, seen.names = live(worker, c._names), c._names
            self._check_start(task, attempt, seen, trainers)
        else:
            self._see_front(seen, c)
            now = c.head, c.oldest, room.nbytes, c.total
            if now == (seen.head, seen.oldest, seen.share, seen.total):
                if all(seen.trainers.get(name) == one for name, one in trainers.items()):
                    seen.live = live(worker, c._names)
                    return
        self._check_window(seen, worker, c, room.nbytes)
        for name in trainers.keys() - seen.trainers.keys():
            self._check_newcomer(task, name, seen, trainers[name])
        there = live(worker, c._names)
        stale = attempt.assignment.attempt < self._newest(task)
        self._count(task, seen, trainers, there, stale=stale)
        if c.total is not None:
            known = self.ledger.tasks[task]
            if known.total not in (None, c.total):
                raise LawBroken(f"law 5: task {task} has {c.total} elements, and {known.total}")
            known.total = c.total
        seen.head, seen.oldest, seen.nbytes, seen.share = c.head, c.oldest, c.nbytes, room.nbytes
        seen.live, seen.total = there, c.total

    def _newest(self, task: TaskId) -> int:
        """Return the number of a task's newest attempt."""
        known = self.ledger.tasks.get(task)
        return 0 if known is None else known.attempts

    # --- what becomes of elements ---

    def _count(
        self,
        task: TaskId,
        seen: Seen,
        trainers: Mapping[str, TrainerProgress],
        now: set[str],
        *,
        stale: bool,
    ) -> None:
        """Laws 2 and 7: what is gone is counted; and where trainers wait, nothing is.

        Of a *stale* attempt trainers may have had more from the next one meanwhile.
        """
        for name, one in trainers.items():
            was = seen.trainers.get(name, NO_PROGRESS)
            seen.trainers[name] = one
            if was == one:
                continue
            place = self.ledger.tasks[task].place(name)
            news = one.acked.ranges - was.acked.ranges
            gone = [n for n in news if n not in place.takes]
            counted = one.skipped + one.before - was.skipped - was.before
            doubts = sum(
                n in place.takes and (stale or self.ledger.ever_expired.issuperset(place.takes[n]))
                for n in news
            )
            new = [n for n in gone if n not in place.gone]
            place.gone.update(gone)
            # Readers may have told what an attempt before this one left out, and could not report.
            if not len(new) <= counted <= len(gone) + doubts:
                raise LawBroken(
                    f"law 2: {gone} of task {task} are gone for {name}, and {counted} are counted"
                )
            # What went while it was away may be counted by the next attempt, when it is back.
            if self.waits and new and one.skipped > was.skipped and name in seen.live & now:
                raise LawBroken(f"law 7: {name} waits, and skips {new} of task {task}")

    def _check_start(
        self, task: TaskId, attempt: Attempt, seen: Seen, trainers: Mapping[str, TrainerProgress]
    ) -> None:
        """Law 6: a move makes nobody skip that has a place."""
        self.ledger.world.stats["windows"] += 1
        for name in seen.trainers:
            place = self.ledger.tasks[task].place(name)
            left_out = {n for n in trainers[name].acked.ranges if n not in place.over}
            if lost := {n for n in left_out if n >= place.forgone}:
                number = attempt.assignment.attempt
                raise LawBroken(
                    f"law 6: attempt {number} of task {task} begins at {seen.head}, and {name} "
                    f"never gets {sorted(lost)}"
                )

    def _check_newcomer(self, task: TaskId, name: str, seen: Seen, one: TrainerProgress) -> None:
        """Law 10: a trainer that nobody knew begins with the oldest element."""
        had = sum(n < seen.oldest for n in self.ledger.tasks[task].place(name).takes)
        if not seen.oldest - had <= one.before <= seen.oldest:
            raise LawBroken(
                f"law 10: {name} comes to task {task} at {seen.oldest}, and {one.before} are before"
            )
        self.ledger.world.stats["newcomers"] += 1

    # --- the window ---

    def _see_front(self, seen: Seen, c: SharedCache) -> None:
        """Note what was sent to somebody, also if it comes back before anything else changes."""
        for one in c._trainers.values():
            ready = one.ownership.ready
            seen.front = max(seen.front, ready.spans[0][0] if ready else c.head)

    def _check_window(self, seen: Seen, worker: SimWorker, c: SharedCache, share: int) -> None:
        frames = c.frames._frames
        if sum(one.stop - one.start for one in frames) != c.head - c.oldest:
            raise LawBroken(f"law 5: the window from {c.oldest} to {c.head} has gaps")
        if c.head < seen.head or c.oldest < seen.oldest:
            raise LawBroken(f"law 5: made {c.head} behind {seen.head}, {c.oldest} {seen.oldest}")
        tasks = sum(one.cache_room is not None for one in worker.core.attempts.values())
        if share != max(1, worker.work.cache // tasks):
            raise LawBroken(f"law 4: a share of {share} bytes for one of {tasks} tasks")
        if c.head > seen.head:
            if c.nbytes > share and len(frames) > 1:
                raise LawBroken(f"law 4: a window of {c.nbytes} bytes, and its share is {share}")
            ahead = [one.frame.nbytes for one in frames if one.start >= seen.front]
            room = worker.work.room * worker.work.nbytes
            if sum(ahead[:-1]) > room:  # what was evicted just now made room for one frame more
                raise LawBroken(f"law 9: {sum(ahead)} bytes are made ahead, and {room} is the room")
        elif c.oldest > seen.oldest:
            self.ledger.world.stats["evictions"] += 1
            if share == seen.share and all(one.ownership.ready for one in c._trainers.values()):
                raise LawBroken("law 9: a frame is evicted, and nobody has read all there is")


def live(worker: SimWorker, names: Mapping[ReaderId, str]) -> set[str]:
    """Return the trainers that have readers of those in *names*, for all a worker was told."""
    status = worker.core._readers
    return {
        name
        for reader, name in names.items()
        if status.get(reader, ReaderStatus.LIVE) is ReaderStatus.LIVE
    }
