"""The buffer of operators that group elements: each with the position where it was read.

State: ``[groups, parts]``. A group is ``[key, size]``. A part is a stretch of the input in which
elements are buffered: ``[the input's state, number, errors, events]``. It begins at element
*number*, after *errors* errors of the input. An event is one of these:

    i        the next element is in the group of index i;
    -k       the next k elements are in no group;
    [k, e]   the next k elements are in no group, and there are e errors among them.

The last part ends at the next element to read. A new part begins where buffered elements lie far
apart, so that a restore reads little more than the buffered elements. There are at most `MOST`
parts; an input that can be read again only once has one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from penstock.element import Element
from penstock.engine.iterator import Mark, State
from penstock.engine.unacked import Tags

FAR = 32
"""The most elements outside the buffer to read again on the way to the next buffered one."""

MOST = 64
"""The most parts in a state; each holds one state of the input."""

_LOG = 1024

Event: TypeAlias = int | list[int]


class InputPosition(NamedTuple):
    """Just before an element of the input."""

    number: int
    errors: int
    """How many errors the input raised before it."""
    mark: Mark
    back: int
    """The position is just before the last *back* elements of the block of *mark*."""
    origin: Tags = ()
    """The tags that an unacked element was made of. This position is not read again."""


class GroupedElement(NamedTuple):
    """An element that came into a group."""

    key: int
    size: int
    """How many elements make the group full."""
    place: InputPosition


class Groups:
    """Elements by key. A mark can tell later which elements were held when it was made."""

    def __init__(self) -> None:
        self.elements: dict[int, list[Element]] = {}
        self._last: dict[int, GroupedElement] = {}
        self.count = 0
        """How many elements are held."""
        self._log: list[GroupedElement | int] = []
        """Elements that arrived, and keys of groups that were removed; entries are only added."""

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
        key = arrival.key
        group = self.elements.get(key)
        if group is None:
            group = self.elements[key] = []
        group.append(element)
        self._last[key] = arrival
        self._log.append(arrival)
        self.count += 1
        return len(group) >= arrival.size

    def remove(self, key: int) -> None:
        """Remove a group."""
        self.count -= len(self.elements.pop(key))
        del self._last[key]
        self._log.append(key)
        if len(self._log) > 2 * self.count + _LOG:
            self._log = list(_left(self._log))  # a new list: marks keep the old one

    def mark(self) -> Callable[[], list[GroupedElement]]:
        """Capture the held elements; the function returned lists them in the input's order."""
        log, length = self._log, len(self._log)
        return lambda: list(_left(log[:length]))


def _left(log: Sequence[GroupedElement | int]) -> Iterable[GroupedElement]:
    """Return the elements that arrived and were not removed, in the order of the input."""
    gone = {entry: i for i, entry in enumerate(log) if isinstance(entry, int)}
    return (
        entry
        for i, entry in enumerate(log)
        if isinstance(entry, GroupedElement) and gone.get(entry.key, -1) < i
    )


def written(
    held: Sequence[GroupedElement], ahead: InputPosition, *, most: int = MOST
) -> list[State]:
    """Return the state of the *held* elements, for an input whose next position is *ahead*.

    The state has at most *most* parts.
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
    """Return the indices in *numbers* at which parts begin: the first, and after wide gaps."""
    far = [i for i in range(1, len(numbers)) if numbers[i] - numbers[i - 1] > FAR]
    far.sort(key=lambda i: numbers[i - 1] - numbers[i])
    return {0, *far[: most - 1]}
