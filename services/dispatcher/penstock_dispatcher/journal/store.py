"""The journal's SQLite file: rows of facts, and snapshots that let them be forgotten."""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from penstock.errors import JournalError, StoreFull
from penstock.protocol.malformed import MALFORMED
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.journal import wal_check
from penstock_dispatcher.journal.row_mac import LineTable, RowMacs, wrapped
from penstock_dispatcher.journal.snapshot import (
    Changes,
    JournalSnapshot,
    decode_facts,
    decode_live,
    put_line,
)
from penstock_dispatcher.work_dir.folder_key import KEY, kept_key, own_key

log = logging.getLogger("penstock.dispatcher")

FORMAT = 3
"""The version of the tables below. Fields that have defaults may come and go without a new one."""

APPLICATION = 0x50535431
"""Tells a journal from any other SQLite file."""

TABLES = (
    "CREATE TABLE facts (length INTEGER PRIMARY KEY, body BLOB NOT NULL, mac INTEGER NOT NULL)",
    """CREATE TABLE live (length INTEGER PRIMARY KEY, body BLOB NOT NULL, total INTEGER NOT NULL,
    mac INTEGER NOT NULL)""",
    """CREATE TABLE lines (rank INTEGER PRIMARY KEY, kind TEXT NOT NULL, key BLOB NOT NULL,
    body BLOB NOT NULL, mac INTEGER NOT NULL, UNIQUE (kind, key))""",
)
"""All that the file's schema says, to the letter; `RowMacs` has what *mac* and *total* are."""

PAGES = 1000
"""The write-ahead log is copied into the file when it has this many pages, and starts again."""

LOG_HEADER, FRAME_HEADER = 32, 24
"""Bytes of that log before its first frame, and of each frame before its page."""

SPARE = 256
"""Free pages that the file keeps for its next snapshot; the file system gets the rest."""

_FULL = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_TRUNCATE}
"""SQLite reports file size limits and quotas as failed writes, a full disk by its own name."""

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}


@dataclass(frozen=True, slots=True)
class LoadedJournal:
    """The contents of a journal: the state, and its changes since the last snapshot.

    *pending* is the size of the facts after that snapshot, *live* its own size.
    """

    state: DispatcherState
    changes: Changes
    pending: int
    live: int


