"""Static sharding: what each of a fixed number of tasks runs for its part of a pipeline.

FILE cuts the list of files that the nearest readers read, DATA the elements at the end, HINT where
the pipeline says so. Before the cut (`TaskShard`), all tasks make the same elements with the same
seed, so files that are shuffled there have the same order in all tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock.analysis.registered import Registered
from penstock.errors import DatasetError
from penstock.graph.node import OPERATORS, Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.ops.assert_cardinality import AssertCardinality
from penstock.ops.cache import Cache
from penstock.ops.concatenate import Concatenate
from penstock.ops.enumerate import Enumerate
from penstock.ops.filter import Filter, TakeWhile
from penstock.ops.flat_map import FlatMap
from penstock.ops.interleave import Interleave
from penstock.ops.internal.file_index import FileItems
from penstock.ops.internal.file_parts import FileSource
from penstock.ops.list_files import ListFiles
from penstock.ops.map import Map
from penstock.ops.prefetch import Prefetch
from penstock.ops.range import Range
from penstock.ops.repeat import Repeat
from penstock.ops.sequence import Sequence
from penstock.ops.shard import HINTED, Shard, TaskShard
from penstock.ops.shuffle import Shuffle
from penstock.ops.take import Skip, Take
from penstock.ops.unique import Unique
from penstock.ops.with_options import WithOptions
from penstock.ops.zip import Zip
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import Mode, SourceSlice

Count = Callable[[FilePattern], int]
"""How many files there are of a pattern."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of *shards* parts: that with the number *index*."""

    shards: int
    index: int


def sharded(root: Node, mode: Mode, part: Part, count: Count | None = None) -> Node:
    """Return what a task runs for its *part* of *root*. Without *count* no files are counted.

    Raises:
        DatasetError: naming what cannot be divided so, and the ways out.
    """
    match mode:
        case Mode.FILE:
            try:
                return _ByFile(part, count).cut(root)
            except _CannotCutError as exc:
                raise DatasetError(f"ShardingPolicy.FILE: {exc}") from None
        case Mode.DATA:
            return _by_data(root, part, "DATA")
        case Mode.FILE_OR_DATA:
            try:
                return _ByFile(part, count).cut(root)
            except _CannotCutError:
                return _by_data(root, part, "FILE_OR_DATA")
        case Mode.HINT:
            return _by_hint(root, part)
        case _:
            return root


def check(root: Node, mode: Mode) -> None:
    """Check all that is known of *root* before it runs, and before workers are counted.

    Of a pipeline that is registered and not here workers say it, who have it.

    Raises:
        DatasetError: when it cannot be divided in this mode, or has a hint for another one.
    """
    if isinstance(root, Registered):
        return
    if mode is not Mode.HINT and any(map(_is_hint, topological_order(root))):
        raise DatasetError(HINTED)
    sharded(root, mode, _SOME)


def divided_operators(root: Node, mode: Mode) -> list[Node]:
    """Return the operators that work on each task's own part, sources first.

    Of `Mode.FILE_OR_DATA` those if there are files enough.
    """
    apart: set[int] = set()
    found: list[Node] = []
    if isinstance(root, Registered):
        return found
    for node in topological_order(sharded(root, mode, _SOME)):
        cut = isinstance(node, TaskShard)
        if cut or any(id(below) in apart for below in node.inputs):
            apart.add(id(node))
            if node.per_task and not cut:
                found.append(node)
    return found


_SOME = Part(2, 0)


class _CannotCutError(Exception):
    """A pipeline cannot be divided by its files; says why."""


class _ByFile:
    """Divides a pipeline by the files that it reads."""

    def __init__(self, part: Part, count: Count | None) -> None:
        self._part, self._count = part, count

    def cut(self, node: Node) -> Node:
        """Return what a task runs for *node*."""
        if _lists(node):
            return self._shard(node)
        if isinstance(node, FileSource):
            return self._files(node)
        if isinstance(node, (FlatMap, Interleave)) and (
            _lists(node.upstream, mapped=True) or _reads_files(node.fn)
        ):
            return replace(node, upstream=self._shard(node.upstream))
        if not node.inputs:
            raise _CannotCutError(f"{node.label} {_why_undivided(node)}: {_WAYS}")
        if isinstance(node, AssertCardinality):
            return self.cut(node.upstream)  # each part has another number of elements
        return self._below(node)

    def _below(self, node: Node) -> Node:
        """Return *node* with each branch cut that is not for all tasks."""
        whole = None if node.replicated is None else node.inputs[node.replicated]
        changed: dict[str, Any] = {}
        for field in fields(node):
            value = getattr(node, field.name)
            if "kind" in field.metadata or not field.init or value is whole:
                continue
            if isinstance(value, Node):
                changed[field.name] = self.cut(value)
            elif isinstance(value, tuple) and any(isinstance(each, Node) for each in value):
                changed[field.name] = tuple(
                    self.cut(each) if isinstance(each, Node) else each for each in value
                )
        return replace(node, **changed)

    def _shard(self, names: Node) -> Node:
        _check_ordered(names, "FILE")
        self._check_enough(names)
        return _task_shard(names, self._part)

    def _files(self, node: FileSource) -> Node:
        self._check_enough(node)
        part = self._part
        if self._count is None:
            return _task_shard(node, part)  # the same node, whoever asks for its stages
        return node.some(SourceSlice(part.index, None, part.shards))

    def _check_enough(self, names: Node) -> None:
        if self._count is None:
            return
        number = _number(names, self._count)
        if 0 <= number < self._part.shards:
            raise _CannotCutError(
                f"{names.label} gives {number} file{'s' * (number != 1)}, and worker_addresses of "
                f"the dispatcher has {self._part.shards} workers, each of which reads files of its "
                f"own: make more, smaller files, or {_WAYS}"
            )


