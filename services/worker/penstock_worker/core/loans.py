"""Places of arenas that readers on this host look at, and when they may be written again.

    lent ──freed by the core──▶ kept ──last loan given back──▶ free
      └──last loan given back──▶ not lent, as any place

A place is lent for each time that its frame is sent. What a core frees while readers still look at
it is *kept*: it counts as free to all but the runner, which writes elsewhere until it is returned.
So a loop that keeps what it got keeps no runner waiting. There is a limit to that: beyond it frames
are lent to be copied out at once, by their reader.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NewType, TypeVar

A = TypeVar("A", bound=Hashable)
"""What names an arena."""

BorrowerId = NewType("BorrowerId", int)
"""A reader's connection."""


@dataclass(frozen=True, slots=True)
class Loan:
    """The reader gives back *number*; it copies *out* the frame at once, or when its views die."""

    number: int
    out: bool


@dataclass(slots=True)
class _Place:
    nbytes: int
    loans: int = 0
    kept: bool = False


class Loans(Generic[A]):
    """What is lent, of all arenas of a worker.

    *most_kept* bytes may be kept in all, and *most* be lent of one arena; a frame larger than
    *largest* is copied out in any case.
    """

    def __init__(self, most_kept: int, most: int, largest: int) -> None:
        self.kept = 0
        """Bytes that are kept."""
        self.lent_frames = self.copied_frames = 0
        """How many frames were lent, and how many more to be copied out."""
        self._most_kept, self._most, self._largest = most_kept, most, largest
        self._places: dict[A, dict[int, _Place]] = {}
        self._lent: dict[A, int] = {}
        self._loans: dict[BorrowerId, dict[int, tuple[A, int]]] = {}
        self._next = 1

    def lend(self, borrower: BorrowerId, arena: A, offset: int, nbytes: int) -> Loan:
        """Lend the place of a frame to a reader."""
        places = self._places.setdefault(arena, {})
        there = self._lent.get(arena, 0)
        out = nbytes > self._largest or self.kept > self._most_kept
        place = places.get(offset)
        if place is None:
            out = out or there + nbytes > self._most
            place = places[offset] = _Place(nbytes)
            self._lent[arena] = there + nbytes
        place.loans += 1
        number, self._next = self._next, self._next + 1
        self._loans.setdefault(borrower, {})[number] = arena, offset
        if out:
            self.copied_frames += 1
        else:
            self.lent_frames += 1
        return Loan(number, out)

    def free(self, arena: A, offsets: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Note that nobody is to get these frames any more; return what is free now, and kept."""
        places = self._places.get(arena, {})
        free: list[int] = []
        kept: list[int] = []
        for offset in offsets:
            place = places.get(offset)
            if place is None:
                free.append(offset)
            elif not place.kept:
                self._keep(place)
                kept.append(offset)
        return tuple(free), tuple(kept)

    def end_run(self, arena: A) -> tuple[int, ...]:
        """Note that no frame of *arena* is needed any more; return what is kept from now on."""
        return self.free(arena, self.lent(arena))[1]

    def lent(self, arena: A) -> dict[int, int]:
        """Return the places of *arena* that are lent, with their lengths."""
        return {offset: place.nbytes for offset, place in self._places.get(arena, {}).items()}

    def give_back(
        self, borrower: BorrowerId, numbers: Iterable[int]
    ) -> Mapping[A, tuple[int, ...]]:
        """Note that a reader gave back loans; return what was kept and is free now.

        Numbers that it does not have mean nothing.
        """
        loans, free = self._loans.get(borrower, {}), dict[A, list[int]]()
        for number in numbers:
            if (loan := loans.pop(number, None)) is not None and self._is_free(*loan):
                free.setdefault(loan[0], []).append(loan[1])
        if not loans:
            self._loans.pop(borrower, None)
        return {arena: tuple(offsets) for arena, offsets in free.items()}

    def hang_up(self, borrower: BorrowerId) -> Mapping[A, tuple[int, ...]]:
        """As `give_back`, of all that a reader has: it is gone."""
        return self.give_back(borrower, tuple(self._loans.get(borrower, ())))

    def _keep(self, place: _Place) -> None:
        place.kept = True
        self.kept += place.nbytes

    def _is_free(self, arena: A, offset: int) -> bool:
        """Take one loan off a place; return whether that makes it free."""
        places = self._places[arena]
        place = places[offset]
        place.loans -= 1
        if place.loans:
            return False
        del places[offset]
        self._lent[arena] -= place.nbytes
        if not places:
            del self._places[arena], self._lent[arena]
        if place.kept:
            self.kept -= place.nbytes
        return place.kept
