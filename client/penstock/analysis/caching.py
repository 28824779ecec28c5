"""Which caches of a pipeline keep nothing when workers run it."""

from __future__ import annotations

from penstock.graph.node import Node
from penstock.ops.cache import Cache
from penstock.ops.repeat import Repeat


def idle_caches(root: Node) -> list[Cache]:
    """Return the caches that keep less on workers than their users may expect.

    On a worker a cache lasts as long as its task. So it serves a `repeat` behind it, and no later
    pass: one without such a repeat keeps nothing, and a file is not there for later.
    """
    found: dict[int, Cache] = {}
    seen: set[tuple[int, bool]] = set()
    stack = [(root, False)]
    while stack:
        node, repeated = stack.pop()
        if (id(node), repeated) in seen:
            continue
        seen.add((id(node), repeated))
        if isinstance(node, Cache) and (node.filename or not repeated):
            found[id(node)] = node
        repeats = isinstance(node, Repeat) and node.count != 1
        stack += [(below, repeated or repeats) for below in node.inputs]
    return list(found.values())
