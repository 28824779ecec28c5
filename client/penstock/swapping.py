"""Graphs with other stages in the place of some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from penstock.graph import Node, stages


def swapped(root: Node, swap: Callable[[Node], Node]) -> Node:
    """Return the graph of *root* with each stage replaced by what *swap* makes of it.

    Stages stay the same objects where neither they nor what they read is another; one that is
    read twice is replaced by one.
    """
    done: dict[int, Node] = {}

    def of(value: Any) -> Any:
        if isinstance(value, Node):
            return done[id(value)]
        if isinstance(value, tuple) and any(isinstance(part, Node) for part in value):
            return tuple(map(of, value))
        return value

    for node in stages(root):
        done[id(node)] = swap(_with_inputs(node, of))
    return done[id(root)]


def _with_inputs(node: Node, of: Callable[[Any], Any]) -> Node:
    changed = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if each.init and "kind" not in each.metadata and (new := of(value)) is not value:
            changed[each.name] = new
    return replace(node, **changed) if changed else node
