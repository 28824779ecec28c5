"""The epochs to which users set the sources of a pipeline, as `set_epoch` of Hugging Face does."""

from __future__ import annotations

from dataclasses import fields
from typing import Protocol, runtime_checkable

from penstock.graph.node import Node
from penstock.graph.traversal import topological_order


@runtime_checkable
class HasEpoch(Protocol):
    """A user's object in a node that a training loop sets to an epoch before each pass."""

    @property
    def epoch(self) -> int:
        """The epoch."""


def epochs_of(root: Node) -> tuple[int, ...]:
    """Return the epochs of the sources of the pipeline that ends in *root*, in their order."""
    return tuple(
        value.epoch
        for node in topological_order(root)
        for each in fields(node)
        if each.metadata.get("kind") == "function"
        for value in [getattr(node, each.name)]
        if type(value).__module__.startswith("penstock.") and isinstance(value, HasEpoch)
    )
