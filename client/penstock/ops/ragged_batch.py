"""`ragged_batch`: consecutive elements, arrays of different lengths as one. State: as `batch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.element import Element, collate, describe, shown, unlike, with_parts
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.engine.rows import elements_of
from penstock.errors import DatasetError, ElementError
from penstock.ops.batch import Batch, GroupsIterator
from penstock.ops.internal.input_buffer import InputBuffer
from penstock.ragged import Ragged


@dataclass(frozen=True, eq=False)
class RaggedBatch(Batch):
    """Runs of *size* consecutive elements; arrays become rows of a `Ragged`, the rest is stacked.

    *names* are the keys whose arrays do; None is all arrays.
    """

    op: ClassVar[str] = "ragged_batch"
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.names
        if names is None:
            return
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise DatasetError(
                f"ragged_batch: fields must be a list of keys, as in fields=['tokens'], and not "
                f"{shown(names)}"
            )
        object.__setattr__(self, "names", tuple(names))

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        held, names = InputBuffer(context, self.upstream, state), self.names
        return GroupsIterator(
            held, self.size, self.drop_remainder, lambda run: _batch(elements_of(run), names)
        )


def _batch(elements: Sequence[Element], names: Sequence[str] | None) -> Element:
    first = elements[0]
    if (other := unlike(elements)) is not None:
        raise ElementError(
            f"ragged_batch: elements of one batch must have one structure, but {describe(first)} "
            f"is followed by {describe(other)}: map them to one first"
        )
    if names is None:
        return _ragged(elements)
    missing = [name for name in names if not isinstance(first, dict) or name not in first]
    if missing:
        raise ElementError(
            f"ragged_batch: elements have no field {missing[0]!r}, they are {describe(first)}: "
            "name fields that they have"
        )
    columns = {key: [element[key] for element in elements] for key in first}
    return {k: _ragged(column) if k in names else collate(column) for k, column in columns.items()}


def _ragged(elements: Sequence[Element]) -> Element:
    first = elements[0]
    if isinstance(first, Ragged):
        return collate(elements)
    if isinstance(first, dict):
        return {key: _ragged([element[key] for element in elements]) for key in first}
    if isinstance(first, tuple):
        return with_parts(first, map(_ragged, zip(*elements, strict=True)))
    arrays = all(isinstance(element, np.ndarray) for element in elements)
    return Ragged.of(elements) if arrays else collate(elements)
