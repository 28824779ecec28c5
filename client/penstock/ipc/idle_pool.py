"""Which idle processes or connections are kept, for how long, and which is next. No clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Reusable(Protocol):
    """What a process or a connection is known by here."""

    @property
    def key(self) -> str:
        """What it has loaded, or where it leads."""


P = TypeVar("P", bound=Reusable)


@dataclass(slots=True)
class IdlePool(Generic[P]):
    """Up to *most* of them, each for up to *seconds*. Times are those of the caller's clock."""

    most: int
    seconds: float
    _waiting: list[tuple[float, P]] = field(default_factory=list)
    """With when each came, oldest first."""

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, key: str, *, any_key: bool) -> P | None:
        """Take out the one that came last among those with *key*.

        With *any_key*, if there is none: the one that has waited longest, whatever it has loaded.
        """
        found = [i for i, (_, process) in enumerate(self._waiting) if process.key == key]
        if found:
            return self._waiting.pop(found[-1])[1]
        return self._waiting.pop(0)[1] if any_key and self._waiting else None

    def put(self, process: P, now: float) -> list[P]:
        """Take in *process*; return those that must go for it."""
        self._waiting.append((now, process))
        surplus = max(0, len(self._waiting) - self.most)
        return self._drop(surplus)

    def discard(self, process: P) -> None:
        """Take out *process* if it is here."""
        self._waiting = [(since, each) for since, each in self._waiting if each is not process]

    def expire(self, now: float) -> list[P]:
        """Take out those whose time is up."""
        return self._drop(sum(since + self.seconds <= now for since, _ in self._waiting))

    def due(self) -> float | None:
        """Return when the next one's time is up."""
        return self._waiting[0][0] + self.seconds if self._waiting else None

    def clear(self) -> list[P]:
        """Take out all."""
        return self._drop(len(self._waiting))

    def _drop(self, count: int) -> list[P]:
        dropped = [process for _, process in self._waiting[:count]]
        del self._waiting[:count]
        return dropped
