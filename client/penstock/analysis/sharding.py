"""Which split providers a pipeline's sources draw from under dynamic sharding.

Each source has a provider of its own, but sources below a `zip` share one: every split of it gives
each of them the same units, so that pairs line up in every task. That holds as long as element k
of every branch comes from the same units of its source.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from penstock.analysis.index_selection import selected
from penstock.errors import DatasetError
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.ops.balance import BalancedRounds
from penstock.ops.batch import Batch
from penstock.ops.cache import Cache
from penstock.ops.follow import Follow
from penstock.ops.mixture import Mixture
from penstock.ops.padded_batch import PaddedBatch
from penstock.ops.repeat import Repeat
from penstock.ops.shuffle import Shuffle
from penstock.ops.snapshot import Snapshot
from penstock.ops.zip import Zip
from penstock.protocol.definition import ENDLESS, UNLISTED, Repeats, SplitProviderSpec
from penstock.protocol.splits import FilePattern

LEAST_CELL, MOST_CELLS = 16, 256
"""The fewest units of a snapshot's cell, and about how many cells a pass has: each is a folder."""

END_WITH_SPLITS = ("pack", "token_batches")
"""Operators that hold elements back, but none beyond the end of a split."""

LEAST_UNITS_TO_PACK = 2048
"""The fewest units that are packed by themselves: the last packs of each split are not full."""


@dataclass(frozen=True, slots=True)
class _Branch:
    """A source below a `zip`."""

    path: str
    source: Node
    group: int
    """How many of its elements make one element of the outermost zip."""
    elements: int
    """How many elements its branch gives to that zip; negative if it cannot be known."""


def split_providers(root: Node) -> tuple[SplitProviderSpec, ...]:
    """Return the streams of the pipeline that ends in *root*, sources first to last.

    Paths are those of the graph that tasks run; see `penstock.analysis.index_selection`.

    Raises:
        DatasetError: naming the operator or source that stands in the way, and the ways out.
    """
    run = divided(root)
    copied = bool(copied_operators(run))
    return tuple(replace(each, once_a_worker=copied) for each in _streams("", run, (), 1))


def divided(root: Node) -> Node:
    """Return the graph that tasks run which divide the elements of *root*.

    A snapshot in it knows how many units of its source are kept together.

    Raises:
        DatasetError: when an operator cannot be divided, with the ways out.
    """
    return rewritten(selected(root), _with_cell)


def _with_cell(node: Node) -> Node:
    if not isinstance(node, Snapshot) or node.cell:
        return node
    streams = list(_streams("", node.upstream, (), 1))
    return replace(node, cell=max(_cell(node.upstream, each) for each in streams))


def _cell(node: Node, stream: SplitProviderSpec) -> int:
    """Return how many units of *stream* make a cell of the elements of *node*.

    It is a function of the pipeline alone. A power of two fits the sizes of most batches. How many
    files there are is not known here; those that make one element each are probably small.
    """
    packs = any(each.op in END_WITH_SPLITS for each in topological_order(node))
    least = max(stream.align * LEAST_CELL, LEAST_UNITS_TO_PACK if packs else 0)
    if stream.units < 0:
        while node.one_to_one and node.inputs:
            node = node.inputs[0]
        return least if node.one_to_one else stream.align
    cell = stream.align
    while cell < least or cell * MOST_CELLS < stream.units:
        cell *= 2
    return cell


def copied_operators(root: Node) -> list[Node]:
    """Return the operators with an input that each task reads whole, sources first."""
    return [node for node in topological_order(root) if node.replicated is not None]


def assignments(providers: Iterable[SplitProviderSpec]) -> dict[str, int]:
    """Return the number of the stream that each source draws from, by the source's path."""
    return {source: i for i, stream in enumerate(providers) for source in stream.sources}


def per_task_operators(root: Node) -> list[Node]:
    """Return the operators that work on each task's stream by itself, sources first.

    Without those that make the same of divided elements as of all.
    """
    return [
        node for node in topological_order(selected(root)) if node.per_task and not _aligned(node)
    ]


