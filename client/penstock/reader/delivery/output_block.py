"""The outermost operator's block, and delivery tags revoked from it.

*Revoked* tags were requeued for other readers while local operators had their elements. An element
that is made of one is dropped; what else it is made of is requeued too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.element import Element
from penstock.engine.iterator import Mark, State
from penstock.engine.unacked import UnackedBySession, acked_between, by_session, unacked_in
from penstock.graph.run import END, LoopBlock
from penstock.protocol.ranges import NO_RANGES, RangeSet
from penstock.runtime import clock
from penstock.runtime.interrupts import SingleEntry

ALL: Final = 1 << 62
"""More delivery tags than there are."""


class LeaseHolder(Protocol):
    """Until when elements may be handed out."""

    @property
    def lease_until(self) -> float:
        """The moment, by the clock of leases."""
        ...


@dataclass(frozen=True, slots=True)
class AllLeases:
    """The leases of several sessions: an element may be made of any of them."""

    leases: Sequence[LeaseHolder]

    @property
    def lease_until(self) -> float:
        """See `LeaseHolder.lease_until`."""
        return min(lease.lease_until for lease in self.leases)


def within_lease(rest: Iterator[Element], permission: LeaseHolder) -> Iterator[Element]:
    """Yield from *rest*, each element within the lease.

    A thread that asks while another is inside gets the ValueError of all generators, and no element
    is lost by it: a lock here would cost every loop a fifth of its speed.
    """
    now = clock.now
    while now() < permission.lease_until:
        for element in rest:
            yield element
            break
        else:
            return


@dataclass(frozen=True, slots=True)
class Dropped:
    """An element that must not be handed out, and what to requeue with it, by session."""

    others: Mapping[int, RangeSet]


AGAIN: Final = Dropped({})
"""Something changed: look again."""


class OutputBlock:
    """The block that the loop is in. The loop's thread hands out, any thread asks or revokes.

    The rest is a list's own iterator: to pop one element, to count what is left and to pop all
    that is left are each one step, whichever thread does it. The lock is held for a moment only,
    and nothing that waits is called with it held. Where the operators are *straight*, each element
    has one delivery tag.
    """

    def __init__(self, *, straight: bool = False) -> None:
        self._lock = SingleEntry()
        self._straight = straight
        self._mark: Mark = lambda _back: None
        self._rest: Iterator[Element] = iter(())
        self._checked = True
        """Whether the rest may be handed out as it is."""
        self._before: UnackedBySession = {}
        """The tags unacked before the next element, while tags are revoked."""
        self._revoked: dict[int, RangeSet] = {}
        self._named: set[int] = set()
        """Sessions that marks named, while tags were revoked."""
        self._known: tuple[Mark, int, UnackedBySession] | None = None
        """The last answer of `unacked`: it is often asked again."""

    @property
    def left(self) -> int:
        """How many elements of the block were not handed to the loop."""
        return operator.length_hint(self._rest)

    def put(self, block: Sequence[Element], mark: Mark) -> None:
        """Set the next block; the one before is used up."""
        with self._lock:
            before, back = self._mark, self.left
            self._mark, self._rest = mark, iter(block)
            self._checked = not self._revoked
            if self._revoked:
                self._before = unacked_in(before(back))
                self._forget(self._before, unacked_in(mark(0)))
                self._check_all()

    def next(self, holders: Iterable[LeaseHolder] = ()) -> LoopBlock | Dropped:
        """Return the next element; of size 0 if nothing is left.

        After a `Dropped`, call `drop` when the others are requeued. When not all *holders* allow
        that an element is handed out, that is `AGAIN`: once they forbid it, `revoke` tells exactly
        what the loop consumed.
        """
        with self._lock:
            rest = self._rest
            left = operator.length_hint(rest)
            if not left:
                return END
            for holder in holders:
                if clock.now() >= holder.lease_until:
                    return AGAIN
            if self._checked:
                element = next(rest)
                if left == 1:  # a used list keeps its elements: the loop may drop a large one now
                    rest = self._rest = iter(())
                return LoopBlock(element, rest, left)
            mark = self._mark
        after = unacked_in(mark(left - 1))
        made_of = acked_between(self._before, after)
        with self._lock:
            if self._rest is not rest:  # revoked since: look again
                return AGAIN
            tags = by_session([made_of])
            if not self._is_revoked(tags):
                self._before = after
                return LoopBlock(next(rest), iter(()), 1)
            revoked = self._revoked
            return Dropped({key: runs - revoked.get(key, NO_RANGES) for key, runs in tags.items()})

    def drop(self, dropped: Dropped) -> None:
        """Skip the element that was *dropped*."""
        if dropped is AGAIN:
            return
        with self._lock:
            for key, tags in dropped.others.items():
                self._revoked[key] = self._revoked.get(key, NO_RANGES) | tags
            next(self._rest, None)
            mark, left = self._mark, self.left
        self._before = unacked_in(mark(left))

    def unacked(self) -> UnackedBySession:
        """Return the tags that are unacked now, by session."""
        with self._lock:
            mark, left = self._mark, self.left
            known = self._known
        if known is not None and known[0] is mark and known[1] == left:
            return known[2]
        unacked = unacked_in(mark(left))
        self._known = mark, left, unacked
        return unacked

    def revoke(
        self, key: int, pick: Callable[[Callable[[], UnackedBySession]], RangeSet]
    ) -> RangeSet:
        """Revoke the tags of session *key* that *pick* chooses from the unacked; return them."""
        with self._lock:
            block = list(self._rest)  # which leaves the loop's own iterator with nothing
            self._rest, self._checked = iter(block), False
            unacked = unacked_in(self._mark(len(block)))
            tags = pick(lambda: unacked)
            if tags:
                self._revoked[key] = self._revoked.get(key, NO_RANGES) | tags
            self._before = unacked
            self._check_all()
        return tags

    @property
    def position(self) -> tuple[Mark, int]:
        """Where the loop stands: a mark, and how many elements before it."""
        with self._lock:
            return self._mark, self.left

    @property
    def revoked(self) -> bool:
        """Whether operators may still hold something that was revoked."""
        with self._lock:
            return bool(self._revoked)

    @property
    def tag(self) -> State:
        """The outermost operator's state before the next element."""
        mark, left = self.position
        return mark(left)

    def stop(self) -> None:
        """Let the loop get nothing more of the block: it stays unacked."""
        with self._lock:
            block = list(self._rest)
            self._rest, self._checked = iter(block), False

    def clear(self, mark: Mark) -> None:
        """Begin with other operators: everything that was unacked is requeued."""
        with self._lock:
            self._rest, self._mark = iter(()), mark
            self._revoked, self._checked = {}, True

    def _check_all(self) -> None:
        """Check whether all of the rest may be handed out, or none of it: most often it is so."""
        if not self._revoked:
            self._checked = True
            return
        tags = by_session([acked_between(self._before, unacked_in(self._mark(0)))])
        if not self._is_revoked(tags):
            self._checked = True
        elif self._straight and not any(
            runs - self._revoked.get(key, NO_RANGES) for key, runs in tags.items()
        ):
            self._rest = iter(())

    def _is_revoked(self, tags: Mapping[int, RangeSet]) -> bool:
        return any(self._revoked.get(key, NO_RANGES) & runs for key, runs in tags.items())

    def _forget(self, before: UnackedBySession, after: UnackedBySession) -> None:
        """Forget revoked tags that no element can be made of any more, of this block or later."""
        for key, revoked in list(self._revoked.items()):
            if key in before:
                self._revoked[key] = before[key].missing(ALL) & revoked
            elif key in self._named:
                self._revoked[key] = NO_RANGES
            # Else operators have read ahead: it is still to come.
        self._revoked = {key: revoked for key, revoked in self._revoked.items() if revoked}
        self._named.update(before, after)
