"""The journal's SQLite file: rows of facts, and snapshots that let them be forgotten."""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock.errors import JournalError, StoreFull
from penstock.protocol.malformed import MALFORMED
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal.encoding import decode_facts, decode_live, put_line
from penstock_dispatcher.journal.snapshot import Changes, Snapshot

log = logging.getLogger("penstock.dispatcher")

FORMAT = 2
"""The version of the tables below. Fields that have defaults may come and go without a new one."""

APPLICATION = 0x50535431
"""Tells a journal from any other SQLite file."""

TABLES = """
CREATE TABLE facts (length INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE live (length INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE lines (rank INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL,
    body BLOB NOT NULL, sum INTEGER NOT NULL, UNIQUE (kind, key));
"""

PAGES = 1000
"""The write-ahead log is copied into the file when it has so many pages, and begun anew."""

LOG_HEADER, FRAME_HEADER = 32, 24
"""Bytes of that log before its first frame, and of each frame before its page."""

SPARE = 256
"""Free pages that the file keeps for its next snapshot; the file system gets the rest."""

_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE}
"""SQLite reports file size limits and quotas as failed writes, a full disk by its own name."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


@dataclass(frozen=True, slots=True)
class LoadedJournal:
    """What a journal contains: the state, and what of it changed since the last snapshot.

    *pending* are the bytes of facts behind that, *live* is its size.
    """

    state: DispatcherState
    changes: Changes
    pending: int
    live: int


class Store:
    """An open journal. One thread at a time; what fails changes nothing."""

    def __init__(self, file: Path, *, power: bool, max_pages: int | None = None) -> None:
        """Open *file*, or create it. With *power* each write survives power failures.

        Raises:
            JournalError: when the file, or its write-ahead log, is damaged or of a newer version.
            StoreFull: when there is no room to create it.
        """
        self.file, self.log = file, file.with_name(f"{file.name}-wal")
        self._check_log()
        with self._damage_told():
            self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        try:
            with self._damage_told(), self._room_told():
                self._set_up(power, max_pages)
        except BaseException:
            self._db.close()
            raise

    def _check_log(self) -> None:
        """Refuse a log that SQLite would drop in silence; log what it drops rightly.

        One that it drops whole is emptied: SQLite would go on with salts of its torn header, and
        what is left behind the new frames could be taken for frames of theirs.
        """
        logged = self.log
        if not _size(logged):
            return
        # It loads NumPy, which a dispatcher that was not killed starts without.
        from penstock_dispatcher.journal import wal_check  # noqa: PLC0415

        tail = wal_check.inspect(logged)
        if tail.broken:
            raise JournalError(
                f"{logged} is damaged at byte {tail.at}: transactions behind it were acknowledged. "
                "Restore the folder from a copy; or, to go on without them and at the price of "
                f"what they decided, cut the file there: truncate -s {tail.at} {logged}"
            )
        if tail.nbytes:
            log.warning(
                "%s: the last write was cut short; its %d bytes from byte %d on are dropped; "
                "none of it was acknowledged",
                logged,
                tail.nbytes,
                tail.at,
            )
        if not _size(self.file):
            raise JournalError(
                f"{self.file} is empty or missing, and {logged.name} is not: restore both from a "
                "copy, or delete the folder to begin anew"
            )
        if tail.nbytes and not tail.at:
            os.truncate(logged, 0)

    def _set_up(self, power: bool, max_pages: int | None) -> None:
        ask = self._ask
        ask("PRAGMA locking_mode = EXCLUSIVE")  # no shared memory: no other process reads
        is_new = not ask("SELECT count(*) FROM sqlite_schema")[0][0]
        if is_new:
            ask("PRAGMA auto_vacuum = INCREMENTAL")
        else:
            self._check_version()
        ask("PRAGMA journal_mode = WAL")
        ask(f"PRAGMA synchronous = {'FULL' if power else 'NORMAL'}")
        ask(f"PRAGMA wal_autocheckpoint = {PAGES}")
        largest = LOG_HEADER + PAGES * (FRAME_HEADER + 4096)
        ask(f"PRAGMA journal_size_limit = {largest}")
        if max_pages is not None:
            ask(f"PRAGMA max_page_count = {max_pages}")
        if is_new:
            self._begin()
        found = [row[0] for row in ask("PRAGMA quick_check(3)")]
        if found != ["ok"]:
            raise self._damaged("; ".join(found).replace("\n", " "))

    def _begin(self) -> None:
        with self._transaction():
            for statement in TABLES.split(";"):
                self._ask(statement)
            self._ask(f"PRAGMA application_id = {APPLICATION}")
            self._ask(f"PRAGMA user_version = {FORMAT}")

    def _check_version(self) -> None:
        ((application,),) = self._ask("PRAGMA application_id")
        ((version,),) = self._ask("PRAGMA user_version")
        if application != APPLICATION:
            raise JournalError(f"{self.file} is no journal of Penstock; give another work_dir")
        if version != FORMAT:
            other = "newer" if version > FORMAT else "older"
            raise JournalError(
                f"{self.file} has format {version}, and this Penstock reads {FORMAT}: start the "
                f"{other} Penstock that wrote it, or give another work_dir"
            )

    def load(self) -> LoadedJournal:
        """Read the state.

        Raises:
            JournalError: naming the row that cannot be read.
        """
        state, live, pending = DispatcherState(), 0, 0
        changes = Changes(state)

        def take_live(_: int, body: bytes) -> None:
            nonlocal state, live
            state, live = decode_live(body), len(body)

        def take_line(_: int, kind: str, key: bytes, body: bytes) -> None:
            put_line(state, kind, key, body)

        def take_facts(length: int, body: bytes) -> None:
            nonlocal pending
            self._replay(state, changes, length, body)
            pending += len(body)

        with self._damage_told(), _no_collection():
            self._read("live", "length", "body", take_live)
            self._read("lines", "rank", "kind, key, body", take_line)
            state.iterations = dict(sorted(state.iterations.items()))
            changes = Changes(state)
            self._read("facts", "length", "body", take_facts)
        return LoadedJournal(state, changes, pending, live)

    def _read(self, table: str, key: str, columns: str, take: Callable[..., None]) -> None:
        row = 0
        try:
            for row, check, *values in self._db.execute(
                f"SELECT {key}, sum, {columns} FROM {table} ORDER BY {key}"  # noqa: S608  names only
            ):
                _verify(values, check)
                take(row, *values)
        except MALFORMED as exc:
            raise self._damaged(f"row {row} of table {table} cannot be read: {exc}") from exc

    @staticmethod
    def _replay(state: DispatcherState, changes: Changes, length: int, body: bytes) -> None:
        facts = decode_facts(body)
        if state.length + len(facts) != length:
            raise ValueError(f"facts from {state.length + 1} to {length - len(facts)} are missing")
        for fact in facts:
            state.apply(fact)
            changes.note(fact)

    def append(self, length: int, row: bytes) -> None:
        """Write the facts up to the *length*-th.

        Raises:
            StoreFull: when there is no room, even after some was made.
        """
        values = (length, row, _sum(row))
        with self._room_told():
            try:
                self._db.execute("INSERT INTO facts VALUES (?, ?, ?)", values)
            except sqlite3.OperationalError as exc:
                if not _is_full(exc):
                    raise
                self._shrink_log()
                self._db.execute("INSERT INTO facts VALUES (?, ?, ?)", values)

    def compact(self, snapshot: Snapshot) -> None:
        """Write *snapshot* in the place of all facts before it.

        Raises:
            StoreFull: when there is no room, even after some was made.
        """
        with self._room_told():
            try:
                self._put(snapshot)
            except sqlite3.OperationalError as exc:
                if not _is_full(exc):
                    raise
                self._shrink_log()
                self._put(snapshot)
            ((free,),), ((pages,),) = (
                self._ask("PRAGMA freelist_count"),
                self._ask("PRAGMA page_count"),
            )
            if free > max(SPARE, pages // 2):
                self._ask(f"PRAGMA incremental_vacuum({free - SPARE})")

    def _put(self, snapshot: Snapshot) -> None:
        db = self._db
        kept = [line for line in snapshot.lines if not line.last]
        last = [line for line in snapshot.lines if line.last]
        with self._transaction():
            db.execute("DELETE FROM facts")
            db.execute("DELETE FROM live")
            db.executemany("DELETE FROM lines WHERE kind = ? AND key = ?", snapshot.gone)
            db.executemany(
                "UPDATE lines SET body = ?, sum = ? WHERE kind = ? AND key = ?",
                [(n.body, _sum(n.key, n.body), n.table, n.key) for n in kept],
            )
            db.executemany(
                "REPLACE INTO lines (kind, key, body, sum) VALUES (?, ?, ?, ?)",
                [(n.table, n.key, n.body, _sum(n.key, n.body)) for n in last],
            )
            live = (snapshot.length, snapshot.live, _sum(snapshot.live))
            db.execute("INSERT INTO live VALUES (?, ?, ?)", live)

    def close(self) -> None:
        """Copy the write-ahead log into the file, and close it."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, statement: str) -> list[Any]:
        return self._db.execute(statement).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _shrink_log(self) -> None:
        """Make room: what stands in the log is copied into the file, whose pages may be free."""
        try:
            self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as exc:
            if not _is_full(exc):
                raise

    @contextmanager
    def _room_told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as exc:
            if not _is_full(exc):
                raise
            raise StoreFull(
                f"the dispatcher has no room to write {self.file} ({exc}), and takes nothing new "
                "until there is: free space there, or raise the quota or limit. What it took "
                "before is safe, and goes on by itself"
            ) from exc

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except MALFORMED as exc:  # it is an SQLite file, and not what was written
            raise self._damaged(f"{type(exc).__name__}: {exc}") from exc
        except sqlite3.DatabaseError as exc:
            code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
            if code in _DAMAGED:
                raise self._damaged(str(exc)) from exc
            raise JournalError(
                f"{self.file} cannot be used: {exc}; see to the disk, the file's permissions and "
                "other programs that have it open, then start again"
            ) from exc

    def _damaged(self, what: str) -> JournalError:
        return JournalError(
            f"{self.file} is damaged: {what}. Restore the folder from a copy, or delete it to "
            "begin anew: readers and workers of what it held end with an error that says so"
        )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Pause garbage collection while many objects are created that stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _is_full(exc: sqlite3.OperationalError) -> bool:
    return getattr(exc, "sqlite_errorcode", None) in _FULL


def _verify(values: list[Any], check: int) -> None:
    if _sum(*(value for value in values if isinstance(value, bytes))) != check:
        raise ValueError("it is not what was written")


def _sum(*parts: bytes) -> int:
    check = 0
    for part in parts:
        check = zlib.crc32(part, check)
    return check


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
