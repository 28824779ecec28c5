"""Which pieces a cache on disk holds, and which it gives up for others: a table in SQLite.

A training loop reads its data in cycles. If the data is larger than the cache, a cache that keeps
the newest pieces never holds the piece that is read next. So the index keeps a fixed subset: a
piece may displace only pieces whose names are greater. Names are hashes, so the subset is random,
and each cycle finds as many bytes of itself as the cache holds.

Pieces that nothing reads any more leave first. The index counts the bytes that were read, and
learns from repeated reads how many bytes lie between two reads of one piece. A piece that was not
read for twice as many bytes is stale.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

FORMAT = 1
"""The version of the tables below."""

WINDOWS, LEAST_READS = 2, 100
"""The index uses distances between reads after it has seen enough repeated reads: `WINDOWS` times
its bound in bytes, and `LEAST_READS` pieces."""

PATIENCE = 5.0
"""Seconds that a process waits for another one's transaction."""

_TABLES = (
    """CREATE TABLE pieces (name TEXT PRIMARY KEY, nbytes INTEGER NOT NULL, read INTEGER NOT NULL,
    held INTEGER NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX by_name ON pieces (name) WHERE held",
    "CREATE INDEX by_read ON pieces (read)",
    """CREATE TABLE totals (clock INTEGER NOT NULL, held INTEGER NOT NULL, bound INTEGER NOT NULL,
    window INTEGER NOT NULL, longest INTEGER NOT NULL,
    before INTEGER NOT NULL)""",
    "INSERT INTO totals VALUES (0, 0, 0, 0, 0, 0)",
    f"PRAGMA user_version = {FORMAT}",
)
"""*read* is the clock at the last read. *window* counts the bytes that were read again lately;
*longest* is the longest distance between two reads in this window, *before* in the last one."""


@dataclass(frozen=True, slots=True)
class CacheTotals:
    """How many bytes a cache on disk holds, and how many it may hold."""

    held: int = 0
    bound: int = 0


class CacheIndex:
    """The table of pieces in *file*, which processes share. ``":memory:"`` is one for tests."""

    def __init__(self, file: Path | str) -> None:
        """Open *file*, or create it.

        Raises:
            sqlite3.Error: when it cannot be read or written, or is of another version.
        """
        self._db = sqlite3.connect(
            file,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=32,
        )
        # Dropped without `close`, it closes the file; not as a process ends: that may be a fork.
        weakref.finalize(self, self._db.close).atexit = False
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        with self._transaction():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                for statement in _TABLES:
                    self._db.execute(statement)
            elif version != FORMAT:
                raise sqlite3.DatabaseError(f"version {version}, and {FORMAT} is needed")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def note_hit(self, name: str, nbytes: int) -> None:
        """Note that the piece *name*, which the cache holds, was read."""
        with self._transaction():
            self._note(name, nbytes)

    def admit(
        self, name: str, nbytes: int, bound_of: Callable[[int], int]
    ) -> tuple[bool, list[str]]:
        """Note that the piece *name* was read and is missing; decide whether to keep it.

        Args:
            name: its name, a hash.
            nbytes: how many bytes it needs.
            bound_of: returns how many bytes all pieces may need, given how many they need now.

        Returns:
            Whether to keep it, for which its bytes are reserved now; and the names of pieces that
            are no longer held, whose files are to be removed.
        """
        with self._transaction():
            self._note(name, nbytes)
            self._drop([name])
            held = self._total("held")
            bound = bound_of(held)
            gone, free = self._victims("", held - bound)
            more, freed = self._victims(name, held - free + nbytes - bound, gone)
            admitted = held - free - freed + nbytes <= bound
            if admitted:
                gone += more
            self._drop(gone)
            self._db.execute("UPDATE totals SET bound = ?", (bound,))
            if admitted:
                self._db.execute("UPDATE pieces SET held = 1 WHERE name = ?", (name,))
                self._db.execute("UPDATE totals SET held = held + ?", (nbytes,))
            return admitted, gone

    def drop(self, names: Iterable[str]) -> None:
        """Note that the pieces *names* have no files."""
        with self._transaction():
            self._drop(names)

    def holds(self, name: str) -> bool:
        """Return whether the piece *name* is to be kept."""
        query = "SELECT 1 FROM pieces WHERE name = ? AND held"
        return self._db.execute(query, (name,)).fetchone() is not None

    def held(self) -> dict[str, int]:
        """Return the names of the pieces that the cache holds, with their sizes."""
        return dict(self._db.execute("SELECT name, nbytes FROM pieces WHERE held"))

    def _note(self, name: str, nbytes: int) -> None:
        """Advance the clock by a read of *name*, and learn how long ago it was read before."""
        self._db.execute("UPDATE totals SET clock = clock + ?", (nbytes,))
        clock = self._total("clock")
        before = self._db.execute("SELECT read FROM pieces WHERE name = ?", (name,)).fetchone()
        self._db.execute(
            """INSERT INTO pieces VALUES (?, ?, ?, 0)
            ON CONFLICT (name) DO UPDATE SET read = excluded.read""",
            (name, nbytes, clock),
        )
        if before is not None:
            self._learn(clock - before[0], nbytes)

    def _learn(self, distance: int, nbytes: int) -> None:
        self._db.execute(
            "UPDATE totals SET window = window + ?, longest = max(longest, ?)", (nbytes, distance)
        )
        window, bound = self._total("window"), self._total("bound")
        if window > max(WINDOWS * bound, LEAST_READS * nbytes):
            self._db.execute("UPDATE totals SET window = 0, before = longest, longest = 0")
            self._forget()

    def _forget(self) -> None:
        """Forget pieces that are not held and stale."""
        self._db.execute("DELETE FROM pieces WHERE NOT held AND read < ?", (self._stale_before(),))

    def _stale_before(self) -> int:
        """Return the reading of the clock before which pieces that were read last are stale."""
        longest, before = self._total("longest"), self._total("before")
        # Without a whole window nothing is known of the cycle.
        return self._total("clock") - 2 * max(longest, before) if before else -1

    def _victims(
        self, name: str, excess: int, besides: Iterable[str] = ()
    ) -> tuple[list[str], int]:
        """Return pieces to give up for *excess* bytes, and their bytes: stale ones, then by name.

        Of those that are not stale, only pieces with names above *name* are returned.
        """
        gone, free, passed = [], 0, set(besides)
        for found, nbytes in self._worst(name) if excess > 0 else ():
            if free >= excess:
                break
            if found not in passed:
                passed.add(found)
                gone.append(found)
                free += nbytes
        return gone, free

    def _worst(self, name: str) -> Iterator[tuple[str, int]]:
        yield from self._db.execute(
            "SELECT name, nbytes FROM pieces WHERE held AND read < ? ORDER BY read",
            (self._stale_before(),),
        )
        yield from self._db.execute(
            "SELECT name, nbytes FROM pieces WHERE held AND name > ? ORDER BY name DESC", (name,)
        )

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            found = self._db.execute(
                "UPDATE pieces SET held = 0 WHERE name = ? AND held RETURNING nbytes", (name,)
            ).fetchone()
            if found:
                self._db.execute("UPDATE totals SET held = held - ?", found)

    def _total(self, column: str) -> int:
        (value,) = self._db.execute(f"SELECT {column} FROM totals").fetchone()  # noqa: S608  ours
        return int(value)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def totals_in(file: Path) -> CacheTotals:
    """Return the totals of the index in *file*, which this process only reads.

    Raises:
        sqlite3.Error: when there is none, or it cannot be read.
    """
    with closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", timeout=0.0, uri=True)) as db:
        return CacheTotals(*db.execute("SELECT held, bound FROM totals").fetchone())
