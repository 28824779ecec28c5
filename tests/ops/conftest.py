"""What tests of operators share: a proof that states are exact, plain values, counted functions."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.element import NestedDataset, is_namedtuple
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.engine.splits import SplitReader
from penstock.errors import ElementError, TransformError
from penstock.graph.run import open_root
from penstock.normalise import normalise
from penstock.protocol.splits import Split

SEED = 7
BLOCKS = (1, 2, 3, 7, 64)


@dataclass(frozen=True)
class Failure:
    """An error in the place of an element."""

    kind: str
    text: str


def plain(element: Any) -> Any:
    """Return *element* as something that `==` compares whole: values, dtypes, shapes, types."""
    if isinstance(element, tuple):
        name = type(element).__name__ if is_namedtuple(element) else "tuple"
        return (name, *map(plain, element))
    if isinstance(element, dict):
        return ("dict", *((key, plain(value)) for key, value in element.items()))
    if isinstance(element, np.ndarray):
        return (str(element.dtype), element.shape, repr(element.tolist()))
    if isinstance(element, np.generic):
        return (str(element.dtype), repr(element.item()))
    if isinstance(element, NestedDataset):
        return ("dataset", *(plain(inner) for inner in element))
    assert type(element) in (str, bytes), f"{element!r} is no leaf"
    return element


class StateChecker:
    """Proves the contract of `penstock.engine.iterator` for a pipeline, at every position.

    ``check_states(make)`` builds the pipeline anew for each run (so nothing can be carried over in
    objects), reads it in blocks of several sizes, and shows that

    - the outcome does not depend on block sizes, and equals *expected* if that is given
      (a list of anything that `normalise` takes; an exception stands for a failure);
    - a mark gives the same states later as at once, and they survive JSON;
    - each state, at every position, gives exactly the tail, and so does a state taken of an
      iterator that was just restored;
    - `skip(n)` for every n lands where reading n elements does (without failures only);
    - the end stays the end;
    - what users hold (`Dataset.iterator`) does the same, with states of at most *max_state* bytes.

    With *unordered*, what came before and what comes after make up the same multiset.
    With *failures_again*, a failure before the state may be raised again behind it.
    With *logs*, the pipeline draws splits from these logs (see `Splits`); *streams* says which
    source draws from which, and a restored run may not read what lies before the positions that
    its state names.
    Infinite pipelines: only the first *limit* outcomes are read, and tails up to there.
    It returns the outcomes, as `plain` gives them.

    Quick tests skip to every fourth element only, and restore what users hold at every fourth.
    """

    def __init__(self, stride: int) -> None:
        self.stride = stride

    def __call__(
        self,
        make: Callable[[], Dataset],
        expected: list[Any] | None = None,
        *,
        limit: int = 400,
        blocks: tuple[int, ...] = BLOCKS,
        unordered: bool = False,
        failures_again: bool = False,
        max_state: int = 1024,
        logs: list[list[Any]] | None = None,
        streams: dict[str, int] | None = None,
    ) -> list[Any]:
        surroundings = _Surroundings(logs, streams)
        proof = _Proof(make, limit, unordered, failures_again, surroundings)
        whole = proof.whole
        if expected is not None:
            assert _shown(whole, unordered) == _shown([_expected(x) for x in expected], unordered)
        for n in blocks:
            proof.read_in_blocks(n)
        if not unordered and not any(isinstance(x, Failure) for x in whole):
            proof.skip_to_everywhere(self.stride)
        if logs is None:
            proof.hold(max_state, self.stride)
        return whole


@dataclass
class _Surroundings:
    logs: list[list[Any]] | None
    streams: dict[str, int] | None

    def context(self, state: State) -> Context:
        if self.logs is None:
            return Context.local(SEED)
        reader = Splits(*self.logs)
        for stream, position in _positions(state):
            reader.first[stream] = min(position, reader.first.get(stream, position))
        return Context(SEED, splits=reader, providers=self.streams or {})


def _positions(state: State) -> list[tuple[int, int]]:
    """Return each stream and position that *state* names."""
    if isinstance(state, dict):
        state = list(state.values())
    if not isinstance(state, list):
        return []
    if state[:1] == ["@"]:
        return [(state[1], state[2])]
    return [place for part in state for place in _positions(part)]


class _Proof:
    def __init__(
        self,
        make: Callable[[], Dataset],
        limit: int,
        unordered: bool,
        failures_again: bool,
        surroundings: _Surroundings,
    ) -> None:
        self.surroundings = surroundings
        self.make, self.limit = make, limit
        self.unordered, self.failures_again = unordered, failures_again
        self.sizes = itertools.cycle(BLOCKS)
        self.proven: set[tuple[int, str, str]] = set()
        self.whole = self.drain(None, 1)

    def open(self, state: State) -> OpIterator:
        return open_root(self.make().node, self.surroundings.context(state), state)

    def drain(self, state: State, n: int, seen: int = 0) -> list[Any]:
        run = self.open(state)
        try:
            return _drain(run, n, self.limit - seen)
        finally:
            run.close()

    def read_in_blocks(self, n: int) -> None:
        """Read all in blocks of *n*; then restore every state seen on the way."""
        run = self.open(None)
        seen: list[Any] = []
        at_once: list[tuple[int, str]] = [(0, json.dumps(run.mark()(0)))]
        marks = [(0, 0, run.mark())]
        try:
            while len(seen) < self.limit:
                outcome = _block(run, min(n, self.limit - len(seen)))
                if not outcome:
                    break
                seen += outcome
                mark = run.mark()
                backs = 0 if isinstance(outcome[0], Failure) else len(outcome)
                for back in range(backs + 1):
                    at_once.append((len(seen) - back, json.dumps(mark(back))))
                    marks.append((len(seen) - back, back, mark))
            if len(seen) < self.limit:
                assert run.block(1) == [], "the end must stay the end"
                at_once.append((len(seen), json.dumps(run.mark()(0))))
                marks.append((len(seen), 0, run.mark()))
        finally:
            run.close()
        assert _shown(seen, self.unordered) == _shown(self.whole, self.unordered), (
            f"blocks of {n} give another outcome than blocks of 1"
        )
        later = [(position, json.dumps(mark(back))) for position, back, mark in marks]
        assert later == at_once, "a mark must stay true whatever the operator does afterwards"
        for position, state in at_once:
            self.restore(seen, position, state)

    def restore(self, seen: list[Any], position: int, text: str) -> None:
        """Show that the state *text* gives the tail of *seen* behind *position*, twice over."""
        key = (position, text, repr(sorted(map(repr, seen[:position]))) if self.unordered else "")
        if key in self.proven:
            return
        self.proven.add(key)
        state = json.loads(text)
        self.compare(seen, position, self.drain(state, next(self.sizes), position), text)
        run = self.open(state)
        try:
            again = json.loads(json.dumps(run.mark()(0)))
        finally:
            run.close()
        if again != state:
            tail = self.drain(again, next(self.sizes), position)
            self.compare(seen, position, tail, f"{again} taken of {text}")

    def compare(self, seen: list[Any], position: int, tail: list[Any], state: Any) -> None:
        message = f"restored at {position} from {state}"
        if self.failures_again:
            head = [x for x in seen[:position] if not isinstance(x, Failure)]
            rest = [x for x in tail if not isinstance(x, Failure)]
            whole = [x for x in self.whole if not isinstance(x, Failure)]
            assert _shown(head + rest, self.unordered) == _shown(whole, self.unordered), message
        elif self.unordered:
            assert _shown(seen[:position] + tail, True) == _shown(self.whole, True), message
        else:
            assert tail == self.whole[position:], message

    def skip_to_everywhere(self, stride: int) -> None:
        length = len(self.whole)
        ends = length < self.limit
        for n in range(0, length + 3 if ends else length + 1, stride):
            run = self.open(None)
            try:
                assert run.skip(n) == min(n, length), f"skip({n})"
                state = json.dumps(run.mark()(0))
                tail = _drain(run, next(self.sizes), self.limit - min(n, length))
            finally:
                run.close()
            assert tail == self.whole[n:], f"after skip({n})"
            self.restore(self.whole, min(n, length), state)
            self.skip_after_a_block(n)

    def skip_after_a_block(self, n: int) -> None:
        """As a restoring shuffle does: some elements, then over some, then some again."""
        run = self.open(None)
        try:
            head = _drain(run, 2, 2)
            skipped = run.skip(min(n, self.limit - len(head)))
            tail = _drain(run, next(self.sizes), self.limit - len(head) - skipped)
        finally:
            run.close()
        assert skipped == min(n, len(self.whole) - len(head))
        assert head + tail == self.whole[: len(head)] + self.whole[len(head) + skipped :]

    def hold(self, max_state: int, stride: int) -> None:
        """Show the same for what users hold: `DatasetIterator`."""
        seen: list[Any] = []
        states = []
        with self.make().iterator() as it:
            seed = it.state()["seed"]
            states.append(json.dumps(it.state()))
            while len(seen) < self.limit and (outcome := _next(it)) is not None:
                seen.append(outcome)
                states.append(json.dumps(it.state()))
            states.append(json.dumps(it.state()))
        assert max(map(len, states)) <= max_state, max(states, key=len)
        whole, self.whole = self.whole, seen
        for position, text in list(enumerate(states))[::-stride]:  # with the end, always
            state = json.loads(text)
            assert state["seed"] == seed
            tail = []
            with self.make().iterator(state) as it:
                room = self.limit - min(position, len(seen))
                while len(tail) < room and (outcome := _next(it)) is not None:
                    tail.append(outcome)
            self.compare(seen, min(position, len(seen)), tail, text)
        self.whole = whole


def _block(run: OpIterator, n: int) -> list[Any]:
    try:
        block = run.block(n)
    except (TransformError, ElementError) as exc:
        return [_failure(exc)]
    assert len(block) <= n, f"asked for {n}, got {len(block)}"
    return list(map(plain, block))


def _drain(run: OpIterator, n: int, limit: int) -> list[Any]:
    out: list[Any] = []
    while len(out) < limit and (outcome := _block(run, min(n, limit - len(out)))):
        out += outcome
    return out


def _next(it: Any) -> Any:
    try:
        return plain(next(it))
    except StopIteration:
        return None
    except (TransformError, ElementError) as exc:
        return _failure(exc)


def _failure(exc: Exception) -> Failure:
    text = re.sub(r" \(its input was .*\)$", "", str(exc).splitlines()[0])
    return Failure(type(exc).__name__, text)


def _expected(value: Any) -> Any:
    if isinstance(value, Failure):
        return value
    if isinstance(value, Exception):
        return _failure(value)
    return plain(normalise(value))


def _shown(outcomes: list[Any], unordered: bool) -> Any:
    return Counter(map(repr, outcomes)) if unordered else outcomes


class Counted:
    """A function that remembers its calls, as the plain values of its first arguments."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self.calls: list[Any] = []
        self.__qualname__ = fn.__qualname__

    def __call__(self, *args: Any) -> Any:
        self.calls.append(args[0].item() if isinstance(args[0], np.generic) else args[0])
        return self._fn(*args)


