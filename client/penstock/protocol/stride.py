"""One order that goes to several consumers: of n, consumer k gets the elements k, k + n, and so on.

An element's *place* in the one order is that of its task's first element plus its number in the
task. Tasks are made side by side, so the place of one is known when all tasks before it were made;
until then its elements wait at its worker. The dispatcher writes each place down: whatever is made
again, or resumed with another number of consumers, an element keeps its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.ranges import NO_RANGES, RangeSet

STRIDED_NBYTES = 64 << 10
"""The credit that each element takes besides its payload's bytes.

A reader's elements of a task form one range each, and this bounds them to about a thousand."""


@dataclass(frozen=True, slots=True)
class Stride:
    """How the elements of a task go to *consumers*; *place* is that of its first one, if known."""

    consumers: int
    place: int | None = None

    def index(self, number: int) -> int:
        """Return the consumer of element *number*.

        Raises:
            ValueError: when the task's place is not known.
        """
        if self.place is None:
            raise ValueError(f"whose element {number} is cannot be known yet")
        return (self.place + number) % self.consumers

    def numbers(self, index: int, start: int, stop: int) -> RangeSet:
        """Return the numbers from *start* to *stop* that are consumer *index*'s; raises as that."""
        if start >= stop:
            return NO_RANGES
        if self.consumers == 1:
            return RangeSet(((start, stop),))
        first = start + (index - self.index(start)) % self.consumers
        return RangeSet(tuple((n, n + 1) for n in range(first, stop, self.consumers)))
