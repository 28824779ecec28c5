"""Computes how much each dataset of a mixture gives in a span of steps. It reads nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.analysis.registered import Registered
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.graph.traversal import topological_order
from penstock.ops.batch import Batch
from penstock.ops.mixed_streams import MixedStreams
from penstock.ops.mixture import Mixture
from penstock.ops.padded_batch import PaddedBatch
from penstock.ops.take import Take
from penstock.ops.zip import Zip
from penstock.options import check_count
from penstock.protocol.mixture import WeightStage
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


def mixture_shares(root: Node, steps: Any) -> tuple[MixtureShares, ...]:
    """Return the shares of each mixture that the pipeline ending in *root* reads.

    Args:
        root: the last operator.
        steps: the first step, and the step before which the span ends.

    Raises:
        DatasetError: when *steps* are no span, when there is no mixture, or when it is not known
            which turns a step takes.
    """
    begin, end = _span(steps)
    found = tuple(_shares(mixture, turns, begin, end) for mixture, turns in _mixtures(root, 1))
    if not found:
        raise DatasetError(
            f"visitation: steps={steps!r} asks for the shares of a mixture, and the pipeline has "
            "none: leave steps out, or make one with Dataset.mixture"
        )
    return found


def _span(steps: Any) -> tuple[int, int]:
    if not isinstance(steps, tuple) or len(steps) != 2:
        raise DatasetError(
            f"visitation: steps must be a pair of the first step and the end, not {steps!r}"
        )
    begin = check_count("visitation", "the first of steps", steps[0], least=0)
    return begin, check_count("visitation", "the end of steps", steps[1], least=begin + 1)


_REGULAR = (Batch, PaddedBatch, Take, Zip)
"""Operators whose elements are made of a fixed number of those before, in their order."""


def _mixtures(node: Node, turns: int) -> Iterator[tuple[Mixture, int]]:
    """Yield the outermost mixtures, each with how many turns a step takes."""
    if isinstance(node, Mixture):
        yield node, turns
        return
    if isinstance(node, MixedStreams):
        raise DatasetError(
            "visitation: which dataset a turn of the mixture takes depends on the task, because "
            f"{node.obstacle}: look at the real shares in `penstock status` while it runs"
        )
    if isinstance(node, Registered):
        raise DatasetError(
            f"visitation: the pipeline with the dataset_id {node.dataset_id!r} is not here: ask "
            "for steps where it is registered"
        )
    if node.on_workers is not None:
        yield from _mixtures(node.on_workers[0], turns * node.consumers)
        return
    below = [each for each in node.inputs if _has_mixture(each)]
    if below and not (node.one_to_one or isinstance(node, _REGULAR)):
        raise DatasetError(
            f"visitation: {node.label} takes a number of turns for each step that is not known: "
            "call visitation(steps=...) of the dataset before it, where each element is a step"
        )
    size = node.size if isinstance(node, Batch | PaddedBatch) else 1
    for each in below:
        yield from _mixtures(each, turns * size)


def _has_mixture(node: Node) -> bool:
    return any(
        isinstance(each, Mixture | MixedStreams | Registered)
        or (each.on_workers is not None and _has_mixture(each.on_workers[0]))
        for each in topological_order(node)
    )


def _shares(mixture: Mixture, each: int, begin: int, end: int) -> MixtureShares:
    turns = mixture.turns()
    first, stop = begin * each, end * each
    if turns.length is not None:
        if first >= turns.length:
            raise DatasetError(
                f"visitation: the mixture ends before step {-(-turns.length // each):,}, so there "
                f"are no steps {begin:,} to {end:,}: give an earlier span"
            )
        stop = min(stop, turns.length)
    before, after = turns.counts(first), turns.counts(stop)
    wanted = _wanted(mixture, first, stop)
    sources = []
    for i, (name, size) in enumerate(zip(mixture.names, mixture.sizes, strict=True)):
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
    return MixtureShares(begin, -(-stop // each), tuple(sources))


def _wanted(mixture: Mixture, first: int, stop: int) -> list[float]:
    """Return the shares by the weights, on average over the turns *first* to *stop*."""
    stages = tuple(WeightStage(*each) for each in mixture.stages)
    endless = Turns(stages, (None,) * len(mixture.names), seed=mixture.seed)
    ends = [*(each.begin for each in stages[1:]), None]
    sums = [0.0] * len(mixture.names)
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
