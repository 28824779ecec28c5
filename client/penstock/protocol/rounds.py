"""Messages of coordinated reads: which consumer gets which element in which round. Plain values.

The elements of a task are cut into *groups* with one element for each consumer. In group *g*,
element ``base + g * consumers + i`` always belongs to consumer *i*. A *round* is one group,
the same for all consumers. Consumers must agree only on which (task, group) is which round. The
dispatcher keeps a log of that and alone appends to it.

    ──── floor ────────────── released ─────────────▶ rounds
     taken by  │ here at every  │ not decided: consumers fetch ahead,
     all       │ consumer: final│ of each task its next groups

A round is *released* once every consumer has its element of that group, all made by one attempt.
A slow or dead worker can then no longer delay it, so the dispatcher never withdraws a decision.
Each consumer keeps room for an element of every task, so that it can always continue.

Other messages carry these values. A reader's heartbeat carries a `RoundsReport`, and the answer a
`RoundsView`. An assignment says how the task is `Grouped`. A consumer's subscription says which
groups it wants (`GroupsWanted`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.protocol.types import Failure, TaskId

ELEMENT_NBYTES = 1024
"""The credit, in bytes, that each element of a consumer takes on top of its payload.

Keeping an element costs this much memory, even if its payload is small."""


class Remainder(Enum):
    """How a task's last elements are handled if they are too few for a group."""

    DROP = "drop"
    """They are dropped."""
    PAD = "pad"
    """The group is filled with copies of its own elements, marked as padding."""
    REPEAT = "repeat"
    """As PAD, but the copies are not marked."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """How the elements of a task are cut: groups of *consumers*, from element *base* on."""

    consumers: int
    base: int
    remainder: Remainder

    def count(self, head: int, *, ended: bool) -> int:
        """Return how many groups there are when *head* is the next element to be made."""
        elements = max(0, head - self.base)
        short = ended and self.remainder is not Remainder.DROP and elements % self.consumers > 0
        return elements // self.consumers + short

    def element(self, group: int, index: int, total: int | None) -> int:
        """Return the number of consumer *index*'s element of *group*.

        If the task ended with *total* elements, a short last group repeats its own elements.
        """
        first = self.base + group * self.consumers
        there = self.consumers if total is None else min(self.consumers, total - first)
        return first + index % there

    def floor(self, groups: int) -> int:
        """Return the element number below which the first *groups* lie."""
        return self.base + groups * self.consumers


@dataclass(frozen=True, slots=True)
class GroupsHeld:
    """A consumer holds its elements of *task* in all groups below *groups* that it has not taken.

    Elements of groups that are not released were made by *attempt*.
    """

    task: TaskId
    attempt: int
    groups: int


@dataclass(frozen=True, slots=True)
class RoundsReport:
    """The state of consumer *index*. All rounds below *taken* reached its training loop.

    Rounds below *handed* reached at least the operators after `distribute`, which may need more.

    If several processes have one index, the dispatcher accepts the one with the latest *stamp*: the
    time when it first asked, in nanoseconds since 1970. *start* is the round that it asks to begin
    with; None asks for the round of the other consumers. Before the dispatcher admits the process,
    *taken* and *held* have no meaning.
    """

    index: int
    stamp: int
    start: int | None = None
    taken: int = 0
    held: tuple[GroupsHeld, ...] = ()
    handed: int = 0


class RoundEntry(NamedTuple):
    """The task and group that make up a round."""

    task: TaskId
    group: int


@dataclass(frozen=True, slots=True)
class LostConsumer:
    """A consumer that the others wait for in vain; *description* tells people who and why."""

    index: int
    description: str


@dataclass(frozen=True, slots=True)
class RoundsView:
    """The released rounds: *entries*, from round *first*. This consumer took the earlier ones.

    This process of the consumer begins with round *start*. *last* is the end of the pass, once
    agreed: consumers take all rounds below it, and then the pass ends or fails with *failure*.
    """

    start: int
    first: int
    entries: tuple[tuple[TaskId, int], ...] = ()
    """Each a `RoundEntry` as a plain pair, for speed: up to hundreds, a hundred times a second."""
    last: int | None = None
    failure: Failure | None = None
    lost: tuple[LostConsumer, ...] = ()

    @property
    def released(self) -> int:
        """The first round that is not released."""
        return self.first + len(self.entries)


@dataclass(frozen=True, slots=True)
class GroupsWanted:
    """Consumer *index* asks for its elements of all groups from *group* on, in order."""

    index: int
    group: int


# --- one order that several consumers divide: of n, consumer k gets the elements k, k + n, ... ---
#
# An element's *place* in the one order is that of its task's first element plus its number in the
# task. Workers produce tasks at the same time, so the place of a task is known only when all tasks
# before it are complete. Until then, its elements wait at its worker. The dispatcher records each
# place, so an element keeps its place if it is produced again, or if a job continues with another
# number of consumers.

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
