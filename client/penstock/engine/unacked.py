"""Which elements of a session are unacked, as the marks of local operators say.

A session numbers the elements that it gives to operators with delivery tags: 0, 1, 2, .... The
marks of those operators hold

    ["&", key, tail]    in the session *key*, everything from tag *tail* on is unacked;
    {"&owed": [[key, tail, spans], ...], "at": state, "again": state}
                        exactly these tags are unacked, whatever *state* says. An operator opens at
                        the state "at". If only the unacked elements come again, in the order in
                        which they came, it may open at "again" instead (null: it may not).

If a mark names a session several times, the unacked tags add up. A delivered element that is
unacked nowhere has reached the training loop, or was left out on purpose. Marks name every session
that may still deliver, including those of earlier passes, because one element may be made of
elements of two passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from penstock.engine.iterator import Mark, State
from penstock.protocol.ranges import NO_RANGES, RangeSet


@dataclass(frozen=True, slots=True)
class Unacked:
    """Which delivery tags of a session are unacked: *ranges*, and all from *tail* on.

    Tags are 0, 1, 2, ... in the order in which a session delivered elements to operators.
    """

    ranges: RangeSet = NO_RANGES
    tail: int = 0

    def missing(self, stop: int) -> RangeSet:
        """Return the unacked tags below *stop*; only tags below it were delivered."""
        if not self.ranges.spans:  # as without a shuffle
            return RangeSet(((self.tail, stop),)) if self.tail < stop else NO_RANGES
        return RangeSet.of(*self.ranges.spans, (self.tail, stop)) & RangeSet.of((0, stop))

    def __or__(self, other: Unacked) -> Unacked:
        """Return the tags unacked in either; several operators may hold the same element."""
        return Unacked(self.ranges | other.ranges, min(self.tail, other.tail))


NOTHING_UNACKED = Unacked(NO_RANGES, 1 << 62)
"""Everything that was pulled has been handed out, or was left out on purpose."""

UnackedBySession: TypeAlias = Mapping[int, Unacked]
"""The unacked elements of each session; a session that is missing here has none."""

Tags: TypeAlias = tuple[tuple[int, int, int], ...]
"""The tags that an element was made of: (session key, first tag, last tag + 1) for each run."""

_ALL_UNACKED = Unacked()

_LEAF, _EXACT, _AGAIN = "&", "&owed", "again"


class AckTracker(Protocol):
    """How a session learns which elements operators have unacked. Any thread."""

    @property
    def splits_elements(self) -> bool:
        """Whether operators cut elements into pieces, so that pieces cannot be told apart."""
        ...

    def unacked(self) -> Unacked:
        """Return the unacked tags. Among delivered elements, they only ever become fewer."""
        ...

    def revoke(self, choose: Callable[[Unacked], RangeSet]) -> RangeSet:
        """Make sure that the loop never gets the tags that *choose* picks of the unacked ones.

        The loop does not advance during the call. Return these tags.
        """
        ...


def unacked_from(key: int, tail: int) -> State:
    """Return the part of a mark by which, in session *key*, all tags from *tail* on are unacked."""
    return [_LEAF, key, tail]


def unacked_exactly(
    unacked: UnackedBySession, at: State, again: Callable[[], State] | None = None
) -> State:
    """Return a mark that says that exactly *unacked* is unacked, and opens at *at*.

    If only the unacked elements come again, in the order in which they came, the operator may open
    at the state that *again* returns.
    """
    owed = [[key, part.tail, part.ranges.spans] for key, part in unacked.items()]
    return {_EXACT: owed, "at": at, _AGAIN: again}


def without_unacked(state: State) -> State:
    """Return the state to open with: *state* without its record of unacked tags."""
    return state["at"] if isinstance(state, dict) and _EXACT in state else state


def unacked_in(state: State) -> UnackedBySession:
    """Return the tags that are unacked at a mark's *state*."""
    found: dict[int, Unacked] = {}
    _collect(state, found)
    return found


def has_exactly(state: State) -> bool:
    """Return whether *state* lists unacked tags exactly anywhere; such a list may have gaps."""
    if isinstance(state, dict):
        return _EXACT in state or any(has_exactly(part) for part in state.values())
    return isinstance(state, list) and any(has_exactly(part) for part in state)


