"""The places of a pipeline at which elements could be kept, from the source to the end."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.analysis.freezing import why_not_stored
from penstock.autocache.measured import ChainStep
from penstock.graph.node import Node
from penstock.ops.repeat import Repeat
from penstock.ops.with_options import WithOptions


@dataclass(frozen=True, slots=True)
class Place:
    """The place after *node*."""

    node: Node
    visits: float
    """How often a pass reads it."""
    refusal: str
    """Why elements cannot be kept here; empty if they can."""
    step: ChainStep
    is_cut: bool
    """Whether it is a cut: after an operator that only passes elements on, it would add nothing."""
    is_kept: bool
    """Whether the pipeline itself keeps these elements for later passes."""


def places_of(root: Node, passes: int) -> tuple[Place, ...]:
    """Return the places of the pipeline that ends in *root*, from the source to the end.

    They begin at the last operator that has several inputs, if there is one. If the pipeline
    repeats without end, its elements are read *passes* times.
    """
    places: list[Place] = []
    visits, path, row, barrier = 1.0, "", "", ""
    node, is_kept = root, False
    while True:
        if isinstance(node, WithOptions):  # which runs as the operator before it
            node, path = node.upstream, f"{path}.0"
            continue
        is_source = len(node.inputs) != 1
        is_kept = is_kept or node.op in _KEEPS
        refusal = barrier or (_KEPT if is_kept else why_not_stored(node))
        step = ChainStep(path, row, node.one_to_one or node.keeps_count, is_source)
        places.append(Place(node, visits, refusal, step, node.op != "prefetch", is_kept))
        if is_source:
            return tuple(reversed(places))
        if isinstance(node, Repeat):
            visits *= passes if node.count is None else max(1, node.count)
        if node.op in _ENDS_EARLY:
            barrier = f"{node.label} may stop before the last element"
        node, path = node.inputs[0], f"{path}.0"
        row = path


_KEEPS = ("cache", "snapshot")
_ENDS_EARLY = ("take", "take_while")
_KEPT = "the pipeline keeps these elements itself"
