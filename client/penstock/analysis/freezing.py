"""Why a pipeline's elements cannot be stored for other passes: what would be frozen."""

from __future__ import annotations

from dataclasses import fields

from penstock.analysis.determinism import nondeterminism
from penstock.errors import DatasetError
from penstock.executors.function import wants_rng
from penstock.extras import needed
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.ops.cache import Cache
from penstock.ops.snapshot import Snapshot
from penstock.saved.folder import folder_of


def why_not_stored(root: Node) -> str:
    """Return why later passes must not read the elements of *root* from a store; else nothing.

    The sentence names the operator and the remedy. No function of the user's is called.
    """
    if root.cardinality == INFINITE:
        return "the dataset is infinite: put repeat behind it, or take a part, as take(1_000_000)"
    for node in topological_order(root):
        if node.on_workers is not None:
            return f"{node.label} reads elements as workers send them: put it behind"
        if why := _draws(node):
            return f"{node.label} {why}, which would be the same in all later passes: put it behind"
    return next(iter(nondeterminism(root)), "")


def with_shared_caches(root: Node) -> Node:
    """Return the pipeline that workers run for *root*: a `cache` with a path is a snapshot there.

    Raises:
        DatasetError: when its elements cannot be kept, naming the operator and the remedy.
    """
    return rewritten(root, _shared)


def _shared(node: Node) -> Node:
    if not isinstance(node, Cache) or not node.filename:
        return node
    if why := why_not_stored(node.upstream):
        raise DatasetError(f"cache({node.filename!r}) before distribute: {why}")
    needed("pyarrow", "cache(filename) before distribute")
    folder_of("cache", node.filename)
    return Snapshot(node.upstream, node.filename, "zstd", 64 << 20)


def _draws(node: Node) -> str:
    """Return in words what *node* draws in each pass; nothing if it has its seed from the user."""
    is_random = node.op in _SEEDED or (node.op == "list_files" and getattr(node, "shuffle", False))
    if node.op in _MIXTURES:
        return "has weights that may change while it is read"
    if is_random and (getattr(node, "seed", None) is None or getattr(node, "reshuffle", False)):
        return "draws a new order or new numbers in each pass"
    functions = [
        getattr(node, each.name) for each in fields(node) if each.metadata.get("kind") == "function"
    ]
    if any(callable(function) and wants_rng(function) for function in functions):
        return "draws random numbers in each pass"
    return ""


_SEEDED = frozenset({"shuffle", "global_shuffle", "random", "sample_from_datasets"})
_MIXTURES = frozenset({"mixture", "mixed_streams"})
