"""Elements delivered to local operators and not acked: from delivery tags to element numbers.

Delivery tags are 0, 1, 2, ... in the order of delivery. The marks of the outermost operator say
which tags are unacked; `Deliveries` maps each tag to an element of a task. It keeps ranges of
tags, and forgets them once they are acked. `Replay` has the elements that local operators held at a
save: a restore delivers these first, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.engine.unacked import Unacked
from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.protocol.types import TaskId

if TYPE_CHECKING:
    from penstock.engine.unacked import AckTracker

Run: TypeAlias = tuple[int, int, int]
"""Elements of a task: the task's number, the first element's, and the one after the last's."""

Numbers = Mapping[TaskId, RangeSet]


class Delivery(NamedTuple):
    """The delivery tags *start* to *stop*; *start* is element *number* of *task*."""

    start: int
    stop: int
    task: TaskId
    number: int

    def part(self, start: int, stop: int) -> Delivery:
        """Return the part with the tags *start* to *stop*."""
        return Delivery(start, stop, self.task, self.number + start - self.start)

    def below(self, number: int) -> Delivery | None:
        """Return the part whose element numbers are below *number*."""
        stop = min(self.stop, self.start + number - self.number)
        return self.part(self.start, stop) if stop > self.start else None


Wanted = Callable[[Delivery], Delivery | None]
"""Returns the part of a delivery that is to be revoked."""


class Deliveries:
    """The unacked elements, each of which will be acked, requeued or revoked."""

    def __init__(self) -> None:
        self.tracker: AckTracker | None = None
        """Tells which tags are unacked; if None, elements are acked as they are delivered."""
        self.next_tag = 0
        """The next delivery tag."""
        self._deliveries: list[Delivery] = []

    def __bool__(self) -> bool:
        return bool(self._deliveries)

    def __len__(self) -> int:
        """The number of ranges in which unacked elements are kept."""
        return len(self._deliveries)

    def add(self, task: TaskId, start: int, stop: int) -> None:
        """Give the next delivery tags to the numbers *start* to *stop* of *task*."""
        at = self.next_tag
        self.next_tag += stop - start
        if self._deliveries:
            last = self._deliveries[-1]
            follows = last.stop == at and last.number + last.stop - last.start == start
            if follows and last.task == task:
                self._deliveries[-1] = Delivery(last.start, self.next_tag, task, last.number)
                return
        self._deliveries.append(Delivery(at, self.next_tag, task, start))

    def runs(self) -> tuple[Run, ...]:
        """Return the unacked elements, in the order of delivery."""
        return tuple((task, at, at + stop - start) for start, stop, task, at in self._deliveries)

    def collect_acks(self) -> Numbers:
        """Return the numbers acked since the last call."""
        if self.tracker is None or not self._deliveries:
            return {}
        return _numbers(self._acked(self.tracker.unacked()))

    def halt(self) -> Numbers:
        """Stop the loop between two elements; return the numbers acked.

        Before its next element, the loop checks the lease.
        """
        tracker, acked = self.tracker, list[Delivery]()
        if tracker is None:
            return {}

        def choose(unacked: Unacked) -> RangeSet:
            acked.extend(self._acked(unacked))
            return NO_RANGES

        tracker.revoke(choose)
        return _numbers(acked)

    def revoke(self, wanted: Wanted) -> tuple[Numbers, Numbers]:
        """Revoke the *wanted* parts; return the numbers acked meanwhile, and those revoked.

        An element that operators have cut into pieces cannot be revoked: it is acked.
        """
        tracker, acked = self.tracker, list[Delivery]()
        if tracker is None or not self._deliveries:
            return {}, {}

        def choose(unacked: Unacked) -> RangeSet:
            acked.extend(self._acked(unacked))
            found = (wanted(delivery) for delivery in self._deliveries)
            return RangeSet.of(*((part.start, part.stop) for part in found if part is not None))

        tags = choose(tracker.unacked()) if tracker.splits_elements else tracker.revoke(choose)
        revoked, self._deliveries = _split(self._deliveries, tags)
        if tracker.splits_elements:
            return _numbers([*acked, *revoked]), {}
        return _numbers(acked), _numbers(revoked)

    def requeue(self, tags: RangeSet) -> Numbers:
        """Forget and return the elements with *tags*, which operators dropped."""
        requeued, self._deliveries = _split(self._deliveries, tags)
        return _numbers(requeued)

    def _acked(self, unacked: Unacked) -> list[Delivery]:
        self._deliveries, acked = _split(self._deliveries, unacked.missing(self.next_tag))
        return acked


def _split(deliveries: list[Delivery], tags: RangeSet) -> tuple[list[Delivery], list[Delivery]]:
    """Divide *deliveries* into what lies in *tags*, and the rest."""
    if not tags.spans:
        return [], deliveries
    inside: list[Delivery] = []
    outside: list[Delivery] = []
    spans, i = tags.spans, 0
    for delivery in deliveries:
        start, at, stop = delivery.start, delivery.start, delivery.stop
        while i < len(spans) and spans[i][1] <= at:
            i += 1
        j = i
        while at < stop:
            low, high = spans[j] if j < len(spans) else (stop, stop)
            if low > at:
                end = min(low, stop)
                outside.append(delivery if end - at == stop - start else delivery.part(at, end))
                at = end
            if at < stop:
                end = min(high, stop)
                inside.append(delivery if end - at == stop - start else delivery.part(at, end))
                at = end
                j += 1
    return inside, outside


def _numbers(deliveries: Iterable[Delivery]) -> Numbers:
    spans: dict[TaskId, list[tuple[int, int]]] = {}
    for start, stop, task, number in deliveries:
        spans.setdefault(task, []).append((number, number + stop - start))
    return {task: RangeSet.of(*each) for task, each in spans.items()}


class NotAsBefore(Exception):
    """The elements that operators held come in another order, or went to another reader."""


class Replay:
    """The elements to deliver first, and whether they are."""

    def __init__(self) -> None:
        self._left: list[Run] = []
        """The next one last."""
        self._given_up = False

    def expect(self, held: Iterable[Run]) -> None:
        """Ask for *held* first."""
        self._left = list(held)
        self._left.reverse()

    @property
    def next(self) -> Run | None:
        """The next run; None if all runs were delivered, or none was asked for."""
        return self._left[-1] if self._left and not self._given_up else None

    @property
    def left(self) -> tuple[Run, ...]:
        """The runs that are not delivered yet, in order."""
        return () if self._given_up else tuple(reversed(self._left))

    def bound(self, limit: int | None) -> int | None:
        """Return *limit*, or less, to deliver nothing together with the next run."""
        run = self.next
        if run is None:
            return limit
        length = run[2] - run[1]
        return length if limit is None else min(limit, length)

    def give_up(self) -> None:
        """Record that the next run does not come."""
        self._given_up = True

    def take(self, task: int, number: int, count: int) -> None:
        """Record that *count* elements of *task* were delivered, from *number* on.

        Raises:
            NotAsBefore: if these elements are not next; after that, nothing is expected.
        """
        while count and self._left:
            due, start, stop = self._left.pop()
            if self._given_up or (due, start) != (task, number):
                self._left.clear()
                raise NotAsBefore
            taken = min(count, stop - start)
            if start + taken < stop:
                self._left.append((due, start + taken, stop))
            count, number = count - taken, number + taken
