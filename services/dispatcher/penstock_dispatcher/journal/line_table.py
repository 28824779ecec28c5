"""The table of lines: entries of the state that grow with history, each written when it changed."""

from __future__ import annotations

import sqlite3

from penstock_dispatcher.journal.row_mac import RowMacs, wrapped
from penstock_dispatcher.journal.snapshot import FactLine, Snapshot


class LineTable:
    """Writes the lines of *db*, with digests by *macs*, in its caller's transactions."""

    def __init__(self, db: sqlite3.Connection, macs: RowMacs) -> None:
        self._db, self._macs = db, macs

    def write(self, snapshot: Snapshot, total: int) -> int:
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
