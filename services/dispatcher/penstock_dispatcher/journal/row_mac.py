"""Rows of the journal, and their keyed digests (MACs): these prove who wrote the rows.

Without the key nobody can change a row, add one, or move one to another place. The digests also
bind rows to each other. The digest of facts covers the digest of the row before, so no row between
them can be missing. The digest of a snapshot covers the sum of the digests of all lines, so no line
can be missing or older. So the journal that is read was written as a whole at some time.
"""

from __future__ import annotations

import sqlite3
from hashlib import blake2b

from penstock_dispatcher.journal.snapshot import FactLine, JournalSnapshot

_BYTES = 8
"""The size of an integer of SQLite. A guess can be tried only at the start of a dispatcher."""


class RowMacs:
    """Makes the digests of rows with *key*: signed integers of 64 bits."""

    def __init__(self, key: bytes) -> None:
        # Made once and copied: to begin with a key takes as long as to digest a small row.
        self._facts, self._live, self._line = (
            blake2b(digest_size=_BYTES, key=key, person=b"penstock " + table)
            for table in (b"facts", b"live", b"line")
        )

    def facts(self, behind: int, length: int, body: bytes) -> int:
        """Return that of facts up to the *length*-th, behind a row whose digest is *behind*."""
        digest = self._facts.copy()
        digest.update(_packed(behind) + _packed(length))
        digest.update(body)
        return int.from_bytes(digest.digest(), "little", signed=True)

    def live(self, length: int, total: int, body: bytes) -> int:
        """Return that of a snapshot of *length* facts, whose lines' digests come to *total*."""
        digest = self._live.copy()
        digest.update(_packed(length) + _packed(total))
        digest.update(body)
        return int.from_bytes(digest.digest(), "little", signed=True)

    def line(self, rank: int, kind: str, key: bytes, body: bytes) -> int:
        """Return that of the line *rank*, of the entry *key* of the table *kind* of the state."""
        name = kind.encode()
        digest = self._line.copy()
        digest.update(_packed(rank) + _packed(len(name)) + _packed(len(key)) + name + key)
        digest.update(body)
        return int.from_bytes(digest.digest(), "little", signed=True)


def wrapped(total: int) -> int:
    """Return the integer of 64 bits that *total* is equal to, modulo their number.

    >>> wrapped(2**63 - 1 + 1) == -(2**63)
    True
    """
    return (total + 2**63) % 2**64 - 2**63


def _packed(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


class LineTable:
    """Writes the lines of *db*, with digests by *macs*, in its caller's transactions."""

    def __init__(self, db: sqlite3.Connection, macs: RowMacs) -> None:
        self._db, self._macs = db, macs

    def write(self, snapshot: JournalSnapshot, total: int) -> int:
        """Write what *snapshot* has of lines; return what the digests of all lines come to.

        They came to *total* before. Behind a failure nothing of it may stay.
        """
        for kind, key in snapshot.gone:
            rank, mac = self._find(kind, key)
            self._db.execute("DELETE FROM lines WHERE rank = ?", (rank,))
            total -= mac
        ask = "SELECT coalesce(max(rank), 0) FROM lines"
        ((highest,),) = self._db.execute(ask).fetchall()
        for line in snapshot.lines:
            before, mac = self._find(line.table, line.key)
            is_last = line.last or not before
            highest += is_last
            total += self._put(line, before, highest if is_last else before) - mac
        return wrapped(total)

    def _put(self, line: FactLine, before: int, rank: int) -> int:
        """Write *line* at *rank*, in place of the one at *before* if there is one."""
        mac = self._macs.line(rank, line.table, line.key, line.body)
        if before:
            changed = (rank, line.body, mac, before)
            self._db.execute("UPDATE lines SET rank = ?, body = ?, mac = ? WHERE rank = ?", changed)
        else:
            new = (rank, line.table, line.key, line.body, mac)
            self._db.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", new)
        return mac

    def _find(self, kind: str, key: bytes) -> tuple[int, int]:
        """Return the rank and the digest of a line; (0, 0) if there is none."""
        ask = "SELECT rank, mac FROM lines WHERE kind = ? AND key = ?"
        rank, mac = self._db.execute(ask, (kind, key)).fetchone() or (0, 0)
        return rank, mac
