"""The values that facts hold: sums of an account, positions after a restore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.protocol.control import ElementCounts
from penstock.protocol.mixture import WeightStage
from penstock.protocol.ranges import AckedSet
from penstock.protocol.splits import SplitLog
from penstock.protocol.types import Checkpoint, Failure, ReaderId, TaskId
from penstock_dispatcher.core.cache_record import TrainerTotals
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.rounds_record import RoundsAccount


@dataclass(frozen=True, slots=True)
class AttemptTotals:
    """The cost of an attempt by its last heartbeat, and the next number that it produces."""

    head: int = 0
    counts: ElementCounts = field(default_factory=ElementCounts)


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A number of elements that were requeued although one of *readers* may have consumed them.

    None is an unknown number: all that was acked *since* then (in seconds since 1970).
    """

    readers: tuple[ReaderId, ...]
    elements: int | None
    since: float


@dataclass(frozen=True, slots=True)
class AccountTotals:
    """The summed account of elements. *unreported* readers may have consumed more."""

    counts: ElementCounts = field(default_factory=ElementCounts)
    elements: int = 0
    acked: int = 0
    consumed: int = 0
    unreported: int = 0
    splits: int = 0
    units: int = 0
    in_doubt: tuple[InDoubt, ...] = ()
    rounds: RoundsAccount = field(default_factory=RoundsAccount)
    trainers: Mapping[str, TrainerTotals] = field(default_factory=dict)
    moved: bool = False
    """Of a cached job: whether some attempt may have reported too little, as it ended early."""
    errors: int = 0
    letters: tuple[str, ...] = ()
    """Dead letters of some of the *errors* that were left out."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The elements *acked* in a pass that was forgotten before its end, and its failure if any."""

    acked: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class WeightChange:
    """A change of a mixture's weights in pass *pass_number* of its split provider.

    It holds in later passes, too, until the next change.
    """

    pass_number: int
    stage: WeightStage


@dataclass(frozen=True, slots=True)
class ProviderPosition:
    """Where a split provider stood: at *offset* in pass *pass_number*, over files of *listing*.

    *changes* are those of the weights of a mixture.
    """

    pass_number: int
    offset: int
    listing: ListingOutline | None
    changes: tuple[WeightChange, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoredTask:
    """A task to continue. *ended* is how many passes end in each of its logs.

    *place* is that of its first element, of one order that goes to several consumers.
    """

    task: TaskId
    index: int
    checkpoint: Checkpoint
    logs: tuple[SplitLog, ...]
    ended: tuple[int, ...]
    acked: AckedSet
    place: int | None = None


@dataclass(frozen=True, slots=True)
class RestoredRounds:
    """Where coordinated reads continue: at *round*, behind a turn of task number *turn*.

    From there on the job has this number of *consumers*. The first rounds come from the tasks in
    *log*.
    """

    round: int
    turn: int
    consumers: int
    log: tuple[TaskId, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoredStride:
    """A pass whose consumers get every n-th element continues with *consumers* of them.

    Its first *tasks* have *elements* together.
    """

    consumers: int
    tasks: int
    elements: int
