"""Consumers of coordinated reads that are TensorFlow's clients: their worker, and their rounds.

All of them read one task, of one worker, which has a reader for each. When that worker is lost each
asks whether the task may go. Only when all have been told so is there another task: until then one
might read the new task, and count its rounds, before it gave up the old one.

A client counts rounds from 0, one up for each request. It counts on for what it skips while it has
no task. So it is kept for each consumer which of our rounds one of its numbers is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CountedRound:
    """The number that a consumer's client counts as *asked* means *round*."""

    consumer: int
    asked: int
    round: int


@dataclass(slots=True)
class InStep:
    """The task that *consumers* read, and where each is."""

    consumers: int
    worker: str = ""
    turn: int = -1
    """The number of the task among those of its pass; each worker that is chosen begins one."""
    told: set[int] = field(default_factory=set)
    """The consumers that know that the task is gone."""
    starts: dict[int, int | None] = field(default_factory=dict)
    """The round with which each continues in the next task; None is where the others are."""
    _counted: dict[int, CountedRound] = field(default_factory=dict)

    @property
    def needs_worker(self) -> bool:
        """Whether another worker may be chosen: there was none, or all gave it up."""
        return not self.worker or self.told >= set(range(self.consumers))

    def choose(self, worker: str, turn: int) -> None:
        """Begin task number *turn*, of *worker*."""
        self.worker, self.turn = worker, turn
        self.told.clear()
        self._counted.clear()

    def count(self, counted: CountedRound) -> None:
        """Know from now on how a consumer's client counts."""
        self._counted[counted.consumer] = counted

    def tell(self, consumer: int, start: int | None) -> None:
        """Record that *consumer* gave the task up, and continues with round *start* in the next."""
        self.told.add(consumer)
        self.starts[consumer] = start

    def round_of(self, consumer: int, asked: int) -> int | None:
        """Return which round a client means by *asked*; None if that cannot be said yet."""
        known = self._counted.get(consumer)
        if known is None:
            return self.starts.get(consumer)
        if asked < known.asked:  # another client in the place of one that counted further
            return None
        return known.round + asked - known.asked

    def counted(self) -> Iterator[CountedRound]:
        """Yield how each consumer's client counts."""
        yield from self._counted.values()
