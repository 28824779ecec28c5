"""Messages about elements that a job skips because users' functions raised. Plain values.

A job says whether a failing element raises or is skipped. Each task counts its skipped elements in
the order of its stream, and saves the count with the engine's state. So an attempt that produces a
part of the stream again reaches the same count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

FIRST = 4
"""How many skipped elements of a run have their dead letters sent: the first ones."""


class OnError(Enum):
    """How a job handles an element that cannot be made."""

    RAISE = "raise"
    """The task ends, and training loops get the error."""
    SKIP = "skip"
    """The task skips and counts the element."""


@dataclass(frozen=True, slots=True)
class SkippedError:
    """A skipped element: the *number*-th of its task, from 1; *letter* is its JSON text."""

    number: int
    letter: str


@dataclass(frozen=True, slots=True)
class SkippedErrors:
    """How many elements of a task were skipped so far, with details of the *first* ones."""

    count: int = 0
    first: tuple[SkippedError, ...] = ()