def _streams(path: str, node: Node, repeats: Repeats, group: int) -> Iterator[SplitProviderSpec]:
    """Yield the streams of the sources at and below *node*, which are drawn *group* units each."""
    if isinstance(node, Zip):
        yield _lockstep(path, node, repeats, group)
    elif not node.inputs:
        units = _units(node)
        if repeats and isinstance(node, Follow) and node.count is None:
            raise DatasetError(
                "repeat: workers share a save that goes on until its end, which ends one pass: put "
                "repeat behind distribute, where each turn is a pass of its own"
            )
        align = group if _has_element_a_unit(node, units) else 1
        files = units if isinstance(units, FilePattern) else None
        units = units if isinstance(units, int) else UNLISTED
        mixture = node.outline if isinstance(node, Mixture) else None
        about = (units, files, _passes(repeats), align, repeats)
        yield SplitProviderSpec((path,), *about, mixture=mixture)
    else:
        if isinstance(node, Repeat):
            repeats = (*repeats, (path, INFINITE if node.count is None else node.count))
        group = _grouped(node, group)
        for i, upstream in enumerate(node.inputs):
            if i != node.replicated:
                below = _streams(f"{path}.{i}", upstream, repeats, group)
                yield from _in_cells(node, below) if isinstance(node, Snapshot) else below


def _in_cells(node: Snapshot, streams: Iterable[SplitProviderSpec]) -> Iterator[SplitProviderSpec]:
    """Yield *streams* with splits that have only whole cells of *node*."""
    for stream in streams:
        yield replace(stream, align=math.lcm(stream.align, node.cell or 1))


def _grouped(node: Node, group: int) -> int:
    """Return how many elements of its input make *group* of *node*; 1 if nothing tells."""
    if isinstance(node, (Batch, PaddedBatch)):
        return group * node.size
    if isinstance(node, BalancedRounds):
        return group * node.num_consumers
    return group if node.one_to_one or isinstance(node, Shuffle) else 1


def _aligned(node: Node) -> bool:
    """Return whether *node* makes batches, each of elements that are drawn together.

    Then tasks make as many batches as a local run, and only the last may be short.
    """
    return isinstance(node, (Batch, PaddedBatch)) and draws_whole_groups(node)


def draws_whole_groups(node: Node) -> bool:
    """Return whether tasks draw whole groups of the elements that *node* groups."""
    below = node
    while below.inputs and not isinstance(below, Zip):
        if not _grouped(below, 2) > 1:
            return False
        (below,) = below.inputs
    return isinstance(below, Zip) or _has_element_a_unit(below, below.units())


def balanced_for(root: Node) -> int | None:
    """Return for how many consumers `balance` orders the elements of *root*; None if it does not.

    Operators after it that change elements one by one keep its rounds.
    """
    node = root
    while node.one_to_one and node.inputs:
        (node,) = node.inputs
    return node.num_consumers if isinstance(node, BalancedRounds) else None


def _has_element_a_unit(source: Node, units: int | FilePattern | None) -> bool:
    if isinstance(units, FilePattern):
        return source.one_to_one
    return units is not None and source.cardinality in (units, INFINITE)


def _passes(repeats: Repeats) -> int:
    counts = [count for _, count in repeats]
    return INFINITE if INFINITE in counts and 0 not in counts else math.prod(counts)


def _lockstep(path: str, node: Zip, repeats: Repeats, group: int) -> SplitProviderSpec:
    branches = list(_branches(path, node, 1, None))
    _check_caches(node, repeats)
    groups = {branch.group for branch in branches}
    if len(groups) > 1:
        most, least = (pick(branches, key=_group) for pick in (max, min))
        raise DatasetError(
            f"zip: {most.source.label} is batched by {most.group} and {least.source.label} by "
            f"{least.group} before they meet, so their elements cannot be drawn in lockstep; "
            f"batch them alike, {_WAYS}"
        )
    align = groups.pop()
    cells = [each.cell or 1 for each in topological_order(node) if isinstance(each, Snapshot)]
    files = _files(branches)
    sizes = [branch.elements for branch in branches if branch.elements >= 0]
    units = UNLISTED if files else min([each * align for each in sizes], default=ENDLESS)
    paths = tuple(branch.path for branch in branches)
    align = math.lcm(align * group, *cells)
    return SplitProviderSpec(paths, units, files, _passes(repeats), align, repeats)


