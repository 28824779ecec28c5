"""Changes of the state since the last snapshot: the next snapshot writes only these.

The live part (workers and unfinished iterations) is written again each time. Finished iterations,
jobs, datasets and their ids are rows, of which there may be a hundred thousand: a row is written
again only if a fact named it.

Facts and states are MessagePack of the plain dataclasses, by field name. So a new field with a
default may be missing in the bytes that an older version wrote.
"""

from __future__ import annotations

import itertools
import typing
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from penstock.protocol.types import IterationId
from penstock_dispatcher.core.facts import Fact
from penstock_dispatcher.core.state import DispatcherState

KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in typing.get_args(Fact)}
"""Every class of facts, by the name that is written."""

LINES = ("datasets", "registrations", "jobs", "iterations")
"""The tables of the state that grow with history. Of iterations only those that are finished."""

_encoder = msgspec.msgpack.Encoder()
_facts = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
_by_kind = {name: msgspec.msgpack.Decoder(kind) for name, kind in KINDS.items()}
_state = msgspec.msgpack.Decoder(DispatcherState)
_hints = typing.get_type_hints(DispatcherState)
_tables = {name: typing.get_args(_hints[name]) for name in LINES}
_keys = {name: msgspec.msgpack.Decoder(key) for name, (key, _) in _tables.items()}
_lines = {name: msgspec.msgpack.Decoder(line) for name, (_, line) in _tables.items()}


def encode_fact(fact: Fact) -> msgspec.Raw:
    """Return *fact* as part of a row."""
    return msgspec.Raw(_encoder.encode((type(fact).__name__, fact)))


def encode_facts(facts: Iterable[msgspec.Raw]) -> bytes:
    """Return a row of facts."""
    return _encoder.encode(list(facts))


def decode_facts(row: bytes) -> list[Fact]:
    """Read a row of facts.

    Raises:
        ValueError: when it cannot be understood.
    """
    facts: list[Fact] = []
    for name, body in _facts.decode(row):
        if name not in _by_kind:
            raise ValueError(f"it has a fact {name!r}, which only a newer Penstock knows")
        facts.append(_by_kind[name].decode(body))
    return facts


def encode_live(state: DispatcherState) -> bytes:
    """Return *state* without the rows."""
    open_ = {name: one for name, one in state.iterations.items() if not one.finished}
    return _encoder.encode(replace(state, datasets={}, registrations={}, jobs={}, iterations=open_))


def decode_live(body: bytes) -> DispatcherState:
    """Read a state without its rows."""
    return _state.decode(body)


def encode_key(key: int | str) -> bytes:
    """Return the key of a row."""
    return _encoder.encode(key)


def encode_line(line: object) -> bytes:
    """Return one entry of a table of the state."""
    return _encoder.encode(line)


def put_line(state: DispatcherState, table: str, key: bytes, body: bytes) -> None:
    """Put one entry back into its table.

    Raises:
        ValueError: when it cannot be understood.
    """
    getattr(state, table)[_keys[table].decode(key)] = _lines[table].decode(body)


@dataclass(frozen=True, slots=True)
class FactLine:
    """A row as it is to be written; *last* puts it behind all others of its table."""

    table: str
    key: bytes
    body: bytes
    last: bool


@dataclass(frozen=True, slots=True)
class JournalSnapshot:
    """The state of *length* facts, but for rows that did not change."""

    length: int
    live: bytes
    lines: tuple[FactLine, ...]
    gone: tuple[tuple[str, bytes], ...]

    @property
    def nbytes(self) -> int:
        """How much is to be written."""
        return len(self.live) + sum(len(line.key) + len(line.body) for line in self.lines)


class Changes:
    """Tracks the facts behind a snapshot, which *state* is equal to now, and makes the next."""

    def __init__(self, state: DispatcherState) -> None:
        self._state = state
        self._homes: dict[IterationId, str] = {
            name: iteration.job for name, iteration in state.iterations.items()
        }
        self._touched: dict[str, set[int | str]] = {table: set() for table in LINES}
        self._stored: dict[str, set[int | str]] = {
            "datasets": set(state.datasets),
            "registrations": set(state.registrations),
            "jobs": set(state.jobs),
            "iterations": {n for n, one in state.iterations.items() if one.finished},
        }

    def note(self, fact: Fact) -> None:
        """Mark what *fact* names as changed. The state may be ahead of it already."""
        dataset, job = getattr(fact, "dataset", None), getattr(fact, "job", None)
        iteration = getattr(fact, "iteration", None)
        if dataset is not None:
            self._touched["datasets"].add(dataset)
        if (registered := getattr(fact, "dataset_id", None)) is not None:
            self._touched["registrations"].add(registered)
        if iteration is not None:
            self._touched["iterations"].add(iteration)
            job = self._homes.setdefault(iteration, job) if job else self._homes.get(iteration)
        if job is not None:
            self._touched["jobs"].add(job)

    def snapshot(self) -> JournalSnapshot:
        """Return what a snapshot of the state must write; from now on that counts as written."""
        lines: list[FactLine] = []
        gone: list[tuple[str, bytes]] = []
        for table in LINES:
            self._gather(table, lines, gone)
        for iteration in self._touched["iterations"] - self._state.iterations.keys():
            self._homes.pop(IterationId(int(iteration)), None)
        self._touched = {table: set() for table in LINES}
        return JournalSnapshot(
            self._state.length, encode_live(self._state), tuple(lines), tuple(gone)
        )

    def _gather(self, table: str, lines: list[FactLine], gone: list[tuple[str, bytes]]) -> None:
        entries: dict[int | str, object] = getattr(self._state, table)
        touched, stored = self._touched[table], self._stored[table]
        # The order of jobs means something; new and moved ones are at the end.
        moved = list(itertools.takewhile(touched.__contains__, reversed(entries)))
        behind = set(moved)
        for key in (*(touched - behind), *reversed(moved)):
            line = entries.get(key)
            if line is not None and getattr(line, "finished", True) is not False:
                last = key in behind or key not in stored
                lines.append(FactLine(table, encode_key(key), encode_line(line), last))
                stored.add(key)
            elif key in stored:
                gone.append((table, encode_key(key)))
                stored.remove(key)
        if len(stored) > len(entries):  # some went without being named by a fact
            for key in stored - entries.keys():
                gone.append((table, encode_key(key)))
                stored.remove(key)
