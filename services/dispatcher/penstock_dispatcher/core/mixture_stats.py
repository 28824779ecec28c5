"""How far the mixtures of a pass are: wanted and real shares of their sources, for status calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from penstock.protocol.definition import ENDLESS
from penstock.protocol.mixture import WeightStage
from penstock_dispatcher.core.mixture_record import MixtureRecord
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.split_provider import SplitProvider
from penstock_dispatcher.core.stats import (
    MixturePlan,
    MixtureSourceStats,
    MixtureSpan,
    MixtureStats,
)

SPANS = 16
"""The most changes that are counted by themselves, the newest."""


STAGES = 128
"""The most stages of the weights that are told, the newest."""


def mixtures_of(iteration: IterationRecord) -> tuple[MixtureStats, ...]:
    """Return how far the mixtures of a pass are. A pass that is over has none."""
    return tuple(
        _stats(iteration, number, provider, provider.mixture)
        for number, provider in enumerate(iteration.providers)
        if provider.mixture is not None
    )


def _stats(
    iteration: IterationRecord, number: int, provider: SplitProvider, mixture: MixtureRecord
) -> MixtureStats:
    current, turn = provider.reading, mixture.turn_at(provider.offset)
    if current != provider.pass_number:  # all of the last pass was granted
        units = mixture.units(current, ENDLESS)
        turn = units[-1] + 1 if units else 0
    handed = mixture.counts(current, turn)
    open_ = _unacked(iteration, number, mixture, current)
    stages = mixture.stages(current, turn)
    wanted = _shares(next(each for each in reversed(stages) if each.begin <= turn))
    turns, sizes = mixture.turns(current, turn), mixture.outline.sizes
    sources = (
        MixtureSourceStats(
            name,
            wanted[i],
            handed[i],
            max(0, handed[i] - open_[i]),
            sizes[i],
            handed[i] // (sizes[i] or ENDLESS),
            turns.next_repeat(i, turn),
        )
        for i, name in enumerate(mixture.outline.names)
    )
    spans = tuple(_spans(mixture, current, turn))
    return MixtureStats(current, turn, tuple(sources), spans, _plan(mixture, current))


def _plan(mixture: MixtureRecord, current: int) -> MixturePlan:
    outline, stages = mixture.outline, mixture.stages(current, 0)[-STAGES:]
    if stages[0].begin:
        before = mixture.counts(current, stages[0].begin)
        stages = (replace(stages[0], before=before), *stages[1:])
    return MixturePlan(stages, outline.stop, outline.max_epochs, outline.seed)


def _shares(stage: WeightStage) -> tuple[float, ...]:
    total = sum(stage.parts)
    return tuple(round(part / total, 6) for part in stage.parts)


def _unacked(
    iteration: IterationRecord, number: int, mixture: MixtureRecord, current: int
) -> list[int]:
    """Return how many turns each source has in splits of which not everything was acked."""
    found = []
    for task in iteration.tasks.values():
        splits = task.logs[number].splits
        pass_number = task.ended[number] - sum(not split for split in splits)
        for split in splits:
            if split and pass_number == current:
                found.append((split.start, split.stop))
            pass_number += not split
    left = [0] * len(mixture.outline.names)
    for start, stop in _merged(found):
        before = mixture.counts(current, mixture.turn_at(start))
        after = mixture.counts(current, mixture.turn_at(stop - 1) + 1)
        left = [n + b - a for n, a, b in zip(left, before, after, strict=True)]
    return left


def _merged(spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield *spans* in order, with those in one that touch."""
    begin = end = -1
    for start, stop in sorted(spans):
        if start != end:
            if begin < end:
                yield begin, end
            begin = start
        end = stop
    if begin < end:
        yield begin, end


def _spans(mixture: MixtureRecord, current: int, turn: int) -> Iterator[MixtureSpan]:
    """Yield the spans of turns between changes, the newest ones, with what was handed out."""
    changes = [each.stage for each in mixture.changes if each.pass_number == current]
    stages = changes
    if not changes or changes[0].begin:
        stages = [mixture.stages(current, 0)[0], *changes]
    stages = stages[-SPANS:]
    ends = [each.begin for each in stages[1:]]
    begins = [min(each.begin, turn) for each in stages] + [turn]
    counts = [mixture.counts(current, at) for at in begins]
    for stage, end, (before, after) in zip(stages, [*ends, None], pairwise(counts), strict=True):
        handed = tuple(b - a for a, b in zip(before, after, strict=True))
        yield MixtureSpan(stage.begin, end, _shares(stage), handed)