def _check_caches(node: Zip, repeats: Repeats) -> None:
    """Refuse a cache that is read again beside a source that draws other splits in that pass."""
    if any(count != 1 for _, count in repeats) and any(
        isinstance(stage, Cache) for stage in topological_order(node)
    ):
        raise DatasetError(
            "zip: cache stands between a source and zip, and is read again by repeat: under "
            "dynamic sharding a task keeps the elements of its first pass in it and draws others "
            f"beside it in the next, so that pairs would not line up; put cache after zip, {_WAYS}"
        )


def _group(branch: _Branch) -> int:
    return branch.group


def _branches(path: str, node: Node, group: int, elements: int | None) -> Iterator[_Branch]:
    """Yield the sources below a zip; *elements* is what this branch gives it, once known."""
    if not node.inputs:
        yield _Branch(path, _element_a_unit(node), group, _known(node, elements))
    elif isinstance(node, Zip):
        for i, upstream in enumerate(node.inputs):
            given = upstream.cardinality if elements is None else elements
            yield from _branches(f"{path}.{i}", upstream, group, given)
    elif isinstance(node, Batch):
        yield from _branches(f"{path}.0", node.upstream, group * node.size, elements)
    elif node.one_to_one:
        yield from _branches(f"{path}.0", node.inputs[0], group, elements)
    else:
        raise DatasetError(
            f"zip: {node.label} stands between a source and zip; under dynamic sharding the "
            "branches of zip are drawn in lockstep, so they may hold only what keeps one element "
            f"per element (map, enumerate, prefetch, cache, or equal batches): {_WAYS}"
        )


def _known(source: Node, elements: int | None) -> int:
    return source.cardinality if elements is None else elements


def _element_a_unit(source: Node) -> Node:
    if _has_element_a_unit(source, _units(source)):
        return source
    raise DatasetError(
        f"zip: what {source.label} is split by may hold any number of elements (lines of a file), "
        f"so they cannot be drawn in lockstep with others: {_WAYS}"
    )


def _files(branches: list[_Branch]) -> FilePattern | None:
    """Return the files that the branches share, if their units are files."""
    found = {
        units: branch.source
        for branch in branches
        for units in [branch.source.units()]
        if isinstance(units, FilePattern)
    }
    pattern = next(iter(found), None)
    alone = sum(isinstance(branch.source.units(), FilePattern) for branch in branches) == 1
    if pattern is None or alone:
        return pattern
    if len(found) > 1 or (pattern.shuffle and pattern.seed is None):
        raise DatasetError(
            f"zip: two {found[pattern].label} below it list their files in orders of their own, "
            f"so they cannot be drawn in lockstep: list the files once and map to both, {_WAYS}"
        )
    return pattern


def _units(source: Node) -> int | FilePattern:
    units = source.units()
    if units is None and source.on_workers is not None:
        raise DatasetError(
            "distribute inside a pipeline that is distributed itself cannot be split among workers "
            "once more, as dynamic sharding does: give the outer one ShardingPolicy.OFF "
            '(processing_mode="parallel_epochs"), and the inner one a job_name, which workers then '
            "share: each element comes once; or distribute the whole pipeline once"
        )
    if units is None:
        raise DatasetError(
            f"{source.label} cannot be split among workers, as dynamic sharding does: use "
            'processing_mode="parallel_epochs" (ShardingPolicy.OFF), where every worker reads all '
            "of it; or begin with a source that has an index (from_sequence, from_tensor_slices, "
            "list_files) and read in map, flat_map or interleave"
        )
    return units


_WAYS = (
    "zip the sources first and do the rest after it, or use "
    'processing_mode="parallel_epochs" (ShardingPolicy.OFF)'
)


def idle_caches(root: Node) -> list[Cache]:
    """Return the caches that keep less on workers than their users may expect.

    On a worker a cache in memory lasts as long as its task. So it serves a `repeat` after it, and
    no later pass. Without a repeat after it, it keeps nothing.
    """
    found: dict[int, Cache] = {}
    seen: set[tuple[int, bool]] = set()
    stack = [(root, False)]
    while stack:
        node, repeated = stack.pop()
        if (id(node), repeated) in seen:
            continue
        seen.add((id(node), repeated))
        if isinstance(node, Cache) and not node.filename and not repeated:
            found[id(node)] = node
        repeats = isinstance(node, Repeat) and node.count != 1
        stack += [(below, repeated or repeats) for below in node.inputs]
    return list(found.values())
