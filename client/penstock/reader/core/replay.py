"""What local operators held at a save: after a restore it is delivered first, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Run: TypeAlias = tuple[int, int, int]
"""Elements of a task: its number, the number of the first and the one behind the last."""


class NotAsBefore(Exception):
    """The elements that operators held come in another order, or went to another reader."""


class Replay:
    """What is to be delivered first, and whether it is."""

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
        """What is next; None when all was delivered, or nothing was asked for."""
        return self._left[-1] if self._left and not self._given_up else None

    @property
    def left(self) -> tuple[Run, ...]:
        """What was not delivered yet, in its order."""
        return () if self._given_up else tuple(reversed(self._left))

    def bound(self, limit: int | None) -> int | None:
        """Return *limit*, or less, to deliver nothing together with the next run."""
        run = self.next
        if run is None:
            return limit
        length = run[2] - run[1]
        return length if limit is None else min(limit, length)

    def give_up(self) -> None:
        """Record that the next one does not come."""
        self._given_up = True

    def take(self, task: int, number: int, count: int) -> None:
        """Record that *count* elements of *task* were delivered, from *number* on.

        Raises:
            NotAsBefore: when these are not next; after that nothing is expected.
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
