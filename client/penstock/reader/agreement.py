"""The arguments of `distribute` on which all readers of a job must agree, checked.

They are the consumers of rounds or of one order, the cross-trainer cache, and failed elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from penstock.errors import DatasetError
from penstock.options import check_count
from penstock.protocol.cache import WhenFull
from penstock.protocol.calls import JobParameters, OnError
from penstock.protocol.malformed import glimpse
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Mode
from penstock.reader.core.rounds import Consumer


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

    def requested(self, asked: JobParameters) -> JobParameters:
        """Return *asked* with what all consumers must agree on."""
        if self.strided:
            return replace(asked, ordered=True, stride=self.consumers)
        return replace(
            asked,
            num_consumers=self.consumers,
            remainder=self.remainder,
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
            "ordered=True and cross_trainer_cache do not go together: trainers skip "
            "elements that have left the window"
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


@dataclass(frozen=True)
class CrossTrainerCache:
    """Which trainer reads a job whose elements are made once for any number of trainers.

    Args:
        trainer_id: the trainer's name: its readers share its elements; another name gets them all
            again, as far as they are still in the workers' windows.

    Raises:
        DatasetError: when *trainer_id* is no name.

    >>> from penstock.service import CrossTrainerCache
    >>> CrossTrainerCache("learning rate 0.1")
    CrossTrainerCache(trainer_id='learning rate 0.1')
    """

    trainer_id: str

    def __post_init__(self) -> None:
        given: Any = self.trainer_id
        if not isinstance(given, str) or not given.strip():
            raise DatasetError(
                f"CrossTrainerCache: trainer_id must be a name that is not empty, not {given!r}"
            )
        if too_long(given):
            raise DatasetError(
                f"CrossTrainerCache: trainer_id may take {LONGEST_NAME} bytes: {glimpse(given)} "
                f"has {len(given)} characters"
            )


@dataclass(frozen=True, slots=True)
class Trainer:
    """Who reads a cached job, and what all its trainers agree on."""

    name: str
    when_full: WhenFull

    def requested(self, asked: JobParameters) -> JobParameters:
        """Return *asked* with what all trainers must agree on."""
        return replace(asked, when_full=self.when_full.value)


def trainer_of(
    cache: Any, when_full: Any, job_name: str | None, *, coordinated: bool
) -> Trainer | None:
    """Return what the arguments of `distribute` ask for; None is a job without a cache.

    Raises:
        DatasetError: naming the argument, its value and what to do.
    """
    known = [policy.value for policy in WhenFull]
    if not isinstance(when_full, str) or when_full not in known:
        raise DatasetError(f"when_full must be {known[0]!r} or {known[1]!r}, not {when_full!r}")
    if cache is None:
        if when_full != WhenFull.SKIP.value:
            raise DatasetError(
                f"when_full={when_full!r} is for a cross_trainer_cache: without one, nobody skips"
            )
        return None
    if not isinstance(cache, CrossTrainerCache):
        raise DatasetError(
            "cross_trainer_cache must be a penstock.service.CrossTrainerCache(trainer_id), not "
            f"{cache!r}"
        )
    if job_name is None:
        raise DatasetError(
            f"distribute: cross_trainer_cache={cache!r} needs a job_name, under which trainers meet"
        )
    if coordinated:
        raise DatasetError(
            "distribute: cross_trainer_cache and num_consumers exclude each other: in a round all "
            "consumers are at one element, and trainers of a cache go each at its own pace"
        )
    return Trainer(cache.trainer_id, WhenFull(when_full))


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """The policy that all readers of a job share: skip at most *most* elements of a pass."""

    on_error: OnError = OnError.RAISE
    most: int | None = None

    @property
    def skips(self) -> bool:
        """Whether elements may be left out."""
        return self.on_error is OnError.SKIP

    def requested(self, asked: JobParameters) -> JobParameters:
        """Return *asked* with what all readers must agree on."""
        return replace(asked, on_error=self.on_error, max_errors=self.most)


def error_policy_of(
    on_error: Any, max_errors: Any, *, coordinated: bool, static: bool = False
) -> ErrorPolicy:
    """Return what the arguments of `distribute` ask for.

    Raises:
        DatasetError: naming the argument, its value and what to do.
    """
    known = [policy.value for policy in OnError]
    if not isinstance(on_error, str) or on_error not in known:
        raise DatasetError(f"on_error must be {known[0]!r} or {known[1]!r}, not {on_error!r}")
    skips = on_error == OnError.SKIP.value
    if max_errors is not None and not skips:
        raise DatasetError(
            f"max_errors={max_errors!r} is for on_error='skip': with {on_error!r} the first error "
            "is raised"
        )
    if skips and coordinated:
        raise DatasetError(
            "distribute: on_error='skip' and num_consumers exclude each other: a skipped element "
            "would move all elements after it to other rounds. Put ignore_errors() before the "
            "operator that makes groups of num_consumers elements"
        )
    if skips and static:
        raise DatasetError(
            "distribute: on_error='skip' and static sharding exclude each other: each task makes "
            "all elements up to where parts are cut, so one that fails in one task only would move "
            "the parts against each other. Put ignore_errors() behind what may fail, or use DYNAMIC"
        )
    if max_errors is not None:
        max_errors = check_count("distribute", "max_errors", max_errors, least=0)
    return ErrorPolicy(OnError(on_error), max_errors)
