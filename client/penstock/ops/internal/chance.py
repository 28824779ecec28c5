"""Which operators draw in each pass, so that a snapshot of their elements would freeze chance."""

from __future__ import annotations

from dataclasses import fields

from penstock.executors.function import wants_rng
from penstock.graph.node import Node


def drawn_by(node: Node) -> str:
    """Return why the elements of *node* are others in each pass, with the remedy; else nothing."""
    if not (why := _drawn_by(node)):
        return ""
    label = node.label
    return f"{label} {why}, which would be the same in all later passes: put {label} after it"


def _drawn_by(node: Node) -> str:
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
