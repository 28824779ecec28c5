"""Decides when a late request gets a second one beside it, and whether that is worth it."""

from __future__ import annotations

from collections import deque

FIRST_DELAY = 0.4
"""Seconds without a first byte after which a request counts as late, before there are samples."""

SHARE = 0.05
"""How many second requests there may be for each request."""

_SAMPLES = 256
_ENOUGH = 20
_QUANTILE = 0.95
_BURST = 5.0
_MOST_ERRORS = 0.05
_LOSSES = 24
"""After how many second requests in a row that did not win hedging stops."""
_REST = 2048
"""After how many more requests it is tried again."""


class HedgePolicy:
    """Hedging of the requests to one bucket.

    Sizes are put into classes by powers of four: a large range may take longer to begin.
    """

    def __init__(self) -> None:
        self._delays: dict[int, deque[float]] = {}
        self._failed: deque[bool] = deque(maxlen=_SAMPLES)
        self._tokens = 1.0
        self._lost = 0
        self._rest = 0

    def delay(self, nbytes: int) -> float | None:
        """Return after how many seconds a request for *nbytes* is late; None if none is hedged."""
        errors = sum(self._failed)
        if self._rest or (errors > 1 and errors > _MOST_ERRORS * len(self._failed)):
            return None
        seen = self._delays.get(_size_class(nbytes), ())
        if len(seen) < _ENOUGH:
            return FIRST_DELAY
        return sorted(seen)[min(int(len(seen) * _QUANTILE), len(seen) - 1)]

    def requested(self) -> None:
        """Note a request that is no hedge."""
        self._tokens = min(self._tokens + SHARE, _BURST)
        self._rest = max(self._rest - 1, 0)

    def take(self) -> bool:
        """Return whether a second request may be sent now, and count it if so."""
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def answered(self, nbytes: int, seconds: float) -> None:
        """Note the first byte of a request, hedged or not, *seconds* after it was sent."""
        seen = self._delays.setdefault(_size_class(nbytes), deque(maxlen=_SAMPLES))
        seen.append(seconds)
        self._failed.append(False)

    def failed(self) -> None:
        """Note a request that failed, for a reason that another one might share."""
        self._failed.append(True)

    def ended(self, *, won: bool) -> None:
        """Note whether a second request answered first."""
        self._lost = 0 if won else self._lost + 1
        if self._lost >= _LOSSES:
            self._lost, self._rest = 0, _REST


def _size_class(nbytes: int) -> int:
    return max(nbytes, 1).bit_length() // 2
