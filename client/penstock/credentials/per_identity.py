"""Counts calls, readers or bytes of each identity, so that no identity takes all of them."""

from __future__ import annotations

from collections import Counter
from contextvars import ContextVar
from dataclasses import dataclass, field

from penstock.errors import Overloaded

NEAR = "this process"
"""The name of a caller that uses the service as an object, without a network call."""

_answered: ContextVar[str] = ContextVar("answered", default=NEAR)


def identity_answered() -> str:
    """Return the caller of the call that this task answers: an identity's name, or an address.

    >>> identity_answered()
    'this process'
    """
    return _answered.get()


def answer_to(name: str) -> None:
    """Note that this task, and tasks that it starts, answer a call from *name*."""
    _answered.set(name)


class PerIdentity:
    """Counts one kind of thing by identity, and limits each identity's number.

    Args:
        most: how many one identity may have.
        what: the name of the things, in the plural.
        setting: the name of the setting that sets the limit.
    """

    def __init__(self, most: int, what: str, setting: str) -> None:
        self._most, self._what, self._setting = most, what, setting
        self._had: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._had)

    def __getitem__(self, name: str) -> int:
        return self._had[name]

    def take(self, name: str, count: int = 1) -> None:
        """Count *count* more of *name*.

        Raises:
            Overloaded: when *name* would have more than *most*.
        """
        if self._had[name] + count > self._most:
            had = self._had[name]
            if not had:
                del self._had[name]
            more = f" and asks for {count} more" if count > 1 else ""
            raise Overloaded(
                f"{name} has {had} {self._what} here{more}, and one identity may have "
                f"{self._most}: end some, or raise the limit {self._setting} here"
            )
        self._had[name] += count

    def give_back(self, name: str, count: int = 1) -> None:
        """Count *count* fewer of *name*."""
        self._had[name] -= count
        if self._had[name] <= 0:
            del self._had[name]


@dataclass(slots=True)
class CallCounts:
    """Calls since the service began, streams among them; those of health checks are not counted."""

    opened: Counter[str] = field(default_factory=Counter)
    """By path."""
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By path, and by what refused or ended them: the name of the error, or gRPC's status."""
