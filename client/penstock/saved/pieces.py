"""Which files of workers become one chunk: the elements decide it, and neither time nor crashes.

Workers cut the elements of a split into stretches: a stretch ends when it has the bytes of a chunk,
or at the end of the split. If time is up, or a worker dies, a stretch is in several files, its
*pieces*. A stretch of at least an eighth of a chunk becomes a chunk. Shorter ones, at the ends of
splits, are joined until they have that many bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from penstock.saved.chunks import ChunkContents
from penstock.saved.receipts import begins_split, new_name

LEAST = 8
"""A chunk has at least this part of the bytes that it may have, unless the next one is large."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A file of consecutive elements of a chunk that is not finished."""

    number: int
    """See `penstock.saved.receipts.new_chunk`."""
    contents: ChunkContents
    nbytes: int = 0
    """About how many bytes its stretch takes up to its end."""
    ends: bool = False
    """Whether its stretch ends with it."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return new_name(self.number)


def finished(
    pieces: Iterable[Piece], chunk_bytes: int, *, is_over: bool
) -> tuple[list[list[Piece]], list[Piece], list[Piece]]:
    """Return the pieces of each chunk that is finished; then those left, all in order.

    Those left are short stretches, and a stretch that has not ended. *pieces* begin with a chunk.
    If it *is_over*, no piece follows, so none is left.

    >>> def piece(nbytes, *, ends, split=False):
    ...     return Piece(int(split), ChunkContents(1, nbytes, 0, ()), nbytes, ends)
    >>> three = [piece(3, ends=True), piece(5, ends=False), piece(80, ends=True)]
    >>> chunks, short, begun = finished([*three, piece(1, ends=True)], 80, is_over=False)
    >>> [[one.nbytes for one in chunk] for chunk in chunks], [one.nbytes for one in short], begun
    ([[3], [5, 80]], [1], [])
    """
    chunks: list[list[Piece]] = []
    short: list[Piece] = []
    size = 0
    stretch: list[Piece] = []
    for piece in (*pieces, None):
        if stretch and (stretch[-1].ends or (is_over if piece is None else _begins(piece))):
            nbytes = stretch[-1].nbytes
            if nbytes * LEAST >= chunk_bytes:
                chunks += [short, stretch] if short else [stretch]
                short, size = [], 0
            else:
                short, size = short + stretch, size + nbytes
                if size * LEAST >= chunk_bytes:
                    chunks.append(short)
                    short, size = [], 0
            stretch = []
        if piece is not None:
            stretch.append(piece)
    if is_over and short:
        chunks.append(short)
        short = []
    return chunks, short, stretch


def as_one(number: int, contents: ChunkContents, pieces: Sequence[Piece], *, ended: bool) -> Piece:
    """Return the piece *number*, which has the elements of *pieces* and takes their place.

    Either all their stretches have *ended*, or they are of one that has not.
    """
    if not ended:
        return Piece(number, contents, pieces[-1].nbytes)
    following = [*map(_begins, pieces[1:]), True]
    nbytes = sum(
        one.nbytes for one, ends in zip(pieces, following, strict=True) if one.ends or ends
    )
    return Piece(number, contents, nbytes, ends=True)


def _begins(piece: Piece) -> bool:
    return begins_split(piece.number)
