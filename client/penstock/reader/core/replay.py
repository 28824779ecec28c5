"""Elements that local operators held at a save: a restore delivers them first, in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Run: TypeAlias = tuple[int, int, int]
"""Elements of a task: the task's number, the first element's, and the one after the last's."""


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
