"""How much each source of a mixture gives in a span of turns, and how much its weights want."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.errors import DatasetError
from penstock.protocol.turns import Turns


@dataclass(frozen=True, slots=True)
class SourceShare:
    """The share of the dataset *name* of a mixture in a span of steps, from 0 to 1.

    It gives this number of *elements*.
    """

    name: str
    wanted: float
    """Its share by the weights, on average over the span."""
    real: float
    """Its share of the elements: it differs from *wanted* if a dataset has ended."""
    elements: int
    passes: int
    """How many whole passes it has given at the end of the span, since step 0."""
    repeats_at: int | None
    """The first step after the span in which it begins a pass again; None if it never does."""


@dataclass(frozen=True, slots=True)
class MixtureShares:
    """The shares of a mixture's datasets in the steps from *begin* to before *end*. Print it."""

    begin: int
    end: int
    sources: tuple[SourceShare, ...]

    def __str__(self) -> str:
        return f"Steps {self.begin:,} to {self.end:,}: {'; '.join(map(_said, self.sources))}."


def _said(source: SourceShare) -> str:
    said = f"{source.name} {100 * source.real:.1f} % (wanted {100 * source.wanted:.1f} %)"
    if source.passes:
        said += f", {source.passes:,} pass{'es' * (source.passes > 1)} over"
    return said + ("" if source.repeats_at is None else f", again at step {source.repeats_at:,}")


def shares_between(
    turns: Turns, names: Sequence[str], first: int, stop: int, each: int = 1
) -> MixtureShares:
    """Return the shares of the sources *names* in the turns from *first* to before *stop*.

    Args:
        turns: those of the mixture.
        names: the names of its sources.
        first: the first turn.
        stop: the turn after the last one; the result ends with the mixture, if that is earlier.
        each: how many turns a step takes.

    Raises:
        DatasetError: when the mixture ends before *first*, or nothing is known of turn *first*.
    """
    span = f"{first // each:,} to {stop // each:,}"
    if first < turns.stages[0].begin:
        raise DatasetError(
            f"mixture: the weights of turns before {turns.stages[0].begin:,} are not known any "
            f"more, so those of {span} are not: give a later span"
        )
    if turns.length is not None and first >= turns.length:
        raise DatasetError(
            f"mixture: it ends before step {-(-turns.length // each):,}, so it has no steps "
            f"{span}: give an earlier span"
        )
    stop = stop if turns.length is None else min(stop, turns.length)
    wanted, before, after = _wanted(turns, first, stop), turns.counts(first), turns.counts(stop)
    sources = []
    for i, (name, size) in enumerate(zip(names, turns.sizes, strict=True)):
        given, again = after[i] - before[i], turns.next_repeat(i, stop)
        sources.append(
            SourceShare(
                name,
                wanted[i],
                given / (stop - first),
                given,
                after[i] // size if size else 0,
                None if again is None else again // each,
            )
        )
    return MixtureShares(first // each, -(-stop // each), tuple(sources))


def _wanted(turns: Turns, first: int, stop: int) -> list[float]:
    """Return the shares by the weights, on average over the turns *first* to *stop*."""
    stages, count = turns.stages, len(turns.sizes)
    endless = Turns(stages, (None,) * count)
    ends = [*(each.begin for each in stages[1:]), None]
    sums = [0.0] * count
    for stage, end in zip(stages, ends, strict=True):
        low, high = max(stage.begin, first), stop if end is None else min(end, stop)
        total = sum(stage.parts)
        if low >= high:
            continue
        if end is None or end - stage.begin >= total:
            given = [(high - low) * part / total for part in stage.parts]
        else:  # the stage ends before its parts are whole
            counts = zip(endless.counts(low), endless.counts(high), strict=True)
            given = [float(after - before) for before, after in counts]
        sums = [known + more for known, more in zip(sums, given, strict=True)]
    return [each / (stop - first) for each in sums]
