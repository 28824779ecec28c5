"""What `group_by_window` buffers: elements in groups, each with the position where it was read.

State: ``[groups, parts]``. A group is ``[key, size]``. A part is a stretch of the input in which
elements are buffered, ``[the input's state, number, errors, events]``: from element *number* on,
behind so many *errors* of the input, each event is an element in the group of that index; or -k
for k elements that are in none; or ``[k, e]`` for k such elements and e errors among them. The
last part ends where the next element comes. Where elements lie far apart parts begin anew, so that
what is read again is about what is buffered; there are at most `MOST` of them. Of an input that
can be read again only once there is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.element import Element
from penstock.engine.iterator import Mark, State
from penstock.engine.unacked import Tags

FAR = 32
"""So many elements that are not held may be read again to come to the next that is."""

MOST = 64
"""How many parts there may be: states of the input in one state."""

_LOG = 1024

Event: TypeAlias = int | list[int]


@dataclass(frozen=True, slots=True)
class InputPosition:
    """Just before an element of the input."""

    number: int
    errors: int
    """How many errors the input raised before it."""
    mark: Mark
    back: int
    """Where: before the last *back* elements of the block that *mark* is of."""
    origin: Tags = ()
    """What an unacked element was made of. Such a position is not read again."""


@dataclass(frozen=True, slots=True)
class GroupedElement:
    """An element that came into a group."""

    key: int
    size: int
    """How many elements make the group full."""
    place: InputPosition


class Groups:
    """Elements by key. What was held at any moment since a mark was made can be told later."""

    def __init__(self) -> None:
        self.elements: dict[int, list[Element]] = {}
        self._last: dict[int, GroupedElement] = {}
        self._held = 0
        self._log: list[GroupedElement | int] = []
        """What came, and the keys of the groups that went; only the end grows."""

    def __bool__(self) -> bool:
        return bool(self.elements)

    def size(self, key: int) -> int | None:
        """Return how many elements make the group of *key* full, if there is one."""
        last = self._last.get(key)
        return None if last is None else last.size

    def number(self, key: int) -> int:
        """Return the number of the last element in the group."""
        return self._last[key].place.number

    def add(self, arrival: GroupedElement, element: Element) -> bool:
        """Take in an element; return True if its group is full."""
        group = self.elements.setdefault(arrival.key, [])
        group.append(element)
        self._last[arrival.key] = arrival
        self._log.append(arrival)
        self._held += 1
        return len(group) >= arrival.size

    def remove(self, key: int) -> None:
        """Remove a group."""
        self._held -= len(self.elements.pop(key))
        del self._last[key]
        self._log.append(key)
        if len(self._log) > 2 * self._held + _LOG:
            self._log = list(_left(self._log))  # a new list: marks keep the old one

    def mark(self) -> Callable[[], list[GroupedElement]]:
        """Capture what is held; what is returned tells it, in the order of the input."""
        log, length = self._log, len(self._log)
        return lambda: list(_left(log[:length]))


def _left(log: Sequence[GroupedElement | int]) -> Iterable[GroupedElement]:
    """Return what of all that came did not go, in the order of the input."""
    gone = {entry: i for i, entry in enumerate(log) if isinstance(entry, int)}
    return (
        entry
        for i, entry in enumerate(log)
        if isinstance(entry, GroupedElement) and gone.get(entry.key, -1) < i
    )


def written(
    held: Sequence[GroupedElement], ahead: InputPosition, *, most: int = MOST
) -> list[State]:
    """Return the state of what is *held*, of an input whose next position is *ahead*.

    It has *most* parts, or fewer.
    """
    groups: dict[int, tuple[int, int]] = {}
    for arrival in held:
        groups.setdefault(arrival.key, (len(groups), arrival.size))
    places = [*(arrival.place for arrival in held), ahead]
    starts = _starts([place.number for place in places], most)
    parts: list[State] = []
    events: list[Event] = []
    for i, place in enumerate(places):
        if i in starts:
            events = []
            parts.append([place.mark(place.back), place.number, place.errors, events])
        else:
            passed = place.number - places[i - 1].number - 1
            errors = place.errors - places[i - 1].errors
            events += [[passed, errors]] if errors else [-passed] if passed else []
        if i < len(held):
            events.append(groups[held[i].key][0])
    return [[[key, size] for key, (_, size) in groups.items()], parts]


def _starts(numbers: list[int], most: int) -> set[int]:
    """Return at which of *numbers* a part begins: the first, and those far behind the last."""
    far = [i for i in range(1, len(numbers)) if numbers[i] - numbers[i - 1] > FAR]
    far.sort(key=lambda i: numbers[i - 1] - numbers[i])
    return {0, *far[: most - 1]}
