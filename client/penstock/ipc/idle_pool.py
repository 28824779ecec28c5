"""Chooses which idle processes or connections to keep, how long, and which to use next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar


class Reusable(Protocol):
    """A process or a connection that the pool can hold."""

    @property
    def key(self) -> str:
        """The code that the process has loaded, or the connection's address."""


P = TypeVar("P", bound=Reusable)


@dataclass(slots=True)
class IdlePool(Generic[P]):
    """Holds up to *most* objects, each for up to *seconds* by the caller's clock."""

    most: int
    seconds: float
    _waiting: list[tuple[float, P]] = field(default_factory=list)
    """The time of each object's arrival and the object, oldest first."""

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, key: str, *, any_key: bool) -> P | None:
        """Remove and return the newest object with *key*.

        If there is none and *any_key* is true, return the one that has waited longest.
        """
        found = [i for i, (_, process) in enumerate(self._waiting) if process.key == key]
        if found:
            return self._waiting.pop(found[-1])[1]
        return self._waiting.pop(0)[1] if any_key and self._waiting else None

    def put(self, process: P, now: float) -> list[P]:
        """Add *process*; remove and return the surplus objects, which the caller must end."""
        self._waiting.append((now, process))
        surplus = max(0, len(self._waiting) - self.most)
        return self._drop(surplus)

    def discard(self, process: P) -> None:
        """Remove *process* if the pool holds it."""
        self._waiting = [(since, each) for since, each in self._waiting if each is not process]

    def expire(self, now: float) -> list[P]:
        """Remove and return the objects whose time is over."""
        return self._drop(sum(since + self.seconds <= now for since, _ in self._waiting))

    def due(self) -> float | None:
        """Return when the next object's time is over; None if there is no object."""
        return self._waiting[0][0] + self.seconds if self._waiting else None

    def clear(self) -> list[P]:
        """Remove and return all objects."""
        return self._drop(len(self._waiting))

    def _drop(self, count: int) -> list[P]:
        dropped = [process for _, process in self._waiting[:count]]
        del self._waiting[:count]
        return dropped
