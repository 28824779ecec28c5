"""`pack`: documents joined to sequences of at most so many tokens.

State: see `penstock.ops.internal.arranging`. With the method ``"concat"``, it is that of
`penstock.ops.rebatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.ops.internal.arrangements import Arrangement, BestFit, Windows
from penstock.ops.internal.arranging import ArrangingIterator
from penstock.ops.internal.documents import (
    DocumentIntake,
    Documents,
    check_capacity,
    check_field,
)
from penstock.ops.internal.input_buffer import InputBuffer
from penstock.ops.internal.packing import first_fit_decreasing
from penstock.ops.rebatch import RebatchIterator
from penstock.ops.unbatch import Part
from penstock.options import check_count

_METHODS = ("best_fit", "first_fit_decreasing", "concat")
_LONG = ("cut", "error", "drop")


@dataclass(frozen=True, eq=False)
class Pack(Node):
    """Packs of at most *capacity* tokens, each of one or several documents."""

    op: ClassVar[str] = "pack"
    stays_endless: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    capacity: int
    field: str | None
    method: str
    buffer: int
    split_long: str
    pad: int | None

    def __post_init__(self) -> None:
        capacity = check_capacity(self.op, "capacity", self.capacity)
        object.__setattr__(self, "capacity", capacity)
        object.__setattr__(self, "buffer", check_count(self.op, "buffer", self.buffer))
        check_field(self.op, self.field)
        for name, known in (("method", _METHODS), ("split_long", _LONG)):
            if getattr(self, name) not in known:
                raise DatasetError(
                    f"{self.op}: {name} must be one of {', '.join(map(repr, known))}, not "
                    f"{getattr(self, name)!r}"
                )
        if self.method == "concat" and self.split_long != "cut":
            raise DatasetError(
                f"{self.op}: method='concat' cuts documents wherever a pack ends, so split_long "
                f"must be 'cut', not {self.split_long!r}"
            )
        if self.pad is not None:
            if not hasattr(self.pad, "__index__") or isinstance(self.pad, bool):
                raise DatasetError(f"{self.op}: pad must be an integer or None, not {self.pad!r}")
            object.__setattr__(self, "pad", int(self.pad.__index__()))
        # Cut documents have pieces in several packs; others are in one.
        object.__setattr__(self, "splits_elements", self.split_long == "cut")

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        documents = Documents(
            self.op, self.field, self.pad, self.capacity, context.tally(self.label, "tokens")
        )
        if self.method == "concat":
            below, errors, token = state or (None, 0, 0)
            held = InputBuffer(context, self.upstream, [below, errors])
            return RebatchIterator(
                held, token, self.capacity, drop_remainder=False, kind=_Concat(documents)
            )
        intake = DocumentIntake(documents, self.split_long, context.tallies)
        arrangement = self._arrangement()
        return ArrangingIterator(self.op, intake, arrangement, self.upstream, context, state)

    def _arrangement(self) -> Arrangement:
        if self.method == "best_fit":
            return BestFit(self.capacity, self.buffer)
        return Windows(self.buffer, partial(first_fit_decreasing, capacity=self.capacity))


class _Concat:
    """How `rebatch` makes packs: it cuts documents wherever a pack ends."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def count(self, element: Element) -> int:
        """Return how many tokens an element has."""
        return self._documents.length(element)

    def join(self, parts: Sequence[Part]) -> Element:
        """Return a pack of parts of documents."""
        return self._documents.join([self._documents.pieces(*part) for part in parts])
