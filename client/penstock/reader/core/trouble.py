"""What went wrong, and when the loop is told of it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.reader.share import Share


def raise_new(shares: Iterable[Share], now: float) -> None:
    """Raise what happened to a task behind the last of its elements, once for each task."""
    for share in shares:
        if not share.told and not share.pieces and share.in_trouble(now):
            share.told = True
            raise share.error()


def is_over(shares: Iterable[Share], now: float, *, finished: bool) -> bool:
    """Say whether nothing will come any more; raise again what went wrong, if anything did."""
    shares = list(shares)
    told = [share for share in shares if share.told]
    stuck = told and all(share.told for share in shares if share.listed)
    if not finished and not stuck:
        return False
    for share in told:
        if share.in_trouble(now):
            raise share.error()
    return True
