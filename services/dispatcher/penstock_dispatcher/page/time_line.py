"""What was seen of a pass of late: seconds, then minutes, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import astuple, dataclass

SECONDS_KEPT = 240
"""Samples that are kept as they came: of four minutes, at one a second."""

MINUTES_KEPT = 360
"""Averages of a minute that are kept: of six hours."""

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class PassSample:
    """What was seen of a pass *at* a time, in seconds since 1970. Rates are per second.

    *wait* is the share of its time that the loop waits which waits most, from 0 to 1. *filled* is
    how full buffers of workers are, *held* how full those of readers, from 0 to 1.
    """

    at: float
    wait: float
    steps: float
    elements: float
    nbytes: float
    filled: float
    held: float


FIELDS = PassSample.__slots__
"""The names of the columns."""


class TimeLine:
    """Samples of a pass in order: the newest as they came, those before as averages of minutes.

    At most `SECONDS_KEPT` and `MINUTES_KEPT`, which take about 150 KiB.
    """

    def __init__(self) -> None:
        self._seconds: deque[PassSample] = deque(maxlen=SECONDS_KEPT)
        self._minutes: deque[PassSample] = deque(maxlen=MINUTES_KEPT)
        self._minute: list[PassSample] = []
        """Samples of the minute that goes on: at most a minute's, as sampling has a pause."""

    def add(self, sample: PassSample) -> None:
        """Add what was seen now."""
        if self._minute and sample.at // MINUTE != self._minute[0].at // MINUTE:
            self._minutes.append(_mean(self._minute))
            self._minute = []
        self._minute.append(sample)
        self._seconds.append(sample)

    @property
    def newest(self) -> PassSample | None:
        """The last sample."""
        return self._seconds[-1] if self._seconds else None

    def columns(self) -> dict[str, list[float]]:
        """Return a list for each of `FIELDS`, all of one length, in the order of time."""
        first = self._seconds[0].at if self._seconds else 0.0
        samples = [*(one for one in self._minutes if one.at < first), *self._seconds]
        rows = [astuple(one) for one in samples]
        return {name: [round(row[i], 4) for row in rows] for i, name in enumerate(FIELDS)}


def _mean(samples: Sequence[PassSample]) -> PassSample:
    return PassSample(
        *(sum(column) / len(samples) for column in zip(*map(astuple, samples), strict=True))
    )
