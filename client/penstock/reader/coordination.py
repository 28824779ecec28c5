"""Reads of consumers, in rounds or in one order, as `distribute` is asked for them: checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import DatasetError
from penstock.options import check_count
from penstock.protocol.calls import OpenIterationRequest
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Mode
from penstock.reader.core.consumer import Consumer


@dataclass(frozen=True, slots=True)
class Coordination:
    """Which consumer this is, of how many, and what all of them agree on.

    See `penstock.reader.distribute.distribute` for each.
    """

    index: int
    consumers: int
    remainder: Remainder
    ordered: bool
    patience: int | None
    start_round: int | None
    strided: bool = False
    """Whether consumers get every n-th element of one order each, and read no rounds."""

    def requested(self, request: OpenIterationRequest) -> OpenIterationRequest:
        """Return *request* with what all consumers must agree on."""
        if self.strided:
            return replace(request, ordered=True, stride=self.consumers)
        return replace(
            request,
            num_consumers=self.consumers,
            remainder=self.remainder.value,
            ordered=self.ordered,
            patience=self.patience,
        )

    def consumer(self, *, first: bool) -> Consumer:
        """Return who reads; the round to begin with is that of the *first* pass that is read."""
        start = self.start_round if first else None
        return Consumer(self.index, self.consumers, start, self.strided)

    def without_rounds(self) -> Coordination:
        """Return how consumers of one order read, each of whom gets every n-th element.

        Raises:
            DatasetError: when something is asked for that only rounds have.
        """
        for name, given in _asked_of_rounds(self.remainder, self.patience, self.start_round):
            raise DatasetError(
                f"distribute: {name}={given!r} is for rounds, and with ordered=True under "
                "ShardingPolicy.DYNAMIC there are none: each consumer gets every n-th element "
                f"of one order. Leave {name} out, or ordered"
            )
        return replace(self, strided=True)


def coordination_of(
    index: Any,
    consumers: Any,
    job_name: str | None,
    *,
    remainder: Any,
    ordered: Any,
    patience: Any,
    start_round: Any,
) -> Coordination | None:
    """Return what the arguments of `distribute` ask for; None is an uncoordinated read.

    Raises:
        DatasetError: naming the argument, its value and what to do.
    """
    if (index is None) != (consumers is None):
        raise DatasetError(
            "consumer_index and num_consumers go together: give both or neither, not "
            f"consumer_index={index!r} and num_consumers={consumers!r}"
        )
    policy = _remainder(remainder)
    if not isinstance(ordered, bool):
        raise DatasetError(f"ordered must be True or False, not {ordered!r}")
    if patience is not None:
        patience = check_count("distribute", "patience", patience, least=0, most=_MOST)
    if start_round is not None:
        start_round = check_count("distribute", "start_round", start_round, least=0)
    if index is None:
        _refuse_alone(policy, patience, start_round)
        return None
    count = check_count("distribute", "num_consumers", consumers, most=_MOST)
    number = check_count("distribute", "consumer_index", index, least=0)
    if number >= count:
        raise DatasetError(
            f"distribute: consumer_index must be below num_consumers, {count}, not {index!r}"
        )
    if job_name is None:
        raise DatasetError(
            f"distribute: num_consumers={count} needs a job_name, under which the consumers meet"
        )
    if ordered and patience:
        raise DatasetError(
            f"distribute: ordered=True waits for every task in turn, which patience={patience} "
            "contradicts: leave it out"
        )
    return Coordination(number, count, policy, ordered, patience, start_round)


def is_ordered(mode: Mode, cache: object, *, ordered: bool) -> bool:
    """Return whether an uncoordinated read of *mode* is to come in one order.

    Raises:
        DatasetError: when it has none.
    """
    if ordered and mode is not Mode.DYNAMIC:
        raise DatasetError(
            f"ordered=True needs ShardingPolicy.DYNAMIC, not {mode.value!r}: the one order is that "
            "of the splits, which it divides"
        )
    if ordered and cache is not None:
        raise DatasetError(
            "ordered=True and cross_trainer_cache do not go together: trainers skip what has left "
            "the window"
        )
    return ordered


_MOST = 2**31 - 1
"""More consumers, or rounds in hand, than there can be."""


def _remainder(given: Any) -> Remainder:
    known = [policy.value for policy in Remainder]
    if not isinstance(given, str) or given not in known:
        raise DatasetError(
            f"remainder must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}, not {given!r}"
        )
    return Remainder(given)


def _refuse_alone(remainder: Remainder, patience: int | None, start_round: int | None) -> None:
    """Refuse what only coordinated reads have."""
    for name, given in _asked_of_rounds(remainder, patience, start_round):
        raise DatasetError(
            f"distribute: {name}={given!r} is for coordinated reads: give consumer_index and "
            "num_consumers, too"
        )


def _asked_of_rounds(
    remainder: Remainder, patience: int | None, start_round: int | None
) -> Iterator[tuple[str, object]]:
    """Yield the arguments that only rounds have, and that are given."""
    if remainder is not Remainder.DROP:
        yield "remainder", remainder.value
    if patience is not None:
        yield "patience", patience
    if start_round is not None:
        yield "start_round", start_round
