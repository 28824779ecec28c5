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

from collections.abc import Iterable, Iterator, Sequence
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


class InputBlock(NamedTuple):
    """Consecutive elements of the input: where each begins."""

    first: int
    """The number of the first element."""
    errors: int
    """How many errors the input raised before it."""
    mark: Mark
    """The mark of the block that these elements are the end of."""
    size: int
    """How many elements there are."""
    origins: Sequence[Tags] = ()
    """The tags that unacked elements were made of."""

    def place(self, i: int) -> InputPosition:
        """Return the position before element *i* of these."""
        origin = self.origins[i] if self.origins else ()
        return InputPosition(self.first + i, self.errors, self.mark, self.size - i, origin)

    def rest(self, i: int) -> InputBlock:
        """Return these elements without the first *i*."""
        size, origins = self.size - i, self.origins[i:]
        return InputBlock(self.first + i, self.errors, self.mark, size, origins)


def nowhere(back: int) -> State:  # noqa: ARG001
    """Be the `Mark` of a position that is not read again."""
    return None


NO_INPUT = InputBlock(0, 0, nowhere, 0)
"""No elements."""


class GroupedElement(NamedTuple):
    """An element that came into a group."""

    key: int
    size: int
    """How many elements make the group full."""
    place: InputPosition


_Arrivals: TypeAlias = tuple[Sequence[int | None], int, InputBlock, int]
"""Consecutive elements that came into groups: their keys, the groups' size, and where they are in a
block of the input, from the first one on. A tuple, because there is one for each pack."""

_Entry: TypeAlias = GroupedElement | _Arrivals | int

Held: TypeAlias = tuple[Sequence[_Entry], int]
"""The elements that were held at some time, for `held_then`."""


class Groups:
    """Elements by key. A mark can tell later which elements were held when it was made."""

    def __init__(self) -> None:
        self.elements: dict[int, list[Element]] = {}
        self._last: dict[int, GroupedElement] = {}
        """The last element of each group that `add` began."""
        self.count = 0
        """How many elements are held."""
        self._log: list[_Entry] = []
        """Elements that arrived, and keys of groups that were removed; entries are only added."""
        self._logged = 0
        """How many elements the log names."""
        self._most = _LOG
        """How many it names before it is shortened."""

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
        self._logged += 1
        self.count += 1
        return len(group) >= arrival.size

    def add_all(
        self,
        keys: Sequence[int],
        size: int,
        block: InputBlock,
        start: int,
        elements: Iterable[Element],
    ) -> None:
        """Do as `add` for an element of each of *keys*: those of *block* from *start* on."""
        groups = self.elements
        for key, element in zip(keys, elements, strict=True):
            if key in groups:
                groups[key].append(element)
            else:
                groups[key] = [element]
        self._log.append((keys, size, block, start))
        self._logged += len(keys)
        self.count += len(keys)

    def remove(self, key: int) -> None:
        """Remove a group."""
        self.count -= len(self.elements.pop(key))
        self._last.pop(key, None)
        self._log.append(key)
        if self._logged > self._most:
            self._log = list(_shortened(self._log))  # a new list: marks keep the old one
            self._logged = sum(map(_named, self._log))
            self._most = 2 * self._logged + _LOG

    def mark(self) -> Held:
        """Capture the held elements."""
        return self._log, len(self._log)


def held_then(held: Held) -> list[GroupedElement]:
    """Return the elements that `Groups.mark` captured, in the order of the input."""
    log, length = held
    return list(_left(log[:length]))


def _left(log: Sequence[_Entry]) -> Iterator[GroupedElement]:
    """Yield the elements that arrived and were not removed, in the order of the input."""
    for entry in _shortened(log):
        if isinstance(entry, GroupedElement):
            yield entry
        elif isinstance(entry, tuple):
            keys, size, block, start = entry
            for at, key in enumerate(keys, start):
                if key is not None:
                    yield GroupedElement(key, size, block.place(at))


def _shortened(log: Sequence[_Entry]) -> Iterator[_Entry]:
    """Yield the arrivals of *log* that were not removed; None stands for the keys of others."""
    gone: dict[int | None, int] = {x: i for i, x in enumerate(log) if isinstance(x, int)}
    for i, entry in enumerate(log):
        if isinstance(entry, GroupedElement):
            if gone.get(entry.key, -1) < i:
                yield entry
        elif isinstance(entry, tuple):
            keys, size, block, start = entry
            left = [key if gone.get(key, -1) < i else None for key in keys]
            if left.count(None) < len(left):
                yield left, size, block, start


def _named(entry: _Entry) -> int:
    """Return how many elements *entry* names."""
    if isinstance(entry, int):
        return 0
    return 1 if isinstance(entry, GroupedElement) else len(entry[0])


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
