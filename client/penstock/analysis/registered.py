"""The node of a pipeline that is registered by id, and is not in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.analysis.array_spec import ArraySpec, Spec, Specs
from penstock.element import Element, leaves, map_leaves, own_nest, text_array
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.options import Options
from penstock.protocol.definition import Definition

SAMPLES = 1 << 16
"""How many elements are made up, so that operators find enough of them, and filters an end."""

ANY_LENGTH = 3
"""How long axes of them are that may have any length."""


@dataclass(frozen=True, eq=False)
class Registered(Node):
    """The pipeline that *definition* describes; *specs* are of its elements, if they are known.

    It runs on workers. In this process only `element_spec` opens it, for the operators after it.
    Then it yields elements with its spec that hold zeros.
    """

    op: ClassVar[str] = "from_dataset_id"
    dataset_id: str
    definition: Definition
    specs: Specs | None

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return self.definition.cardinality

    @property
    def options(self) -> Options:
        """See `Node.options`: what the pipeline's own say of its guarantee."""
        given = (stage.params.get("external_state_policy") for stage in self.definition.stages)
        policies = [policy for policy in given if policy is not None]
        return Options(external_state_policy=policies[-1] if policies else None)

    def lengths(self, spec: Spec) -> list[int]:
        """Return how long first axes are here that *spec* says may differ."""
        if self.specs is None:
            return []
        pairs = zip(leaves(self.specs.whole), leaves(spec), strict=True)
        return [
            one.shape[0] or ANY_LENGTH
            for one, other in pairs
            if other.shape and other.shape[0] is None
        ]

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002
        """See `Node.open`."""
        if self.specs is None:
            raise DatasetError(
                f"element_spec: what the elements of dataset_id {self.dataset_id!r} look like is "
                "not known, for no element could be made where it was registered: give "
                "element_spec=... to register_dataset, or to from_dataset_id"
            )
        return samples(self.specs.whole, state)


def samples(spec: Spec, state: State) -> OpIterator:
    """Return a run over elements that look as *spec* says and hold zeros."""
    return _SamplesIterator(map_leaves(_sample, spec), state or 0)


class _SamplesIterator(OpIterator):
    def __init__(self, sample: Element, made: int) -> None:
        self._sample, self._made = sample, made

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        count = min(n, SAMPLES - self._made)
        self._made += count
        return [own_nest(self._sample) for _ in range(count)]

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        made = self._made
        return lambda back: made - back


def _sample(leaf: ArraySpec) -> Any:
    """Return an array, a scalar or a text that looks like *leaf*."""
    make: Callable[[], Any] | None = leaf.dtype if isinstance(leaf.dtype, type) else None
    shape = [ANY_LENGTH if length is None else length for length in leaf.shape]
    if make is None:
        return np.zeros(shape, leaf.dtype)[()]
    if not shape:
        return make()
    return text_array([make()] * int(np.prod(shape))).reshape(shape)
