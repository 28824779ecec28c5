"""Whether the elements of a pipeline have one order, however many workers make them.

They do if each split makes its elements by itself: then the order is that of the splits, and within
a split that of the pipeline. Random numbers are drawn split by split, too, and packs end with their
split. If there may be any, all splits have one size, which the pipeline alone determines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeAlias

from penstock.analysis.index_selection import selected
from penstock.analysis.sharding import (
    END_WITH_SPLITS,
    LEAST_UNITS_TO_PACK,
    draws_whole_groups,
    per_task_operators,
    split_providers,
)
from penstock.errors import DatasetError
from penstock.executors.function import wants_rng
from penstock.graph.node import Node
from penstock.graph.traversal import topological_order
from penstock.ops.balance import BalancedRounds
from penstock.ops.follow import Follow
from penstock.ops.mixed_streams import MixedStreams
from penstock.ops.mixture import Mixture
from penstock.ops.repeat import Repeat
from penstock.ops.snapshot import Snapshot
from penstock.ops.write_chunks import WriteChunks
from penstock.protocol.definition import ENDLESS, SplitProviderSpec

MOST_SPLITS = 1024
"""About how many splits of one size a source of more units has: each costs milliseconds."""

SPLITS_TO_SAVE = 64
"""About how many splits a save has at least, if there are as many units: workers share them."""

UNITS_TO_SAVE = 4096
"""The fewest units of its splits, if there are more splits than that."""

LEAST_UNITS = 16
"""The fewest units of a split of one size: of a short pass the splits would cost most."""


def why_unordered(root: Node, providers: Sequence[SplitProviderSpec]) -> str:
    """Return why elements of the pipeline that ends in *root* have no one order; else nothing.

    *providers* are its split providers. No function of the user's is called.
    """
    found = _obstacle(root, providers)
    return "" if found is None else _UNORDERED.format(*found)


def check_snapshots(root: Node) -> None:
    """Check that each split makes by itself what a snapshot in *root* keeps of it.

    Raises:
        DatasetError: naming the operator in the way, and the remedies.
    """
    for node in topological_order(selected(root)):
        if isinstance(node, Snapshot):
            found = _obstacle(node.upstream, split_providers(node.upstream))
            if found is not None:
                raise DatasetError(_UNKEPT.format(*found))


_Obstacle: TypeAlias = tuple[str, str, str]
"""The label of an operator; why it needs more than one split; the remedy."""


def _obstacle(root: Node, providers: Sequence[SplitProviderSpec]) -> _Obstacle | None:
    """Return why a split of *root* does not make its elements by itself, if it does not."""
    nodes = topological_order(selected(root))
    if refused := _refused(nodes):
        return refused
    for node in per_task_operators(root):
        if node.op in END_WITH_SPLITS:
            continue
        if isinstance(node, BalancedRounds):
            if draws_whole_groups(node):
                continue
            return _refusal(node, *_UNEVEN)
        return _refusal(node, "keeps something across splits", "put it behind distribute")
    if len(providers) == 1:
        return None
    joining = next((node for node in nodes if len(node.inputs) > 1), root)
    return _refusal(
        joining,
        "joins sources that are split apart from each other",
        "put it behind distribute, or read one list of all files",
    )


def _refused(nodes: Sequence[Node]) -> _Obstacle | None:
    """Return why one of *nodes* makes no order, wherever it stands, if one does not."""
    for node in nodes:
        if isinstance(node, MixedStreams):  # its inputs are not to blame
            return _refusal(
                node,
                f"mixes what each task reads, because {node.obstacle}",
                'count elements (unit="elements") of datasets with an index, such as range, '
                "from_sequence or Parquet, and shuffle these by global_shuffle",
            )
    for node in nodes:
        if node.unordered:
            return _refusal(
                node,
                "lets elements overtake each other (deterministic=False)",
                "leave deterministic at True",
            )
        if node.op in _KEEPS and not (isinstance(node, Repeat) and node.count == 1):
            return _refusal(node, *_KEEPS[node.op])
        if isinstance(node, Follow) and node.count is None:
            return _refusal(node, *_GROWS)
    return None


def with_grids(root: Node, providers: Sequence[SplitProviderSpec]) -> tuple[SplitProviderSpec, ...]:
    """Return *providers*, with the size of splits where elements may depend on it.

    Chance may, packs, and a mixture: its weights may change, and its inputs may drop elements. So
    may the chunks of a saved dataset.
    """
    nodes = topological_order(selected(root))
    turns = [node.turns_per_task for node in nodes if isinstance(node, Mixture)]
    packs = any(node.op in END_WITH_SPLITS or isinstance(node, BalancedRounds) for node in nodes)
    least = LEAST_UNITS_TO_PACK if packs else LEAST_UNITS
    if not turns and not packs and not any(map(_may_draw, nodes)):
        if not any(isinstance(node, WriteChunks) for node in nodes):
            return tuple(providers)
        least = 0
    return tuple(
        one if one.files is not None else replace(one, grid=_grid(one, turns, least))
        for one in providers
    )


def _grid(provider: SplitProviderSpec, turns: list[int], least_units: int) -> int:
    """Return the size of splits; 0 *least_units* is as few as many workers need."""
    if turns:
        return max(1, min(turns) // provider.align) * provider.align
    group = provider.align * MOST_SPLITS
    least_units = least_units or max(1, min(UNITS_TO_SAVE, -(-provider.units // SPLITS_TO_SAVE)))
    least = -(-least_units // provider.align)
    if provider.units >= ENDLESS >> 20:  # such a part would never end
        return least * provider.align
    return max(least, -(-provider.units // group)) * provider.align


def _may_draw(node: Node) -> bool:
    """Return whether what *node* yields may depend on the number of an element in its split."""
    if node.op in _INNER:
        return True
    values = (
        getattr(node, field.name)
        for field in fields(node)
        if field.metadata.get("kind") == "function"
    )
    return bool(node.inputs) and any(callable(value) and wants_rng(value) for value in values)


def _refusal(node: Node, why: str, remedy: str) -> _Obstacle:
    return node.label, why, remedy


_UNORDERED = (
    "ordered=True: {0} {1}, so that workers do not agree on one order: {2}, or leave ordered at "
    "False"
)

_UNKEPT = (
    "snapshot: {0} {1}, and workers keep the elements of each split by themselves: put it behind "
    'the snapshot, or use processing_mode="parallel_epochs", where each worker makes all elements'
)

_UNEVEN = (
    "makes rounds of elements of which each split may have another number",
    "put it directly after a source with an index (and map)",
)
_KEPT = "keeps something across splits"
_KEEPS = {
    "shuffle": (
        _KEPT,
        "use global_shuffle, where the source has an index, or put it behind distribute",
    ),
    "repeat": (_KEPT, "put it behind distribute, where each turn is a pass of its own"),
    "cache": (_KEPT, "put it behind distribute"),
}
_GROWS = (
    "reads a save whose end is not known yet",
    "load it when it is complete, or give at= a version",
)
_INNER = ("flat_map", "interleave")
