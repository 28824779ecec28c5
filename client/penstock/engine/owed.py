"""What the marks of operators behind a reader say of its elements: which are still owed.

A reader numbers what it gives to operators: *places* 0, 1, 2, .... The marks behind it hold

    ["&", key, tail]    of the session *key*, everything from place *tail* on is owed;
    {"&owed": [[key, tail, spans], ...], "at": state}
                        just that is owed, whatever *state* says; that is what to open with.

What is said of one session adds up. What was pulled and is owed nowhere has reached the training
loop, or was left out on purpose. Marks tell of every session that may still give something, also
of earlier passes: an element may be made of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from penstock.engine.iterator import Mark, State
from penstock.numbers import NO_RUNS, Runs
from penstock.reader.owed import NOTHING_OWED, Owed

Debts: TypeAlias = Mapping[int, Owed]
"""What is owed, by session; of a session that is not there, nothing."""

Origin: TypeAlias = tuple[tuple[int, int, int], ...]
"""What an element was made of: sessions, each with the first place and the one behind the last."""

_ALL_OWED = Owed()

_LEAF, _EXACT = "&", "&owed"


class Follower(Protocol):
    """How a session learns what became of the elements that it gave to operators. Any thread."""

    @property
    def cuts(self) -> bool:
        """Whether operators cut elements into pieces, so that one cannot be told from another."""
        ...

    def owed(self) -> Owed:
        """Return what has not reached the training loop. It only ever becomes less."""
        ...

    def withdraw(self, choose: Callable[[Owed], Runs]) -> Runs:
        """Keep the loop from ever getting the places that *choose* picks of what is owed.

        The loop stands still meanwhile. Return these places.
        """
        ...


def leaf(key: int, tail: int) -> State:
    """Return the mark's part that says: of session *key* all is owed from *tail* on."""
    return [_LEAF, key, tail]


def exactly(debts: Debts, at: State) -> State:
    """Return a mark that says that just *debts* are owed, and opens at *at*."""
    return {_EXACT: [[key, owed.tail, owed.runs.spans] for key, owed in debts.items()], "at": at}


def plain(state: State) -> State:
    """Return the state to open with: without what is said of debts."""
    return state["at"] if isinstance(state, dict) and _EXACT in state else state


def debts_of(state: State) -> Debts:
    """Return what is owed at a mark's *state*."""
    found: dict[int, Owed] = {}
    _collect(state, found)
    return found


def _collect(state: Any, found: dict[int, Owed]) -> None:
    if isinstance(state, list):
        if len(state) == 3 and state[0] == _LEAF and type(state[1]) is int:
            _, key, tail = state
            _join(found, key, Owed(NO_RUNS, tail))
            return
        for part in state:
            if isinstance(part, (list, dict)):
                _collect(part, found)
    elif isinstance(state, dict):
        if _EXACT in state:
            for key, tail, spans in state[_EXACT]:
                _join(found, key, Owed(Runs(spans), tail))
            return
        for part in state.values():
            _collect(part, found)


def _join(found: dict[int, Owed], key: int, owed: Owed) -> None:
    known = found.get(key)
    found[key] = owed if known is None else known | owed


def joined(parts: Iterable[Debts]) -> Debts:
    """Return the debts of all *parts*."""
    found: dict[int, Owed] = {}
    for part in parts:
        for key, owed in part.items():
            _join(found, key, owed)
    return found


def paid(before: Debts, after: Debts) -> Origin:
    """Return what was owed *before* and is not *after*.

    Of a session that is not told of yet all is owed, of one that is not any more nothing.
    """
    out: list[tuple[int, int, int]] = []
    for key in [*before, *(key for key in after if key not in before)]:
        owed, later = before.get(key, _ALL_OWED), after.get(key, NOTHING_OWED)
        if not owed.runs.spans and not later.runs.spans:
            if later.tail > owed.tail:
                out.append((key, owed.tail, later.tail))
            continue
        gone = Runs.of(*owed.runs.spans, (owed.tail, later.tail)) - later.runs
        out += [(key, a, min(b, later.tail)) for a, b in gone.spans if a < later.tail]
    return tuple(out)


def origins(before: Debts, mark: Mark, count: int, *, straight: bool) -> list[Origin]:
    """Return what each of the last *count* elements was made of; *before* them that was owed.

    Of a *straight* input every element is one place, and they follow each other.
    """
    if straight and (spans := paid(debts_of(mark(count)), debts_of(mark(0)))):
        (key, start, stop), *more = spans
        if not more and stop - start == count:
            return [((key, place, place + 1),) for place in range(start, stop)]
    out = []
    for back in range(count - 1, -1, -1):
        after = debts_of(mark(back))
        out.append(paid(before, after))
        before = after
    return out


def by_session(parts: Iterable[Origin]) -> dict[int, Runs]:
    """Return the places of all *parts*, session by session."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for origin in parts:
        for key, start, stop in origin:
            spans.setdefault(key, []).append((start, stop))
    return {key: Runs.of(*found) for key, found in spans.items()}


def pieces(parts: Iterable[Origin]) -> Debts:
    """Return the debts that consist of the places of all *parts*."""
    return {key: Owed(runs, NOTHING_OWED.tail) for key, runs in by_session(parts).items()}


__all__ = [
    "NOTHING_OWED",
    "Debts",
    "Follower",
    "Origin",
    "Owed",
    "by_session",
    "debts_of",
    "exactly",
    "joined",
    "leaf",
    "origins",
    "paid",
    "pieces",
    "plain",
]
