"""Finds the mixtures of a pipeline, and the turns that its steps take. It reads nothing."""

from __future__ import annotations

from collections.abc import Iterator
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
from penstock.protocol.turn_shares import MixtureShares, shares_between


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
    found = tuple(
        shares_between(mixture.turns(), mixture.names, begin * each, end * each, each)
        for mixture, each in _mixtures(root, 1)
    )
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