def opens_again(state: State) -> bool:
    """Return whether operators can continue at *state* if unacked elements come again in order."""
    if isinstance(state, dict):
        if _EXACT in state:
            again = state[_AGAIN]
            return again is not None and opens_again(again())
        return all(opens_again(part) for part in state.values())
    return not isinstance(state, list | tuple) or all(map(opens_again, state))


def unacked_from_start(state: State) -> State:
    """Return *state* as a mark of sessions that deliver the unacked elements from tag 0 on.

    *state* must be one that `opens_again`.
    """
    if isinstance(state, list):
        if len(state) == 3 and state[0] == _LEAF and type(state[1]) is int:
            return [_LEAF, state[1], 0]
        return [unacked_from_start(part) for part in state]
    if isinstance(state, dict):
        if _EXACT in state:
            return unacked_from_start(state[_AGAIN]())
        return {key: unacked_from_start(part) for key, part in state.items()}
    return list(map(unacked_from_start, state)) if isinstance(state, tuple) else state


def _collect(state: Any, found: dict[int, Unacked]) -> None:
    if isinstance(state, list):
        if len(state) == 3 and state[0] == _LEAF and type(state[1]) is int:
            _, key, tail = state
            _join(found, key, Unacked(NO_RANGES, tail))
            return
        for part in state:
            if isinstance(part, (list, dict)):
                _collect(part, found)
    elif isinstance(state, dict):
        if _EXACT in state:
            for key, tail, spans in state[_EXACT]:
                _join(found, key, Unacked(RangeSet(spans), tail))
            return
        for part in state.values():
            _collect(part, found)


def _join(found: dict[int, Unacked], key: int, unacked: Unacked) -> None:
    known = found.get(key)
    found[key] = unacked if known is None else known | unacked


def joined(parts: Iterable[UnackedBySession]) -> UnackedBySession:
    """Return the tags that are unacked in any of *parts*."""
    found: dict[int, Unacked] = {}
    for part in parts:
        for key, unacked in part.items():
            _join(found, key, unacked)
    return found


def acked_between(before: UnackedBySession, after: UnackedBySession) -> Tags:
    """Return the tags that were unacked *before* and are acked *after*.

    If *before* does not name a session, all its tags were unacked. If *after* does not, none is.
    """
    out: list[tuple[int, int, int]] = []
    for key in [*before, *(key for key in after if key not in before)]:
        first, later = before.get(key, _ALL_UNACKED), after.get(key, NOTHING_UNACKED)
        if not first.ranges.spans and not later.ranges.spans:
            if later.tail > first.tail:
                out.append((key, first.tail, later.tail))
            continue
        acked = RangeSet.of(*first.ranges.spans, (first.tail, later.tail)) - later.ranges
        out += [(key, a, min(b, later.tail)) for a, b in acked.spans if a < later.tail]
    return tuple(out)


def straight_run(mark: Mark, count: int) -> tuple[int, int, int] | None:
    """Return the tags of the last *count* elements, if each has one and these are consecutive.

    The result is the session's key, the first tag, and the last tag plus 1.
    """
    spans = acked_between(unacked_in(mark(count)), unacked_in(mark(0)))
    if len(spans) == 1 and spans[0][2] - spans[0][1] == count:
        return spans[0]
    return None


def tags_of(before: UnackedBySession, mark: Mark, count: int) -> list[Tags]:
    """Return the tags that each of the last *count* elements was made of.

    *before* was unacked before these elements.
    """
    out = []
    for back in range(count - 1, -1, -1):
        after = unacked_in(mark(back))
        out.append(acked_between(before, after))
        before = after
    return out


def by_session(parts: Iterable[Tags]) -> dict[int, RangeSet]:
    """Return the tags of all *parts*, session by session."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for tags in parts:
        for key, start, stop in tags:
            spans.setdefault(key, []).append((start, stop))
    return {key: RangeSet.of(*found) for key, found in spans.items()}


def only_tags(parts: Iterable[Tags]) -> UnackedBySession:
    """Return the unacked elements, if these are exactly the tags of all *parts*."""
    return {key: Unacked(runs, NOTHING_UNACKED.tail) for key, runs in by_session(parts).items()}
