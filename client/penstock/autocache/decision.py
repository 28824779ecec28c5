"""Chooses the cut of a pipeline at which to keep elements: the one with the least time, or none.

All times and sizes are for one element of the whole pipeline: if that is a batch of 10, the cut
before `batch` has the time of 10 of its own elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

HYSTERESIS = 0.1
"""Another cut is chosen if it takes this share less time than the one that is in use."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A place after the operator *label*, and the costs of keeping elements there.

    *compute* is the time in seconds to make an element up to here, *read* and *write* that to read
    and write it. It has *nbytes*.
    """

    label: str
    compute: float
    nbytes: float
    read: float
    write: float
    visits: float = 1.0
    """How often a pass reads the elements up to here: more than once below `repeat`."""
    whole: float | None = None
    """The bytes of all elements; None: not known yet."""
    stored: bool = False
    """Whether all elements are in the store."""
    refusal: str = ""
    """Why elements cannot be kept here; empty if they can."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision: *chosen* is the number of a cut, or None to keep nothing.

    *totals* has the seconds that *passes* passes take with each cut, for one element of the
    pipeline; *computed* is the time if nothing is kept. *refusals* says why a cut is refused.
    """

    cuts: tuple[Cut, ...]
    passes: int
    computed: float
    totals: tuple[float, ...]
    refusals: tuple[str, ...]
    chosen: int | None = None

    @property
    def total(self) -> float:
        """The seconds that the choice takes."""
        return self.computed if self.chosen is None else self.totals[self.chosen]

    @property
    def table(self) -> tuple[str, ...]:
        """The choice as lines of text: a row for each cut, from the source to the end."""
        rows = [_HEADER.format(passes=self.passes)]
        for number, cut in enumerate(self.cuts):
            mark = "*" if number == self.chosen else " "
            read = _ms(cut.read) + (" stored" if cut.stored else "")
            row = f"{mark} after {cut.label}: {_ms(cut.compute)}, {cut.nbytes:,.0f} bytes, "
            row += f"{read}, {_ms(cut.write)}, {_ms(self.totals[number])}"
            if self.refusals[number]:
                row = f"  after {cut.label}: refused: {self.refusals[number]}"
            rows.append(row)
        mark = "*" if self.chosen is None else " "
        rows.append(f"{mark} keep nothing: {_ms(self.computed)}")
        return tuple(rows)


_HEADER = (
    "autocache, for each element, the chosen row with *: time to compute, size, time to read, to "
    "write, total of {passes} passes"
)


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.3f} ms"


def choose(
    cuts: Sequence[Cut],
    passes: int,
    max_bytes: int | None = None,
    before: int | None = None,
    *,
    decided: bool = False,
) -> Choice:
    """Return the choice with the least time for *passes* passes.

    Of equal ones, it is that with the fewest bytes.

    Args:
        cuts: from the source to the end of the pipeline.
        passes: how often the pipeline is read from now on.
        max_bytes: how many bytes of elements may be kept, together with those that are stored.
        before: the number of the cut in use, or None if nothing is kept.
        decided: whether *before* was chosen. If so, only one that takes a tenth less time replaces
            it.
    """
    computed = passes * cuts[-1].compute
    refusals = tuple(_refusal(cut, cuts, max_bytes) for cut in cuts)
    totals = tuple(
        math.inf if refusal else _total(cut, cuts[-1].compute, passes)
        for cut, refusal in zip(cuts, refusals, strict=True)
    )
    made = Choice(tuple(cuts), passes, computed, totals, refusals)
    ways: list[int | None] = [None, *range(len(cuts))]
    best = min(ways, key=lambda way: (_time(made, way), 0.0 if way is None else cuts[way].nbytes))
    if decided and _time(made, best) > (1 - HYSTERESIS) * _time(made, before):
        best = before
    return replace(made, chosen=best)


def _time(made: Choice, way: int | None) -> float:
    return made.computed if way is None else made.totals[way]


def _total(cut: Cut, end: float, passes: int) -> float:
    """Return the time of all passes: the first visit computes and writes, the others read."""
    kept = cut.read + end - cut.compute
    if cut.stored:
        return passes * kept
    return (end + cut.write) / cut.visits + (passes - 1 / cut.visits) * kept


def _refusal(cut: Cut, cuts: Sequence[Cut], max_bytes: int | None) -> str:
    if cut.refusal or cut.stored or max_bytes is None:
        return cut.refusal
    if cut.whole is None:
        return "with max_bytes, the size of all elements must be known: after a whole pass it is"
    held = sum(other.whole or 0.0 for other in cuts if other.stored)
    if held + cut.whole <= max_bytes:
        return ""
    beside = f", beside {held:,.0f} that are stored" if held else ""
    return f"all elements have {cut.whole:,.0f} bytes{beside}, and max_bytes is {max_bytes:,}"
