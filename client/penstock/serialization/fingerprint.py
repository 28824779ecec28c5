"""Fingerprints: the same pipeline has the same one in every process, on every host.

They are made from the plain structure, the bytecode of functions with the values these hold, and
the content of arrays; never from pickles, paths, line numbers or hash order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields
from typing import Protocol

from penstock.graph.node import Node, counts, nodes_in
from penstock.graph.traversal import topological_order
from penstock.protocol.definition import NodePrint, PipelineOutline, chain_of
from penstock.serialization.code_parts import ATOMS
from penstock.serialization.digest import ContentKeys, Digester

log = logging.getLogger("penstock")

_MOST_PARTS = 64
_SHORT = 4


class HasOutline(Protocol):
    """Something that has an outline: a definition."""

    @property
    def outline(self) -> PipelineOutline:
        """The outline."""


def fingerprint(node: Node) -> str:
    """Return 32 hex digits that are equal for pipelines that were written alike."""
    digester = Digester(ContentKeys())
    digest = digester.digest(node).hex()
    _report(node, digester)
    return digest


def outline(node: Node, keys: ContentKeys | None = None) -> PipelineOutline:
    """Return the fingerprint of *node* with what `explain_difference` needs."""
    digester = Digester(keys or ContentKeys())
    digest = digester.digest(node).hex()
    _report(node, digester)
    return PipelineOutline(
        digest, tuple(_stage_print(stage, digester) for stage in topological_order(node))
    )


def explain_difference(first: Node | HasOutline, second: Node | HasOutline) -> str:
    """Return in a sentence how *second* differs from *first*; empty if it does not."""
    a, b = (outline(each) if isinstance(each, Node) else each.outline for each in (first, second))
    if a.fingerprint == b.fingerprint:
        return ""
    ops = [[stage.op for stage in each.stages] for each in (a, b)]
    if ops[0] != ops[1]:
        return f"the operators differ: {chain_of(ops[0])} in one, {chain_of(ops[1])} in the other"
    for one, other in zip(a.stages, b.stages, strict=True):
        for difference in _differences(one, other):
            return difference
    return "the operators are the same but are put together in another way"


def _differences(one: NodePrint, other: NodePrint) -> Iterator[str]:
    yield from _other_contents(one, other)
    for name in sorted({*one.values, *other.values}):
        values = [each.values.get(name, "something else") for each in (one, other)]
        if values[0] != values[1]:
            yield f"{one.label}: {name} is {values[0]} in one and {values[1]} in the other"
    names = list({**one.digests, **other.digests})
    different = [name for name in names if one.digests.get(name) != other.digests.get(name)]
    # Of a function and its parts, the parts say more.
    for name in sorted(different, key=lambda name: (":" not in name, names.index(name))):
        what = name.partition(": ")[2] or f"parameter {name}"
        label = one.label if one.label == other.label else f"{one.label}, now {other.label}"
        yield f"{label}: {what} differs"


def _other_contents(one: NodePrint, other: NodePrint) -> Iterator[str]:
    for name in sorted({*one.details, *other.details}):
        told = [each.details.get(name, "not read") for each in (one, other)]
        if told[0] != told[1]:
            yield f"{one.label}: the {name} is {told[0]} in one and {told[1]} in the other"


def _stage_print(node: Node, digester: Digester) -> NodePrint:
    values: dict[str, str] = {}
    digests: dict[str, str] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if not counts(node, each) or ("kind" not in each.metadata and any(nodes_in([value]))):
            continue
        if type(value) in ATOMS:
            values[each.name] = repr(value)
            continue
        digests[each.name] = digester.digest(value).hex()[: 2 * _SHORT]
        for name, part in digester.parts(value).children[:_MOST_PARTS]:
            digests[f"{each.name}: {name}"] = digester.digest(part).hex()[: 2 * _SHORT]
    return NodePrint(node.op, node.label, values, digests, dict(node.details))


def _report(node: Node, digester: Digester) -> None:
    if digester.opaque:
        log.warning(
            "the pipeline that ends in %s holds values that are compared by type and name only: %s",
            node.label,
            ", ".join(sorted(digester.opaque)),
        )
