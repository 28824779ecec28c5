"""Saves: when all readers of an iteration are at the same barrier, the job's state is written.

From its barrier on a reader acks nothing, so all that is known to be acked was acked before the
barrier, and the checkpoints lie behind it. A result is final, and the same for all readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from penstock.errors import PenstockError, SaveFailed
from penstock.protocol.control import SaveBarrier, SaveResult, called
from penstock.protocol.types import Failure, IterationId, ReaderId, ReaderStatus
from penstock_dispatcher.core import job_state
from penstock_dispatcher.core.account import told
from penstock_dispatcher.core.context import DRIFT, DecisionContext
from penstock_dispatcher.core.facts import InDoubt, SaveCompleted
from penstock_dispatcher.core.records import IterationRecord, totals

SOONER = 0.1
"""Of a save's timeout: who was silent for so long, and for two beats, is missing."""

HOPELESS = 0.5
"""Of a save's timeout: when somebody was silent for so long, and will not be given up before the
deadline, the save fails at once."""


def advance_save(
    desk: DecisionContext, name: IterationId, iteration: IterationRecord, now: float
) -> None:
    """Write the verdict on the next save, if there can be one: a state when all are at its cut.

    Where its readers want that, the save goes without those that are missing: at its deadline, and
    before it as soon as all of these were silent for long enough.
    """
    live = iteration.live
    cuts = at_cut(desk, iteration, live)
    if not cuts:
        desk.heard.saves.pop(name, None)
        return
    began = desk.heard.saves.setdefault(name, now)
    timeout = min(cut.timeout for cut in cuts.values())
    labels = {cut.label for cut in cuts.values()}
    if len(labels) > 1:
        why = f"its readers save different things: {_who(iteration, cuts)}"
        _fail(desk, name, iteration, cuts, why)
        return
    absent = [reader for reader in live if reader not in cuts]
    unsettled = {reader for task in iteration.tasks.values() for reader in task.suspects}
    if not absent and not unsettled:
        _succeed(desk, name, iteration, labels.pop())
    elif all(cut.without_missing for cut in cuts.values()):
        least = max(_beats(desk), timeout * SOONER)
        waited = now - began >= least or not unsettled
        if now >= began + timeout or (waited and _silent(desk, absent, least, now)):
            _succeed(desk, name, iteration, labels.pop(), (*absent, *sorted(unsettled)))
    elif now >= began + timeout or _hopeless(desk, absent, began, timeout, now):
        why = _missing(desk, iteration, cuts, live, now)
        _fail(desk, name, iteration, cuts, f"within {now - began:.1f} s {why}")


def at_cut(
    desk: DecisionContext, iteration: IterationRecord, live: Iterable[ReaderId]
) -> dict[ReaderId, SaveBarrier]:
    """Return the readers that hand out nothing until the next save is judged."""
    cuts = {}
    for reader in live:
        word = desk.heard.readers.get(reader)
        cut = None if word is None else word.beat.cut
        if cut is not None and cut.number == iteration.saves:
            cuts[reader] = cut
    return cuts


def shown(desk: DecisionContext, iteration: IterationRecord, reader: ReaderId, now: float) -> str:
    """Return how a reader is named that others wait for: also when it is given up, if silent."""
    silence = desk.heard.silence(desk.heard.readers[reader].at, now)
    if silence < _beats(desk):
        return iteration.called(reader, f"last heard {silence:.1f} s ago")
    lease = desk.settings.reader_lease * DRIFT
    return iteration.called(reader, f"silent {silence:.1f} s, expires at {lease:.0f} s")


def answer(
    desk: DecisionContext, iteration: IterationRecord | None, cut: SaveBarrier
) -> SaveResult | None:
    """Return the verdict that a reader at *cut* waits for, if there is one."""
    if iteration is None:
        return _refusal(cut, "the pass is over, and forgotten here")
    known = next((v for v in iteration.verdicts if v.number == cut.number), None)
    if known is not None:
        return known
    if cut.number > iteration.saves:
        why = f"this dispatcher knows of {iteration.saves}: its history was lost or rolled back"
        return _refusal(cut, why)
    if cut.number < iteration.saves:
        return _refusal(cut, "it was decided long ago, and its result is not kept")
    if iteration.finished:
        job = desk.books.jobs[iteration.job]
        return SaveResult(cut.number, cut.label, job_state.encode(job_state.over(job, iteration)))
    return None


