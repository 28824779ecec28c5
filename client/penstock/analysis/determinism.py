"""Why a replayed element may differ: what makes a pipeline nondeterministic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from penstock.analysis.entropy import Draw
from penstock.analysis.function_scan import Findings, Use, look
from penstock.analysis.registered import Registered
from penstock.graph.node import Node, function_name
from penstock.graph.traversal import topological_order
from penstock.ops.sequence import Items

_SHOWN = 3


def nondeterminism(root: Node) -> tuple[str, ...]:
    """Return why the pipeline that ends in *root* is inexact; nothing if it is not.

    Each sentence names the operator, the problem and the remedy. No function of the user's is
    called, and no data is read.
    """
    found: dict[str, None] = {}
    for node, functions in _search(root):
        if node.unordered:
            found[_OVERTAKING.format(node.label)] = None
        if node.op == "distribute":
            found[_NESTED] = None
        if isinstance(node, Registered) and node.definition.nondeterministic:
            found[node.definition.nondeterministic] = None
        for name, findings in functions:
            found |= dict.fromkeys(_sentences(node, name, findings.uses))
    return tuple(found)


def unjudged(root: Node) -> tuple[str, ...]:
    """Return, a sentence for each operator, what `nondeterminism` did not look into."""
    return tuple(
        f"{node.label} calls {', '.join(findings.unjudged[:_SHOWN])}, an installed package that is "
        "not looked into: where that draws on chance or a clock, a replayed element is another one"
        for node, functions in _search(root)
        for _, findings in functions
        if findings.unjudged
    )


def _search(root: Node) -> Iterator[tuple[Node, list[tuple[str, Findings]]]]:
    """Yield each node, also of datasets inside functions, with the findings in its functions."""
    todo, seen = [root], {id(root)}
    for top in todo:
        for node in topological_order(top):
            functions = list(_functions(node))
            yield node, functions
            inside = [
                inner
                for _, findings in functions
                for inner in findings.datasets
                if id(inner) not in seen
            ]
            seen.update(map(id, inside))
            todo += inside


def _functions(node: Node) -> Iterator[tuple[str, Findings]]:
    """Yield the name of each function of *node*, with the findings in it."""
    for field in fields(node):
        if field.metadata.get("kind") == "function":
            value = getattr(node, field.name)
            value = value.given if isinstance(value, Items) else value
            name = function_name(value) if callable(value) else ""
            yield name, look(value, given_rng=bool(node.inputs))


def _sentences(node: Node, own: str, uses: tuple[Use, ...]) -> Iterator[str]:
    for draw in Draw:
        of_kind = [use for use in uses if use.drawing.draw is draw]
        if of_kind:
            yield _sentence(node, draw, of_kind, own)


def _sentence(node: Node, draw: Draw, uses: list[Use], own: str) -> str:
    """Return what function *own* of *node* draws."""
    names = list(dict.fromkeys(
        use.drawing.name + (f" (in {use.helper})" if use.helper not in ("", own) else "")
        for use in uses
    ))  # fmt: skip
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    match draw:
        case Draw.CHANCE:
            does, remedy = f"draws on {shown}", _remedy(node)
        case Draw.SHARED:
            does = f"draws on {shown}, a random generator that elements share"
            remedy = _remedy(node)
        case Draw.CLOCK:
            does = f"reads the clock by {shown}"
            remedy = "take the time before the pipeline begins, or after it"
    return f"{node.label} {does}, so that a replayed element is another one: {remedy}"


def _remedy(node: Node) -> str:
    if node.inputs:
        return "give the function a keyword-only parameter rng and draw from that"
    return (
        "draw from a generator that is seeded by the element's number, or in a map after it, from "
        "its function's keyword-only parameter rng"
    )


_OVERTAKING = (
    "{} lets elements overtake each other (deterministic=False), so that they come in another "
    "order when they are replayed: leave deterministic at True"
)

_NESTED = (
    "distribute inside a pipeline that runs on workers reads a job whose state no worker can save, "
    "so that replayed elements are others: put distribute on the training side only"
)
