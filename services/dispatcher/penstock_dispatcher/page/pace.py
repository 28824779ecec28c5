"""How fast each worker makes its tasks, beside other workers with tasks of the same jobs."""

from __future__ import annotations

import statistics
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.explanation.looks import JobLook
from penstock_dispatcher.core.stats import IterationStats

SLOW = 0.5
"""A worker that makes less than this share of its peers' median is slow."""

WAITS_FOR_READERS = 0.5
"""A worker whose buffers are fuller than this share waits for readers, so it is not slow itself."""

FEW = 16
"""Among more workers, one of them hardly moves the median, so it is not taken out."""


@dataclass(frozen=True, slots=True)
class PeerPace:
    """A worker's *rate*, and what the *median* of its peers would make of as many tasks.

    Both are elements a second, and count only jobs that other workers have tasks of, too.
    """

    rate: float
    median: float
    is_slow: bool


@dataclass(frozen=True, slots=True)
class _Share:
    """A worker's tasks of one job: how many, and their elements a second."""

    tasks: int
    rate: float

    @property
    def each(self) -> float:
        return self.rate / self.tasks


def paces(
    running: Iterable[IterationStats], looks: Mapping[int, JobLook], by_task: Mapping[int, float]
) -> dict[str, PeerPace]:
    """Return the pace of each worker that has peers.

    Args:
        running: the passes that run.
        looks: what workers say of their tasks, by iteration.
        by_task: elements a second of each task.
    """
    rates, medians = defaultdict[str, float](float), defaultdict[str, float](float)
    for it in running:
        shares = _shares(it, by_task)
        for worker, usual in _medians({name: one.each for name, one in shares.items()}):
            rates[worker] += shares[worker].rate
            medians[worker] += usual * shares[worker].tasks
    full = _waiting_for_readers(looks.values())
    return {
        worker: PeerPace(
            rate, medians[worker], worker not in full and rate < SLOW * medians[worker]
        )
        for worker, rate in rates.items()
    }


def _shares(it: IterationStats, by_task: Mapping[int, float]) -> dict[str, _Share]:
    made = defaultdict[str, list[float]](list)
    for task in it.tasks:
        if task.worker is not None and not task.done and task.failure is None:
            made[task.worker].append(by_task.get(task.task, 0.0))
    return {worker: _Share(len(rates), sum(rates)) for worker, rates in made.items()}


def _medians(rates: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Yield for each worker the median of the others: its own would hide one of two workers."""
    if len(rates) < 2:
        return
    whole = statistics.median(rates.values())
    for worker in rates:
        if len(rates) > FEW:
            yield worker, whole
        else:
            yield worker, statistics.median(r for name, r in rates.items() if name != worker)


def _waiting_for_readers(looks: Iterable[JobLook]) -> set[str]:
    held, room = defaultdict[str, int](int), defaultdict[str, int](int)
    for task in (one for look in looks for one in look.tasks):
        held[task.worker] += task.nbytes
        room[task.worker] += task.room
    return {name for name, nbytes in held.items() if nbytes > WAITS_FOR_READERS * room[name] > 0}


K = TypeVar("K", bound=Hashable)

LOOKS = 6
"""The number of looks that make a rate: counters come with heartbeats, one a second, and two looks
alone would see none of them now and two then."""


class RateMeter(Generic[K]):
    """Rates of counters by their names, each over its last `LOOKS` looks."""

    def __init__(self) -> None:
        self._seen: dict[K, deque[tuple[float, int]]] = {}

    def look(self, at: float, counters: Iterable[tuple[K, int]]) -> dict[K, float]:
        """Return how many a second each of *counters* grows; those not given are forgotten.

        A counter that fell, as that of a process which began again, has a rate of 0.
        """
        seen: dict[K, deque[tuple[float, int]]] = {}
        rates = {}
        for name, count in counters:
            looks = self._seen.get(name)
            if looks is None or count < looks[-1][1]:
                looks = deque(maxlen=LOOKS)
            if not looks or at > looks[-1][0]:
                looks.append((at, count))
            (began, first), (ended, last) = looks[0], looks[-1]
            seen[name] = looks
            rates[name] = (last - first) / (ended - began) if ended > began else 0.0
        self._seen = seen
        return rates
