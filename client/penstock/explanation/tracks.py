"""Where a trace shows what: a process for each worker and reader, tracks without overlaps."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def lanes(intervals: Mapping[Key, tuple[float, float]]) -> dict[Key, int]:
    """Return a lane for each interval, the first that is free: those of one do not overlap.

    There are as many lanes as there are intervals at one time, whatever runs one after another.

    >>> lanes({"first": (0.0, 2.0), "beside it": (1.0, 3.0), "behind it": (2.0, 4.0)})
    {'first': 0, 'beside it': 1, 'behind it': 0}
    """
    found: dict[Key, int] = {}
    ends: list[float] = []
    for key, (start, stop) in sorted(intervals.items(), key=lambda one: one[1]):
        lane = next((n for n, end in enumerate(ends) if end <= start), len(ends))
        ends[lane : lane + 1] = [max(start, stop)]
        found[key] = lane
    return found


def around(parts: Iterable[tuple[Key, float, float]]) -> dict[Key, tuple[float, float]]:
    """Return of each key when the first of its parts begins, and when the last ends.

    >>> around([("a", 1.0, 2.0), ("b", 5.0, 6.0), ("a", 3.0, 4.0)])
    {'a': (1.0, 4.0), 'b': (5.0, 6.0)}
    """
    found: dict[Key, tuple[float, float]] = {}
    for key, start, stop in parts:
        first, last = found.get(key, (start, stop))
        found[key] = min(first, start), max(last, stop)
    return found


@dataclass(frozen=True, slots=True)
class Track:
    """A track of a trace, by the numbers that the format has for it."""

    pid: int
    tid: int


class Tracks:
    """Numbers tracks as they are asked for; *named* says what each is called."""

    def __init__(self) -> None:
        self.named: dict[Track, tuple[str, str]] = {}
        """The process and the thread."""
        self._known: dict[tuple[str, str], Track] = {}
        self._pids: dict[str, int] = {}

    def of(self, process: str, thread: str) -> Track:
        """Return the track of a thread of a process, always the same."""
        known = self._known.get((process, thread))
        if known is None:
            pid = self._pids.setdefault(process, len(self._pids) + 1)
            known = self._known[process, thread] = Track(pid, len(self._known) + 1)
            self.named[known] = process, thread
        return known
