"""Why a pipeline's elements cannot be stored for other passes: what would be frozen."""

from __future__ import annotations

from penstock.analysis.determinism import nondeterminism
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.graph.node import INFINITE, Node
from penstock.graph.traversal import rewritten, topological_order
from penstock.ops.cache import Cache
from penstock.ops.internal.chance import drawn_by
from penstock.ops.snapshot import Snapshot
from penstock.saved.folder import folder_of


def why_not_stored(root: Node) -> str:
    """Return why later passes must not read the elements of *root* from a store; else nothing.

    The sentence names the operator and the remedy. No function of the user's is called.
    """
    if root.cardinality == INFINITE:
        return "the dataset is infinite: put repeat after it, or take a part, as take(1_000_000)"
    for node in topological_order(root):
        if node.on_workers is not None:
            return f"{node.label} reads elements as workers send them: keep them before it"
        if why := drawn_by(node):
            return why
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