class Store:
    """An open journal. One thread at a time; what fails changes nothing."""

    def __init__(self, file: Path, *, power: bool, max_pages: int | None = None) -> None:
        """Open *file*, or create it. With *power* each write survives power failures.

        Its rows are checked with the key of its folder, which is made with the first one there.

        Raises:
            ConfigError: when the key cannot be read, or others can read it.
            JournalError: when the file, or its write-ahead log, is damaged or of a newer version;
                when its key is gone.
            StoreFull: when there is no room to create it.
        """
        self.file, self.log = file, file.with_name(f"{file.name}-wal")
        self.key = file.with_name(KEY)
        self._check_log()
        with self._damage_told():
            self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        try:
            with self._damage_told():
                is_new = self._is_new()
            self._macs = RowMacs(self._key(is_new))
            self._lines = LineTable(self._db, self._macs)
            with self._damage_told(), self._room_told():
                self._set_up(is_new, power, max_pages)
        except BaseException:
            self._db.close()
            raise

    def _check_log(self) -> None:
        """Refuse a log that SQLite would silently drop; warn of an unacknowledged end.

        That end is cut off. SQLite would write over it with the same salts, and its frames would
        stand after new ones: if the dispatcher is killed then, they look like later transactions.
        """
        logged = self.log
        if not _size(logged):
            return
        tail = wal_check.inspect(logged)
        if tail.broken:
            raise JournalError(
                f"{logged} is damaged at byte {tail.at}: later transactions were acknowledged. "
                "Restore the folder from a copy; or, to continue without these transactions and "
                f"lose their decisions, cut the file there: truncate -s {tail.at} {logged}"
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
                "copy, or delete the folder to begin again"
            )
        if tail.nbytes:
            os.truncate(logged, tail.at)

    def _is_new(self) -> bool:
        self._ask("PRAGMA locking_mode = EXCLUSIVE")  # no shared memory: no other process reads
        if not self._ask("SELECT count(*) FROM sqlite_schema")[0][0]:
            return True
        self._check_version()
        return False

    def _key(self, is_new: bool) -> bytes:
        if is_new:
            return own_key(self.file.parent)
        if not self.key.exists():  # another one would refuse every row
            raise JournalError(
                f"{self.key} is missing, and nothing else tells the dispatcher's own rows in "
                f"{self.file} from changes by others: restore it from a copy of the "
                "folder, or delete the folder to begin again: readers and workers of its jobs "
                "end with an error that says so"
            )
        return kept_key(self.file.parent)

    def _set_up(self, is_new: bool, power: bool, max_pages: int | None) -> None:
        ask = self._ask
        if is_new:
            ask("PRAGMA auto_vacuum = INCREMENTAL")
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
        # A trigger or a view of somebody else's would take part in all that is done here.
        if {row[0] for row in ask("SELECT sql FROM sqlite_schema WHERE sql > ''")} != set(TABLES):
            raise self._damaged("its tables are not those of a journal")
        live = ask("SELECT total, mac FROM live") or [(0, 0)]
        facts = ask("SELECT mac FROM facts ORDER BY length DESC LIMIT 1")
        self._total, self._behind = live[0][0], (facts or [live[0][1:]])[0][0]

    def _begin(self) -> None:
        with self._transaction():
            for statement in TABLES:
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
        changes, macs = Changes(state), self._macs
        total = found = behind = 0

        def take_live(length: int, body: bytes, lines: int, mac: int) -> None:
            nonlocal state, live, total, behind
            if live:
                raise ValueError("there may be one snapshot, and it is the second")
            _expect(mac, macs.live(length, lines, body))
            state, live, total, behind = decode_live(body), len(body), lines, mac

        def take_line(rank: int, kind: str, key: bytes, body: bytes, mac: int) -> None:
            nonlocal found
            _expect(mac, macs.line(rank, kind, key, body))
            found = wrapped(found + mac)
            put_line(state, kind, key, body)

        def take_facts(length: int, body: bytes, mac: int) -> None:
            nonlocal pending, behind
            _expect(mac, macs.facts(behind, length, body))
            self._replay(state, changes, length, body)
            pending, behind = pending + len(body), mac

        with self._damage_told(), _no_collection():
            self._read("live", "length, body, total, mac", take_live)
            self._read("lines", "rank, kind, key, body, mac", take_line)
            if found != total:
                raise self._damaged(
                    "table lines is not as it was when the row of table live was written: rows are "
                    "missing or too many, or of another time"
                )
            state.iterations = dict(sorted(state.iterations.items()))
            changes = Changes(state)
            self._read("facts", "length, body, mac", take_facts)
        return LoadedJournal(state, changes, pending, live)

    def _read(self, table: str, columns: str, take: Callable[..., None]) -> None:
        row = 0
        try:
            for row, *values in self._db.execute(
                f"SELECT {columns} FROM {table} ORDER BY 1"  # noqa: S608  names only
            ):
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
        mac = self._macs.facts(self._behind, length, row)
        values = (length, row, mac)
        with self._room_told():
            self._make_room(lambda: self._db.execute("INSERT INTO facts VALUES (?, ?, ?)", values))
        self._behind = mac

    def compact(self, snapshot: JournalSnapshot) -> None:
        """Write *snapshot* in the place of all facts before it.

        Raises:
            StoreFull: when there is no room, even after some was made.
        """
        with self._room_told():
            self._make_room(lambda: self._put(snapshot))
            ((free,),) = self._ask("PRAGMA freelist_count")
            ((pages,),) = self._ask("PRAGMA page_count")
            if free > max(SPARE, pages // 2):
                self._ask(f"PRAGMA incremental_vacuum({free - SPARE})")

    def _put(self, snapshot: JournalSnapshot) -> None:
        db = self._db
        with self._transaction():
            db.execute("DELETE FROM facts")
            db.execute("DELETE FROM live")
            total = self._lines.write(snapshot, self._total)
            mac = self._macs.live(snapshot.length, total, snapshot.live)
            live = (snapshot.length, snapshot.live, total, mac)
            db.execute("INSERT INTO live VALUES (?, ?, ?, ?)", live)
        self._total, self._behind = total, mac

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

    def _make_room(self, write: Callable[[], object]) -> None:
        """Do *write*. If there is no room, copy the log into the file, and try once more."""
        try:
            write()
        except sqlite3.OperationalError as exc:
            if not _is_full(exc):
                raise
            try:
                self._ask("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as again:
                if not _is_full(again):
                    raise
            write()

    @contextmanager
    def _room_told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as exc:
            if not _is_full(exc):
                raise
            raise StoreFull(
                f"the dispatcher has no room to write {self.file} ({exc}), and takes nothing new "
                "until there is: free space there, or raise the quota or limit. Everything that "
                "it accepted before is safe, and continues by itself"
            ) from exc

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except MALFORMED as exc:  # it is an SQLite file, with other content
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
            "begin again: readers and workers of its jobs end with an error that says so"
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


def _expect(found: int, mac: int) -> None:
    if found != mac:
        raise ValueError(
            f"its content was not written with the key in {KEY}. The disk or somebody changed "
            "it, moved it, or removed what stood before it; or the key is another folder's"
        )


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
