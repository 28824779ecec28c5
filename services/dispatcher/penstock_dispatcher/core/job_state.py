"""A job's saved state as JSON: complete, plain, and small; and the schema that is checked.

    {"v": 3, "kind": "job", "fingerprint": …, "mode": "dynamic", "job": …, "repetition": 3,
     "seed": …, "iteration_seed": …, "next_task": 2, "finished": false,
     "providers": [{"pass_number": 0, "offset": 700}],
     "tasks": [{"index": 0, "checkpoint": {"number": 256, "positions": [3], "state": …},
                "logs": [{"start": 3, "splits": [[500, 600], [620, 700]]}],
                "acked": {"floor": 300, "more": [[310, 320]]}}],
     "account": {"produced": 400, …},
     "rounds": {"round": 17, "turn": 1, "consumers": 8, "log": [0, 1]},
     "shards": 2, "stride": {"consumers": 2, "tasks": 3, "elements": 900}}

Of files it holds numbers: *files* of a provider says which listing they are of (see `listings`).
*changes* of a provider are those of a mixture's weights; *weights* those that the next pass has.
Empty values and zeros are left out, except for *next_task* and the fields above it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from penstock.errors import StateError
from penstock.protocol.control import ElementCounts
from penstock.protocol.malformed import MALFORMED, glimpse
from penstock.protocol.mixture import WeightStage
from penstock.protocol.ranges import AckedSet, RangeSet
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import Checkpoint, Mode, ReaderId, TaskId
from penstock_dispatcher.core.fact_values import AccountTotals, InDoubt, WeightChange
from penstock_dispatcher.core.listings import ListingOutline
from penstock_dispatcher.core.records import (
    COUNTS,
    IterationRecord,
    JobRecord,
    TaskRecord,
    counts_of,
)
from penstock_dispatcher.core.rounds_record import FIRST, RoundsAccount, rounds_of
from penstock_dispatcher.core.split_provider import END, SplitProvider

VERSION: Final = 3

Count = Annotated[int, Meta(ge=0)]
Span = tuple[Count, Count]

NULL = Raw(b"null")

SUMS = ("elements", "acked", "consumed", "unreported", "splits", "units", "errors", "letters")
"""The sums that an account has, saved or not, beside its counts."""


class ChangeState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A change of a mixture's weights in pass *pass_number*; see `WeightStage` for the others."""

    begin: Count
    parts: tuple[Count, ...]
    before: tuple[Count, ...] = ()
    pass_number: Count = 0


class ProviderState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The position of a split provider: *offset* in pass *pass_number*, of which *files*.

    *changes* are those of a mixture's weights.
    """

    pass_number: Count = 0
    offset: Count = 0
    files: ListingOutline | None = None
    changes: tuple[ChangeState, ...] = ()


class WeightsState(Struct, frozen=True, forbid_unknown_fields=True):
    """The *changes* of weights with which the job's next pass begins, of a split *provider*."""

    provider: Count
    changes: tuple[ChangeState, ...]


class RunnerState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `Checkpoint`. *text* is a state that JSON cannot express (one with a NaN)."""

    number: Count = 0
    positions: tuple[Count, ...] = ()
    state: Raw = NULL
    text: str = ""


class LogState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `SplitLog`; a split is its start and its stop."""

    start: Count = 0
    splits: tuple[Span, ...] = ()


class AckedState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """See `AckedSet`."""

    floor: Count = 0
    more: tuple[Span, ...] = ()


class TaskState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A task that was not done. *ended* is how many passes end in each of its logs.

    *place* is where in one order it begins, of a job with a *stride*, if that is known.
    """

    index: Count
    checkpoint: RunnerState = RunnerState()
    logs: tuple[LogState, ...] = ()
    ended: tuple[Count, ...] = ()
    acked: AckedState = AckedState()
    place: Count | UnsetType = UNSET
    name: Count | UnsetType = UNSET
    """The name by which readers knew it: saved states of readers refer to that."""


class StrideState(Struct, frozen=True, forbid_unknown_fields=True):
    """One order goes to *consumers*, of whom there may be more or fewer from here on.

    Its first *tasks* have *elements* together.
    """

    consumers: Annotated[int, Meta(ge=1)]
    tasks: Count
    elements: Count


class AccountState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The account of elements before the save; *elements*, *acked*, *errors* of tasks done.

    An entry of *in_doubt* is its readers, how many elements (null: unknown), and since when.
    """

    produced: Count = 0
    replayed: Count = 0
    sent: Count = 0
    requeued: Count = 0
    skipped: Count = 0
    nondeterministic: Count = 0
    elements: Count = 0
    acked: Count = 0
    consumed: Count = 0
    unreported: Count = 0
    splits: Count = 0
    units: Count = 0
    in_doubt: tuple[tuple[tuple[int, ...], Count | None, float], ...] = ()
    left_out: Count = 0
    padding: Count = 0
    repeated: Count = 0
    missed: Count = 0
    errors: Count = 0
    letters: tuple[str, ...] = ()


