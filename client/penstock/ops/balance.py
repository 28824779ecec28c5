"""`balance`: the elements in an order in which each round of consumers costs nearly the same.

State: see `penstock.ops.internal.arranging`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from penstock.element import Element, describe
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.engine.tallies import Tally
from penstock.errors import DatasetError, ElementError
from penstock.executors.function import UserFunction
from penstock.graph.node import Node, function
from penstock.ops.group_by_window import shown
from penstock.ops.internal.arrangements import Windows
from penstock.ops.internal.arranging import ArrangingIterator
from penstock.ops.internal.documents import is_sequence
from penstock.ops.internal.packing import in_even_rounds
from penstock.options import check_count


@dataclass(frozen=True, eq=False)
class BalancedRounds(Node):
    """The elements, in rounds of *num_consumers* that cost nearly the same.

    The cost is what *cost* returns; None is the number of tokens.
    """

    op: ClassVar[str] = "balance"
    keeps_count: ClassVar[bool] = True
    per_task: ClassVar[bool] = True
    upstream: Node
    num_consumers: int
    window: int
    cost: Callable[..., Any] | None = function(default=None)

    def __post_init__(self) -> None:
        for name in ("num_consumers", "window"):
            object.__setattr__(self, name, check_count(self.op, name, getattr(self, name)))
        if self.window < self.num_consumers:
            raise DatasetError(
                f"{self.op}: window must be at least num_consumers, {self.num_consumers}, not "
                f"{self.window}: a window holds whole rounds"
            )
        if self.cost is not None and not callable(self.cost):
            raise DatasetError(f"{self.op}: cost must be callable or None, not {self.cost!r}")

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        intake = _Costs(self.cost, self.label, context.seed())
        size = self.window - self.window % self.num_consumers
        divide = partial(_in_counted_rounds, self.num_consumers, context.tally(self.label))
        arrangement = Windows(size, divide)
        return ArrangingIterator(self.op, intake, arrangement, self.upstream, context, state)


def _in_counted_rounds(consumers: int, tally: Tally, costs: Sequence[float]) -> list[int]:
    """Do as `in_even_rounds`, and count the largest and the mean cost of each whole round."""
    whole = len(costs) - len(costs) % consumers
    ordered = sorted(costs, reverse=True)[:whole]  # neighbours in this order share a round
    tally.largest_cost += sum(ordered[::consumers])
    tally.mean_cost += sum(ordered) / consumers
    return in_even_rounds(costs, consumers)


class _Costs:
    """An `Intake` that asks what each element costs, and changes nothing."""

    def __init__(self, cost: Callable[..., Any] | None, label: str, seed: int) -> None:
        self._cost = None if cost is None else UserFunction(cost, label, seed)

    def costs(self, elements: Sequence[Element]) -> list[float | None]:
        """See `Intake.costs`. Each element is asked for by itself, since *cost* may raise."""
        return [None] * len(elements)

    def measure(self, element: Element, number: int) -> tuple[int, float | None]:
        """See `Intake.measure`."""
        if self._cost is None:
            return 0, _tokens(element, number)
        answer = self._cost(element, number)
        cost = _number(answer)
        if cost is None:
            error = DatasetError(f"cost must return a finite number, not {shown(answer)}")
            self._cost.fail(error, number, element)
        return 0, cost

    def whole(self, element: Element, piece: int) -> Element:  # noqa: ARG002  there are no pieces
        """See `Intake.whole`."""
        return element

    def left(self, element: Element, whole: int) -> Element:  # noqa: ARG002
        """See `Intake.left`."""
        return element

    def join(self, group: list[Element]) -> Element:
        """See `Intake.join`. A group is one element."""
        return group[0]


def _tokens(element: Element, number: int) -> int:
    """Return how many tokens an element has: its length, or that of its field ``tokens``."""
    tokens: Any = element.get("tokens") if isinstance(element, dict) else element
    if is_sequence(tokens):
        return len(tokens)
    raise ElementError(
        f"{BalancedRounds.op}: element {number} must be an array of numbers with one axis, or a "
        f"dict with one under 'tokens', but it is {describe(element)}: give cost=, a function that "
        "returns what an element costs"
    )


def _number(answer: Any) -> float | None:
    """Return *answer* as a finite number; None if it is none."""
    try:
        cost = float(answer)
    except (TypeError, ValueError, OverflowError):
        return None
    return cost if math.isfinite(cost) and not isinstance(answer, (str, bytes)) else None
