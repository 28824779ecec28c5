"""What is kept beside each row: a keyed digest (MAC), by which the row is known to be ours.

Who has no key can neither change a row, nor add one, nor put one in another place. What binds rows
to each other is in the digests, too: that of facts covers that of the row before it, so that none
is missing in between; that of a snapshot the sum of those of all lines, so that none of them is
missing, or as it was before. So what is read is what was written at some time, as a whole.
"""

from __future__ import annotations

from hashlib import blake2b

_BYTES = 8
"""An integer of SQLite has so many. What is guessed is tried at the start of a dispatcher alone."""


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
