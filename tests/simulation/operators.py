"""What stands between a reader and its loop, and what it does with elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from penstock.engine.unacked import Unacked
from penstock.protocol.ranges import NO_RANGES, RangeSet

Item = tuple[Any, ...]
"""An element that was delivered: its delivery tag, and what came with it."""


class Held:
    """Elements that a loop has not got yet: what is here is unacked.

    It follows a reader (`penstock.engine.unacked.AckTracker`).
    """

    splits_elements = False

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._pulled = 0

    def put(self, items: Sequence[tuple[Any, ...]]) -> None:
        """Take elements in, with the next delivery tags."""
        self.items += [(self._pulled + i, *item) for i, item in enumerate(items)]
        self._pulled += len(items)

    def here(self) -> list[Item]:
        """Return all that is here."""
        return self.items

    def unacked(self) -> Unacked:
        """See `AckTracker.unacked`."""
        spans = ((item[0], item[0] + 1) for item in self.here())
        return Unacked(RangeSet.of(*spans), self._pulled)

    def revoke(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """See `AckTracker.revoke`."""
        tags = choose(self.unacked())
        self.items = [item for item in self.items if item[0] not in tags]
        return tags


class Block(Held):
    """The block before a loop without operators.

    What revokes stops the loop: it asks before the next element. An element that is revoked while
    it is on its way here is left out when it comes.
    """

    free = False

    def __init__(self) -> None:
        super().__init__()
        self._revoked = NO_RANGES

    def put(self, items: Sequence[tuple[Any, ...]]) -> None:
        """See `Held.put`."""
        super().put(items)
        self.items = [item for item in self.items if item[0] not in self._revoked]

    def revoke(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """See `AckTracker.revoke`."""
        self.free = False
        tags = super().revoke(choose)
        self._revoked |= tags
        return tags


class Operators(Held):
    """A shuffle over *depth* elements, then batches of *batch*; *ahead* batches are ready early."""

    def __init__(self, chance: Random, depth: int, batch: int, ahead: int) -> None:
        super().__init__()
        self.depth, self.batch, self.ahead = depth, batch, ahead
        self.groups: list[list[Item]] = []
        self._chance = chance
        self._revoked: set[int] = set()

    def fill(self, *, last: bool) -> None:
        """Make batches of what is here; of the *last* elements, smaller ones."""
        while len(self.groups) <= self.ahead:
            size = min(self.batch, len(self.items))
            if not size or (not last and len(self.items) < self.depth + self.batch):
                return
            self.groups.append(
                [self.items.pop(self._chance.randrange(len(self.items))) for _ in range(size)]
            )

    @property
    def wants(self) -> bool:
        """Whether more could be pulled without anybody asking."""
        return len(self.groups) < self.ahead

    def next(self) -> tuple[list[Item], RangeSet]:
        """Return the next batch, and the tags of those dropped as some of them were lost."""
        dropped: list[tuple[int, int]] = []
        while self.groups:
            group = self.groups.pop(0)
            tags = {item[0] for item in group}
            if not tags & self._revoked:
                return group, RangeSet.of(*dropped)
            dropped += [(tag, tag + 1) for tag in tags - self._revoked]
        return [], RangeSet.of(*dropped)

    def here(self) -> list[Item]:
        """See `Held.here`."""
        return [*self.items, *(item for group in self.groups for item in group)]

    def revoke(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """See `AckTracker.revoke`."""
        tags = super().revoke(choose)
        self._revoked.update(tags)
        return tags


class Line(Held):
    """Of a consumer: batches of *batch* in order; *ahead* of them are ready early."""

    def __init__(self, batch: int, ahead: int) -> None:
        super().__init__()
        self.batch, self.ahead = batch, ahead
        self.ended = False
        """Whether no more comes: the last batch may be smaller."""

    @property
    def ready(self) -> bool:
        """Whether there is a batch."""
        return len(self.items) >= self.batch or (self.ended and bool(self.items))

    @property
    def wants(self) -> bool:
        """Whether more could be pulled without anybody asking."""
        return len(self.items) < self.batch * self.ahead

    def next(self) -> list[Item]:
        """Return the next batch."""
        batch, self.items = self.items[: self.batch], self.items[self.batch :]
        return batch

    def drop_all(self) -> RangeSet:
        """Begin anew; return the tags of what was here."""
        tags = self.unacked().ranges
        self.items, self.ended = [], False
        return tags

    def revoke(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """See `AckTracker.revoke`: what is a consumer's stays so."""
        assert choose(self.unacked()) == NO_RANGES
        return NO_RANGES
