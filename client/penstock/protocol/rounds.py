"""Messages of coordinated reads: which element is whose in which round. Plain values.

The elements of a task are cut into *groups* of as many as there are consumers: element
``base + g * consumers + i`` of a task belongs to consumer *i*, for ever. A *round* is one group,
for all consumers the same. What needs agreement is only which (task, group) is which round: that
is a log, which the dispatcher alone appends to.

    ──── floor ────────────── released ─────────────▶ rounds
     taken by  │ here at every  │ not decided: consumers fetch ahead,
     all       │ consumer: final│ of each task its next groups

A round is *released* once every consumer has its element of that group, all of them made by one
attempt: no worker that is slow or dies can hold it up any more. So nothing that is decided is ever
withdrawn. Each consumer keeps room for an element of every task, so that it can always go on.

What travels with other messages: a reader's heartbeat carries a `RoundsReport`, the answer a
`RoundsView`; an assignment of such a task says how it is `Grouped`; a consumer's subscription says
which groups it wants (`GroupsWanted`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from penstock.protocol.types import Failure, TaskId

ELEMENT_NBYTES = 1024
"""The credit that each element of a consumer takes beside its payload's bytes: to keep one takes so
much, be it ever so small."""


class Remainder(Enum):
    """What becomes of the last elements of a task, if they are too few for a group."""

    DROP = "drop"
    """They are left out."""
    PAD = "pad"
    """The group is filled with its own elements; those are marked as padding."""
    REPEAT = "repeat"
    """As PAD, unmarked."""


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

        Of a task that ended with *total* elements, a short last group is filled with its own.
        """
        first = self.base + group * self.consumers
        there = self.consumers if total is None else min(self.consumers, total - first)
        return first + index % there

    def floor(self, groups: int) -> int:
        """Return the element number below which the first *groups* lie."""
        return self.base + groups * self.consumers


@dataclass(frozen=True, slots=True)
class GroupsHeld:
    """A consumer has its elements of *task* in all groups below *groups* that it did not take.

    What of that is not released was made by *attempt*.
    """

    task: TaskId
    attempt: int
    groups: int


@dataclass(frozen=True, slots=True)
class RoundsReport:
    """What consumer *index* has. All rounds below *taken* reached its training loop.

    Those below *handed* reached at least operators behind `distribute`, which may need more.

    Of processes with one index the one with the latest *stamp* is right: nanoseconds since 1970
    when it began to ask, however long nobody answered. *start* is the round that it asks to begin
    with; None for that of the others.
    Before the dispatcher let it in, *taken* and *held* say nothing.
    """

    index: int
    stamp: int
    start: int | None = None
    taken: int = 0
    held: tuple[GroupsHeld, ...] = ()
    handed: int = 0


class RoundEntry(NamedTuple):
    """What a round is made of."""

    task: TaskId
    group: int


@dataclass(frozen=True, slots=True)
class LostConsumer:
    """A consumer that the others wait for in vain; *description* says who and why, for people."""

    index: int
    description: str


@dataclass(frozen=True, slots=True)
class RoundsView:
    """Which rounds are released: *entries* from round *first* on; those before it were taken here.

    This process of the consumer begins with round *start*. *last* is where the pass ends, once that
    is agreed: all take the rounds below it, and then the pass is over, or there is a *failure*.
    """

    start: int
    first: int
    entries: tuple[tuple[TaskId, int], ...] = ()
    """Each a `RoundEntry`, as plain pairs: there may be hundreds, a hundred times a second."""
    last: int | None = None
    failure: Failure | None = None
    lost: tuple[LostConsumer, ...] = ()

    @property
    def released(self) -> int:
        """The first round that is not released."""
        return self.first + len(self.entries)


@dataclass(frozen=True, slots=True)
class GroupsWanted:
    """Consumer *index* wants its elements of all groups from *group* on, in order."""

    index: int
    group: int