def _by_data(root: Node, part: Part, policy: str) -> Node:
    """Return what a task runs that keeps its part of the elements at the end."""
    if isinstance(root, (Prefetch, WithOptions)):
        return replace(root, upstream=_by_data(root.upstream, part, policy))
    _check_ordered(root, policy)
    return _task_shard(root, part)


def _by_hint(root: Node, part: Part) -> Node:
    hints = [node for node in topological_order(root) if _is_hint(node)]
    if not hints:
        raise DatasetError(
            "ShardingPolicy.HINT: the pipeline has no shard(SHARD_HINT, 0), which says where it "
            "is to be divided: put one there, or use ShardingPolicy.DATA, which divides it at its "
            "end"
        )
    for hint in hints:
        _check_ordered(hint.inputs[0], "HINT")
    return rewritten(
        root, lambda node: _task_shard(node.inputs[0], part) if _is_hint(node) else node
    )


def _task_shard(upstream: Node, part: Part) -> Node:
    return upstream if part.shards == 1 else TaskShard(upstream, part.shards, part.index)


def _is_hint(node: Node) -> bool:
    return isinstance(node, Shard) and node.is_hint


def _check_ordered(upstream: Node, policy: str) -> None:
    """Refuse elements of which each task would number others."""
    for node in topological_order(upstream):
        if node.on_workers is not None:
            raise DatasetError(
                f"ShardingPolicy.{policy}: {node.label} reads from workers before the elements are "
                "divided, and each task would get them in an order of its own: give the outer "
                'distribute ShardingPolicy.OFF (processing_mode="parallel_epochs"), and the inner '
                "one a job_name, which workers then share; or distribute the whole pipeline once"
            )
        if node.unordered:
            raise DatasetError(
                f"ShardingPolicy.{policy}: {node.label} lets elements overtake each other "
                "(deterministic=False), so that tasks would not agree which elements are whose: "
                "leave deterministic at True before the elements are divided"
            )


_PASSED_ON = Cache, Enumerate, Prefetch, Shuffle, WithOptions
_CHOSEN = Filter, Repeat, Shard, Skip, Take, TakeWhile, Unique


def _lists(node: Node, *, mapped: bool = False) -> bool:
    """Return whether the elements of *node* are names of listed files; *mapped*: made of them."""
    if isinstance(node, ListFiles):
        return True
    kinds = (*_PASSED_ON, *_CHOSEN, Concatenate, Zip, *([Map] if mapped else []))
    return isinstance(node, kinds) and all(_lists(below, mapped=mapped) for below in node.inputs)


def _reads_files(fn: Any) -> bool:
    """Return whether *fn*, which makes datasets of elements, is seen to read files."""
    kinds = map(OPERATORS.get, _names(fn))  # a source is loaded when it is used
    return any(kind is not None and issubclass(kind, FileSource) for kind in kinds)


def _why_undivided(source: Node) -> str:
    if isinstance(source, Sequence) and isinstance(source.sequence, FileItems):
        return (
            "finds elements by their numbers, as mixture and global_shuffle need, and these "
            "numbers are of all files together"
        )
    return "reads no files, so there are none to divide"


def _names(fn: Any) -> Iterator[str]:
    while hasattr(fn, "func"):
        fn = fn.func
    if "penstock" in (getattr(fn, "__module__", None) or ""):
        yield getattr(fn, "__name__", "")
    code = getattr(fn, "__code__", None)
    if code is not None:
        yield from code.co_names


def _number(names: Node, count: Count) -> int:
    """Return how many elements a list of files has; negative if only running it can tell."""

    def counted(node: Node) -> Node:
        pattern = None if node.inputs else node.units()
        return Range(0, count(pattern), 1) if isinstance(pattern, FilePattern) else node

    return rewritten(names, counted).cardinality


_WAYS = (
    "use ShardingPolicy.DATA, where each worker makes all elements and keeps its part, or "
    "FILE_OR_DATA, which does that by itself; or ShardingPolicy.DYNAMIC"
)
