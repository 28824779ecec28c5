"""A pass of a job as the page shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from penstock.explanation.looks import JobLook, TaskLook
from penstock.explanation.trouble import counted, readers_lost
from penstock.explanation.verdict import WAITS, Bottleneck, Explanation, explain_job
from penstock_dispatcher.core.account import Account
from penstock_dispatcher.core.stats import (
    CacheStats,
    IterationStats,
    MixtureStats,
    RoundsStats,
)
from penstock_dispatcher.page.history import Moment, PassSample
from penstock_dispatcher.page.standing import standing_of_pass


class Grade(IntEnum):
    """How a job is, the worst first."""

    FAILED = 0
    STOPPED = 1
    """Its loops do not get elements, or nothing is known of them."""
    WAITS = 2
    UNKNOWN = 3
    """Too little is known of its loops yet."""
    NOTED = 4
    """Its loops do not wait; readers died, or it left out elements."""
    HEALTHY = 5


def graded(it: IterationStats, look: JobLook, told: Explanation) -> tuple[Grade, str]:
    """Return the grade of a pass, and in a few words the cause of its wait or problem."""
    failure = next((task.failure for task in it.tasks if task.failure), None)
    if failure:
        return Grade.FAILED, f"failed: {failure.strip().partition(chr(10))[0]}"
    if stopped := _stopped(it, look, told):
        return Grade.STOPPED, stopped
    readers = look.readers
    of = readers_lost(readers.lost, readers.silent, readers.live + readers.lost)
    if told.limit is Bottleneck.UNKNOWN and told.wait < WAITS:
        return Grade.UNKNOWN, of or told.sentence
    if told.limit is not Bottleneck.NOTHING:
        return Grade.WAITS, _what(told, it, of)
    errors = it.account.errors
    noted = of or (f"left out {counted(errors, 'error')}" if errors else "")
    return (Grade.NOTED if noted else Grade.HEALTHY), noted


def _stopped(it: IterationStats, look: JobLook, told: Explanation) -> str:
    """Return why the loops of a pass get nothing, if that is so."""
    lost = next((one.lost for one in it.rounds.consumers if one.lost), "") if it.rounds else ""
    if lost:
        return f"lost: {lost}"
    if told.limit in (Bottleneck.STOPPED, Bottleneck.READERS):
        return told.sentence
    return "" if look.running else it.waiting_for


def _what(told: Explanation, it: IterationStats, died: str) -> str:
    """Return for what loops wait, in a few words: `penstock explain` has the sentence."""
    match told.limit:
        case Bottleneck.WORKERS if told.operator:
            what = f"{told.operator} on workers"
        case Bottleneck.HERE if told.operator:
            what = f"{told.operator} in the training process"
        case Bottleneck.DELIVERY:
            what = "its elements to be taken"
        case _:
            what = it.waiting_for or told.sentence
    return f"{what}; {died}" if died else what


OPERATORS_SHOWN = 20
"""The most operators of a pass, those that work longest."""

LINES_SHOWN = 8
"""The most failures, dead letters and lost consumers of a pass that are shown."""


@dataclass(frozen=True, slots=True)
class OperatorShare:
    """An operator of a pass: shares of the time of its tasks that it *worked* and *waited*."""

    label: str
    worked: float
    waited: float
    elements: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """How many tasks of a pass have a worker, wait for one, are done, and failed."""

    running: int
    waiting: int
    done: int
    failed: int


@dataclass(frozen=True, slots=True)
class Balance:
    """The account of a pass, in the numbers that are compared, and where it does not balance."""

    elements: int
    produced: int
    replayed: int
    sent: int
    requeued: int
    acked: int
    consumed: int
    redelivered: int
    in_doubt: int
    skipped: int
    nondeterministic: int
    errors: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobView:
    """A pass. *sentence* is what `penstock explain` says, *limit* its kind, *wait* its number."""

    iteration: int
    job: str
    private: bool
    repetition: int
    mode: str
    outline: str
    standing: str
    grade: str
    """How it is, in a word: see `Grade`; "finished" if it is over."""
    matter: str
    """The cause of its wait or problem, in a few words."""
    unread: float | None
    sentence: str
    limit: str
    wait: float
    operator: str
    more_slots: int
    slowest: str
    waiting_for: str
    held_by: str
    readers: int
    readers_lost: int
    """Readers that died and in whose place none has come."""
    tasks: TaskCounts
    balance: Balance
    sample: PassSample | None
    operators: tuple[OperatorShare, ...]
    troubles: tuple[str, ...]
    """Failures of tasks, the first elements left out, and lost consumers."""
    rounds: RoundsStats | None
    cache: CacheStats | None
    mixtures: tuple[MixtureStats, ...] = ()
    figures: tuple[str, ...] = ()
    """The figures of its operators on workers, in words."""


def job_view(it: IterationStats, moment: Moment) -> JobView:
    """Return the pass *it* as the page shows it at *moment*."""
    look = moment.looks.get(it.iteration)
    told = _explained(it, look)
    grade, matter = _graded(it, look, told)
    return JobView(
        it.iteration,
        it.job,
        it.private,
        it.repetition,
        it.mode,
        it.outline,
        standing_of_pass(it).value,
        grade,
        matter,
        it.unread,
        "" if told is None else told.sentence,
        "" if told is None else told.limit.name.lower(),
        0.0 if told is None else told.wait,
        "" if told is None else told.operator,
        0 if told is None else told.more_slots,
        "" if told is None or told.slowest is None else str(told.slowest),
        it.waiting_for,
        it.held_by,
        it.live_readers,
        it.readers_lost,
        _counts(it),
        balance_of(it.account, it.faults),
        moment.samples.get(it.iteration),
        operators_of(look.tasks if look is not None else ()),
        tuple(_troubles(it))[:LINES_SHOWN],
        it.rounds,
        it.cache,
        it.mixtures,
        tuple(str(each) for each in it.figures[:OPERATORS_SHOWN]),
    )


def _explained(it: IterationStats, look: JobLook | None) -> Explanation | None:
    return None if it.finished or look is None else explain_job(look)


def _graded(it: IterationStats, look: JobLook | None, told: Explanation | None) -> tuple[str, str]:
    if it.finished:
        return "finished", ""
    if look is None or told is None:
        return Grade.UNKNOWN.name.lower(), "not known yet"
    grade, matter = graded(it, look, told)
    return grade.name.lower(), matter


def _counts(it: IterationStats) -> TaskCounts:
    going = [task for task in it.tasks if not task.done]
    failed = sum(task.failure is not None for task in going)
    running = sum(task.failure is None and task.worker is not None for task in going)
    done = len(it.tasks) - len(going)
    return TaskCounts(running, len(going) - failed - running, done, failed)


def balance_of(account: Account, faults: tuple[str, ...]) -> Balance:
    """Return the numbers of *account* that are shown, and its *faults*."""
    counts = {name: getattr(account, name) for name in Balance.__slots__ if name != "faults"}
    return Balance(**counts, faults=faults)


def operators_of(tasks: Iterable[TaskLook]) -> tuple[OperatorShare, ...]:
    """Return the operators of *tasks* by their labels, those that work longest first."""
    seconds = 0.0
    worked, waited = defaultdict[str, float](float), defaultdict[str, float](float)
    elements = defaultdict[str, int](int)
    for task in tasks:
        seconds += task.seconds
        for one in task.operators:
            worked[one.label] += one.worked
            waited[one.label] += one.waited
            elements[one.label] += one.elements
    if seconds <= 0:
        return ()
    longest = sorted(worked, key=worked.__getitem__, reverse=True)[:OPERATORS_SHOWN]
    return tuple(
        OperatorShare(
            label,
            round(worked[label] / seconds, 4),
            round(waited[label] / seconds, 4),
            elements[label],
        )
        for label in longest
    )


def _troubles(it: IterationStats) -> Iterable[str]:
    for task in it.tasks:
        if task.failure:
            yield task.failure.strip().partition("\n")[0]
    for letter in it.dead_letters[:LINES_SHOWN]:
        said = str(letter.get("message", "")) if isinstance(letter, dict) else ""
        yield f"left out: {said.partition(chr(10))[0]}"
    for consumer in it.rounds.consumers if it.rounds is not None else ():
        if consumer.lost:
            yield f"lost: {consumer.lost}"