class Splits(SplitReader):
    """A reader of split logs that are written beforehand; reading past a log's end is an error.

    Logs are lists of ``(start, stop)``, of tuples of file names, or of None, which ends a pass.
    """

    def __init__(self, *logs: list[Any]) -> None:
        super().__init__(self._fetch)
        self.logs = [_log(log) for log in logs]
        self.first: dict[int, int] = {}
        """Of a stream: the position before which the log is forgotten."""
        self.fetched: list[tuple[int, int]] = []

    def _fetch(self, stream: int, position: int) -> Split:
        assert position >= self.first.get(stream, 0), "this part of the log is forgotten"
        self.fetched.append((stream, position))
        return self.logs[stream][position]


def _log(entries: list[Any]) -> list[Split]:
    splits, unit = [], 0
    for entry in entries:
        if entry is None:
            splits.append(Split(unit, unit))
        elif isinstance(entry[0], str):
            splits.append(Split(unit, unit + len(entry), tuple(entry)))
            unit += len(entry)
        else:
            splits.append(Split(*entry))
    return splits


@pytest.fixture
def check_states(quick: bool) -> StateChecker:
    return StateChecker(4 if quick else 1)


@pytest.fixture
def counted() -> type[Counted]:
    return Counted


@pytest.fixture(name="plain")
def plain_fixture() -> Callable[[Any], Any]:
    return plain


@pytest.fixture
def splits() -> type[Splits]:
    return Splits
