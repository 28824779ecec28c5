"""The dispatcher's real journal on a disk of virtual time, which a crash cuts short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal.journal import DurableJournal
from penstock_dispatcher.journal.snapshot import (
    Changes,
    JournalSnapshot,
    decode_facts,
    decode_live,
    put_line,
)
from penstock_dispatcher.journal.store import LoadedJournal
from simulation.world import Process

NOWHERE = Path("/dev/null/journal.db")


class Disk:
    """What has been written; it outlives its dispatchers."""

    file = log = key = NOWHERE
    """No files: so none is ever found missing."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, bytes]] = []
        self.live: bytes | None = None
        self.lines: dict[tuple[str, bytes], bytes] = {}
        self.length = 0
        """How many facts are on disk."""

    def append(self, length: int, row: bytes) -> None:
        """Write a row of facts."""
        self.rows.append((length, row))
        self.length = length

    def compact(self, snapshot: JournalSnapshot) -> None:
        """Write books in the place of the facts before."""
        for place in snapshot.gone:
            self.lines.pop(place, None)
        for line in snapshot.lines:
            if line.last:
                self.lines.pop((line.table, line.key), None)
            self.lines[line.table, line.key] = line.body
        self.live, self.length, self.rows = snapshot.live, snapshot.length, []

    def load(self) -> LoadedJournal:
        """Read everything, as `Store.load` does."""
        state = DispatcherState() if self.live is None else decode_live(self.live)
        for (table, key), body in self.lines.items():
            put_line(state, table, key, body)
        state.iterations = dict(sorted(state.iterations.items()))
        changes = Changes(state)
        for length, row in self.rows:
            for fact in decode_facts(row):
                state.apply(fact)
                changes.note(fact)
            if state.length != length:
                raise AssertionError(f"law 8: {state.length} facts where {length} were written")
        return LoadedJournal(state, changes, sum(len(row) for _, row in self.rows), 0)

    def close(self) -> None:
        """See `Store.close`."""


class SimJournal(DurableJournal):
    """The real journal; its loop and its thread are of virtual time."""

    def __init__(self, disk: Disk, process: Process) -> None:
        super().__init__(disk, disk, disk.load())  # type: ignore[arg-type]
        self._process = process
        self._loop: Any = self
        self._writer: Any = self
        self._settled: Any = _Flag()
        self._attached = True
        self.working: Callable[[], None] | None = None
        """What is being written just now."""

    def call_soon(self, act: Callable[[], None]) -> None:
        """As of an event loop."""
        self._process.at(0.0, act)

    def do(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """As of a writer: a disk takes its time, and sometimes a long one."""
        chance = self._process.world.chance
        delay = chance.choice((0.003, 0.003, 0.02, 0.4)) if self._process.world.rough else 0.003
        self.working = work
        self._process.world.at(delay, self._worked, work, done)

    def _worked(self, work: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        if self._process.dead:
            return
        work()
        self.working = None
        self._process.world.stats["syncs"] += 1
        self._process.run(done, None)

    def crash(self) -> None:
        """What is being written just then is on disk, or is not."""
        if self.working is not None and self._process.world.chance.random() < 0.5:
            self.working()

    def _write_batch(self) -> None:
        if self._batch and not self._busy and self._process.world.chance.random() < 0.1:
            self._since = 1 << 40  # a snapshot, for once
        super()._write_batch()


class _Flag:
    def set(self) -> None:
        pass

    def clear(self) -> None:
        pass
