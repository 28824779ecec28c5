"""`token_batches`: consecutive documents joined, as many as a number of tokens allows.

State: see `penstock.ops.internal.arranging`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.graph.node import Node
from penstock.ops.internal.arrangements import NextFit
from penstock.ops.internal.arranging import ArrangingIterator
from penstock.ops.internal.documents import (
    DocumentIntake,
    Documents,
    check_capacity,
    check_field,
)


@dataclass(frozen=True, eq=False)
class TokenBatches(Node):
    """Consecutive documents joined, as many as *max_tokens* allow."""

    op: ClassVar[str] = "token_batches"
    stays_endless: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    max_tokens: int
    field: str | None

    def __post_init__(self) -> None:
        most = check_capacity(self.op, "max_tokens", self.max_tokens)
        object.__setattr__(self, "max_tokens", most)
        check_field(self.op, self.field)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        tally = context.tally(self.label, "tokens")
        documents = Documents(self.op, self.field, None, self.max_tokens, tally)
        intake = DocumentIntake(documents, "error", context.tallies)
        arrangement = NextFit(self.max_tokens)
        return ArrangingIterator(self.op, intake, arrangement, self.upstream, context, state)