class RoundsState(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Coordinated reads continue at *round*, after a turn of the task with index *turn*, if any.

    *consumers* is how many there were; there may be more or fewer from here on. With as many, the
    first rounds come from the tasks of the indices in *log*, as they were released.
    """

    round: Count
    turn: Count | None
    consumers: Annotated[int, Meta(ge=1)]
    log: tuple[Count, ...] = ()


class JobState(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole pass of a job at one moment."""

    v: int
    kind: str
    fingerprint: str
    mode: Mode
    job: str
    repetition: Count
    seed: Count
    iteration_seed: Count
    next_task: Count
    finished: bool = False
    providers: tuple[ProviderState, ...] = ()
    tasks: tuple[TaskState, ...] = ()
    account: AccountState = AccountState()
    rounds: RoundsState | UnsetType = UNSET
    """Of coordinated reads only."""
    shards: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    """Of static sharding only: how many fixed parts there are."""
    ordered: bool | UnsetType = UNSET
    """Whether each task is one split, in order."""
    stride: StrideState | UnsetType = UNSET
    """Of one order that goes to several consumers only."""
    weights: tuple[WeightsState, ...] | UnsetType = UNSET
    """Of a job whose mixture has other weights than its definition says."""


def of(
    job: JobRecord,
    iteration: IterationRecord,
    acked: Mapping[TaskId, AckedSet],
    sums: AccountTotals,
) -> JobState:
    """Return the state of a running pass; *acked* is all that is known to be acked."""
    return msgspec.structs.replace(
        _begun(job, iteration),
        providers=tuple(
            ProviderState(s.pass_number, s.offset, s.listing, tuple(map(_change, s.changes)))
            for s in iteration.providers
        ),
        tasks=tuple(
            _task(name, task, acked[name], strided=iteration.stride is not None)
            for name, task in iteration.tasks.items()
            if not task.done
        ),
        account=_account(sums),
    )


def over(job: JobRecord, iteration: IterationRecord) -> JobState:
    """Return the state of a pass behind its end."""
    return msgspec.structs.replace(_begun(job, iteration), finished=True)


def _begun(job: JobRecord, iteration: IterationRecord) -> JobState:
    rounds = iteration.rounds
    at: RoundsState | UnsetType = UNSET
    if rounds is not None:
        turn = None if rounds.floor_turn == FIRST else rounds.floor_turn
        log = tuple(rounds.tasks[name].index for name in (*rounds.log, *rounds.planned))
        at = RoundsState(rounds.floor, turn, rounds.consumers, log)
    return JobState(
        VERSION,
        "job",
        job.parameters.dataset,
        job.parameters.mode,
        iteration.job,
        iteration.repetition,
        job.seed,
        iteration.seed,
        iteration.next_task,
        rounds=at,
        shards=job.parameters.shards or UNSET,
        ordered=iteration.ordered or UNSET,
        stride=_stride(iteration),
        weights=tuple(WeightsState(i, tuple(map(_change, c))) for i, c in job.weights.items())
        or UNSET,
    )


def _stride(iteration: IterationRecord) -> StrideState | UnsetType:
    consumers = iteration.stride
    return UNSET if consumers is None else StrideState(consumers, *iteration.counted)


def encode(state: JobState) -> bytes:
    """Return *state* as JSON text."""
    return msgspec.json.encode(state)


def decode(data: bytes) -> JobState:
    """Read what `encode` wrote, also when other programs rewrote it as JSON.

    Raises:
        StateError: saying what is wrong with it, and where.
    """
    try:
        head = msgspec.json.decode(data)
    except MALFORMED as exc:
        raise StateError(f"the saved job state is no JSON: {str(exc)[:500]}") from exc
    if not isinstance(head, dict) or head.get("kind") != "job":
        raise StateError("this is not the saved state of a job: its kind is not 'job'")
    if head.get("v") != VERSION:
        raise StateError(
            f"the saved job state has version {glimpse(head.get('v'))}; this Penstock reads "
            f"version {VERSION}"
        )
    try:
        return _DECODER.decode(data)
    except MALFORMED as exc:
        raise StateError(f"the saved job state is malformed: {str(exc)[:500]}") from exc


def digest(data: bytes) -> str:
    """Return a digest that is equal for equal states, however their JSON is written."""
    plain = msgspec.json.encode(msgspec.json.decode(data), order="deterministic")
    return hashlib.sha256(plain).hexdigest()[:32]


def checkpoint(saved: RunnerState) -> Checkpoint:
    """Return the engine state that was saved."""
    return Checkpoint(saved.number, saved.positions, saved.text or bytes(saved.state).decode())


def log(saved: LogState, ended: int, provider: SplitProvider) -> SplitLog:
    """Return the split log that was saved, in which *ended* passes of *provider* end."""
    turn = ended - sum(low == high for low, high in saved.splits)
    splits = []
    for low, high in saved.splits:
        splits.append(Split(low, high, provider.named(turn, low, high)) if low < high else END)
        turn += low == high
    return SplitLog(saved.start, tuple(splits))


def changes(saved: Sequence[ChangeState]) -> tuple[WeightChange, ...]:
    """Return the changes of weights that were saved."""
    return tuple(
        WeightChange(each.pass_number, WeightStage(each.begin, each.parts, each.before))
        for each in saved
    )


def weights(saved: JobState) -> dict[int, tuple[WeightChange, ...]]:
    """Return the changes with which the next pass of a job begins, by split provider."""
    known = () if saved.weights is UNSET else saved.weights
    return {each.provider: changes(each.changes) for each in known}


def _change(change: WeightChange) -> ChangeState:
    stage = change.stage
    return ChangeState(stage.begin, stage.parts, stage.before, change.pass_number)


def acked(saved: AckedState) -> AckedSet:
    """Return the set of acked elements."""
    return AckedSet(saved.floor, RangeSet.of(*saved.more))


def sums(saved: AccountState) -> AccountTotals:
    """Return the account that was saved."""
    in_doubt = [InDoubt(tuple(map(ReaderId, who)), n, since) for who, n, since in saved.in_doubt]
    return AccountTotals(
        ElementCounts(*counts_of(saved)),
        in_doubt=tuple(in_doubt),
        rounds=RoundsAccount(*rounds_of(saved)),
        **_named(saved, SUMS),
    )


def _named(source: AccountState | AccountTotals, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names}


def _task(name: TaskId, task: TaskRecord, acked: AckedSet, *, strided: bool) -> TaskState:
    ended = task.ended if any(task.ended) else ()
    logs = tuple(LogState(log.start, tuple(map(_span, log.splits))) for log in task.logs)
    known = AckedState(acked.floor, acked.more.spans)
    place = UNSET if task.place is None or not strided else task.place
    return TaskState(task.index, _runner(task.checkpoint), logs, ended, known, place, name)


def _runner(state: Checkpoint) -> RunnerState:
    text = state.state.encode()
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return RunnerState(state.number, state.positions, text=state.state)
    return RunnerState(state.number, state.positions, NULL if text == b"null" else Raw(text))


def _account(sums: AccountTotals) -> AccountState:
    in_doubt = tuple((doubt.readers, doubt.elements, doubt.since) for doubt in sums.in_doubt)
    work = dict(zip(COUNTS, counts_of(sums.counts), strict=True))
    counts = {**work, **asdict(sums.rounds), **_named(sums, SUMS)}
    # A state stays small: it has one letter.
    return AccountState(**{**counts, "in_doubt": in_doubt, "letters": sums.letters[:1]})


def _span(split: Split) -> Span:
    return split.start, split.stop


_DECODER = msgspec.json.Decoder(JobState)