def _silent(desk: DecisionContext, readers: Iterable[ReaderId], least: float, now: float) -> bool:
    words = desk.heard.readers
    return all(desk.heard.silence(words[reader].at, now) >= least for reader in readers)


def _hopeless(
    desk: DecisionContext, absent: Iterable[ReaderId], began: float, timeout: float, now: float
) -> bool:
    """Say whether somebody is silent who will not be given up before the deadline.

    The one who saves has better use for the time that is left.
    """
    least = max(_beats(desk), timeout * HOPELESS)
    lease = desk.settings.reader_lease * DRIFT
    for reader in absent:
        silence = desk.heard.silence(desk.heard.readers[reader].at, now)
        if silence >= least and now - silence + lease > began + timeout:
            return now - began >= least
    return False


def _beats(desk: DecisionContext) -> float:
    return 2 * desk.settings.refresh_interval


def _state(
    desk: DecisionContext, iteration: IterationRecord, missing: Collection[ReaderId]
) -> job_state.JobState:
    taken = {n: desk.taken(n, task) for n, task in iteration.tasks.items()}
    sums, done = told(iteration, desk.heard), totals(iteration, done_only=True)
    # What readers took that are missing is not known: since they were heard last it is doubted.
    doubts = tuple(InDoubt((reader,), None, desk.heard_at(reader, iteration)) for reader in missing)
    untold = sum(iteration.readers[r].standing is ReaderStatus.LIVE for r in missing)
    sums = replace(
        sums,
        elements=done.elements,  # the others are counted anew
        taken=done.taken,
        untold=sums.untold + untold,
        doubts=(*sums.doubts, *doubts),
    )
    return job_state.of(desk.books.jobs[iteration.job], iteration, taken, sums)


def _succeed(
    desk: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    label: str,
    missing: Collection[ReaderId] = (),
) -> None:
    state = job_state.encode(_state(desk, iteration, missing))
    names = tuple(map(iteration.called, missing))
    _write(desk, name, SaveResult(iteration.saves, label, state, missing=names))


def _fail(
    desk: DecisionContext,
    name: IterationId,
    iteration: IterationRecord,
    cuts: Mapping[ReaderId, SaveBarrier],
    why: str,
) -> None:
    label = min(cuts.items())[1].label
    error = SaveFailed(
        f"{called(label)} of job {iteration.job!r} failed, for all its readers: {why}. All of "
        "them must save at the same step, and under the same name"
    )
    _write(desk, name, SaveResult(iteration.saves, label, failure=Failure.of(error)))


def _write(desk: DecisionContext, name: IterationId, verdict: SaveResult) -> None:
    desk.heard.saves.pop(name, None)
    desk.write(SaveCompleted(name, verdict))


def _missing(
    desk: DecisionContext,
    iteration: IterationRecord,
    cuts: Mapping[ReaderId, SaveBarrier],
    live: Iterable[ReaderId],
    now: float,
) -> str:
    """Say for whom a save waited."""
    absent = [reader for reader in live if reader not in cuts]
    if absent:
        names = ", ".join(shown(desk, iteration, reader, now) for reader in absent)
        away = any(_silent(desk, [reader], _beats(desk), now) for reader in absent)
        way = "; state(without_missing=True) saves without those that are silent" * away
        return f"{names} did not come to it{way}"
    unsettled = [
        f"task {name} at {task.worker or 'no worker'}, of "
        f"{', '.join(map(iteration.called, task.suspects))}"
        for name, task in iteration.tasks.items()
        if task.suspects
    ]
    return f"what expired readers consumed was not reported: {', '.join(unsettled)}"


def _who(iteration: IterationRecord, cuts: Mapping[ReaderId, SaveBarrier]) -> str:
    return ", ".join(
        f"{iteration.called(reader)} {called(cut.label)}" for reader, cut in cuts.items()
    )


def _refusal(cut: SaveBarrier, why: str) -> SaveResult:
    error: PenstockError = SaveFailed(f"{called(cut.label)}, save {cut.number}, failed: {why}")
    return SaveResult(cut.number, cut.label, failure=Failure.of(error))
