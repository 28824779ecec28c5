"""Frames in arenas that readers on this host read in place, and when to reuse their memory.

    lent ──freed by the core──▶ kept ──last loan given back──▶ free
      └──last loan given back──▶ not lent, as any place

Each time a frame is sent, its place in the arena is lent. If the core frees a place that readers
still use, the place is *kept*. It no longer counts as used, but the runner writes elsewhere until
it is returned. So a training loop that keeps its elements does not make the runner wait. Kept bytes
are limited: beyond the limit, a reader copies each frame out at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, NewType, TypeVar

A = TypeVar("A", bound=Hashable)
"""The type that names an arena."""

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
    """The loans of all arenas of a worker.

    At most *most_kept* bytes are kept in all, and *most* are lent of one arena. A frame larger than
    *largest* is always copied out.
    """

    def __init__(self, most_kept: int, most: int, largest: int) -> None:
        self.kept = 0
        """How many bytes are kept."""
        self.lent_frames = self.copied_frames = 0
        """How many frames were lent, and how many others were lent to be copied out."""
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
        """Note that these frames are sent no more; return the places now free, and those kept."""
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
        """Note that no frame of *arena* is needed any more; return the places that are now kept."""
        return self.free(arena, self.lent(arena))[1]

    def lent(self, arena: A) -> dict[int, int]:
        """Return the places of *arena* that are lent, with their lengths."""
        return {offset: place.nbytes for offset, place in self._places.get(arena, {}).items()}

    def give_back(
        self, borrower: BorrowerId, numbers: Iterable[int]
    ) -> Mapping[A, tuple[int, ...]]:
        """Note that a reader gave back loans; return the kept places that are free now.

        Numbers of loans that the reader does not have are ignored.
        """
        loans, free = self._loans.get(borrower, {}), dict[A, list[int]]()
        for number in numbers:
            if (loan := loans.pop(number, None)) is not None and self._is_free(*loan):
                free.setdefault(loan[0], []).append(loan[1])
        if not loans:
            self._loans.pop(borrower, None)
        return {arena: tuple(offsets) for arena, offsets in free.items()}

    def hang_up(self, borrower: BorrowerId) -> Mapping[A, tuple[int, ...]]:
        """Give back all loans of a reader that is gone; see `give_back`."""
        return self.give_back(borrower, tuple(self._loans.get(borrower, ())))

    def _keep(self, place: _Place) -> None:
        place.kept = True
        self.kept += place.nbytes

    def _is_free(self, arena: A, offset: int) -> bool:
        """End one loan of a place; return whether that makes it free."""
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
