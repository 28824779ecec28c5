"""Explains in a sentence with numbers why a training loop waits; `advice` has the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from operator import attrgetter
from typing import assert_never

from penstock.explanation import advice
from penstock.explanation.advice import Advice
from penstock.explanation.looks import IteratorStats, JobLook, OperatorLook, TaskLook
from penstock.explanation.slowest import Slowest, slowest
from penstock.explanation.trouble import duration, readers_lost
from penstock.protocol.loop_time import LinkTraffic, LoopTime
from penstock.protocol.types import Codec

WAITS = 0.05
"""A loop that waits for less of its time gains little."""

HELD_UP = 0.3
"""If nobody takes elements from a task for this share of its time, no loop waits for it."""

SLOW = 0.2
"""If a task waits for remote files for this share of its time, object storage is slow."""

BACKLOG = 3.0
"""A consumer does not wait for workers that are this many seconds ahead of it. Loops report each
second."""

READS = "distribute"
"""The operator in a training process that waits for workers."""

BLOCKED = 2.0
"""If a loop has waited this many seconds for its next element, that wait is reported."""


class Bottleneck(Enum):
    """The main reason why a loop waits."""

    STOPPED = "something stops all jobs"
    READERS = "no reader is heard"

    NOTHING = "the loop itself"
    UNKNOWN = "not known yet"
    ABSENT = "something that is not there"
    HERE = "operators in the training process"
    WORKERS = "operators on workers"
    DELIVERY = "elements are not taken"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a loop waits. As text: a sentence, and the figures behind it.

    *wait* is the share of its time that the loop waits, from 0 to 1. *operator* is the slowest
    operator, on workers or here, if an operator is the limit. Each of these would remove the wait:
    *more_slots* in all, *more_workers*, or *parallel_calls* of that operator; 0 is no advice.
    *slowest* is the task with the lowest rate and its worker, if workers have made elements.
    """

    sentence: str
    limit: Bottleneck
    wait: float
    operator: str = ""
    more_slots: int = 0
    figures: tuple[str, ...] = ()
    slowest: Slowest | None = None
    more_workers: int = 0
    parallel_calls: int = 0

    def __str__(self) -> str:
        return "\n".join((self.sentence, *(f"  {line}" for line in self.figures)))


def explain_loop(loop: IteratorStats, job: JobLook | None) -> Explanation:
    """Return what limits *loop*, which reads *job* if that is there."""
    time, whole = loop.newest, loop.loop
    wait = time.share
    here = tuple(f"here: {one}" for one in loop.figures)
    here += _made_on_workers(job)
    here += _figures("here", loop.operators, whole.seconds)
    here += tuple(_link_figure("here", one) for one in loop.links)
    here += loop.cuts
    if not time.total and time.waiting < BLOCKED:
        sentence = "the loop has had no element yet"
        return Explanation(sentence, Bottleneck.UNKNOWN, wait, figures=here)
    waits = _without_element(time) or _waits(
        wait, f"p50 {_seconds(time.p50)}, p99 {_seconds(time.p99)} a step"
    )
    if time.waiting >= BLOCKED and time.waits_here:
        label = _longest_label(loop.operators)
        sentence = f"{waits}: it waits for {time.waits_for}"
        return Explanation(sentence, Bottleneck.HERE, wait, label, figures=here)
    if (found := _waits_no_more(time, waits)) is not None:
        return replace(found, figures=here)
    blamed = _blames_here(loop)
    if loop.reads_job and job is None and not blamed:
        what = time.waits_for or "its job"
        sentence = f"{waits}, for {what}; the dispatcher does not say more about it"
        return Explanation(sentence, Bottleneck.UNKNOWN, wait, figures=here)
    if job is None or blamed:
        return replace(_why_here(_slowest_of(loop), waits, reads_job=loop.reads_job), figures=here)
    found = explain_job(job, asked=time, words=waits)
    return replace(found, wait=wait, figures=here + found.figures)


def _waits_no_more(loop: LoopTime, words: str) -> Explanation | None:
    """Return that *loop* is itself the limit, if it hardly waits: now, or since it began."""
    if loop.share < WAITS:
        return Explanation(f"{words}; it is itself the limit", Bottleneck.NOTHING, loop.share)
    if loop.wanted < 0 or advice.wanted(loop) >= 1 / (1 - WAITS):
        return None
    sentence = f"{words}, nearly all of it for its first element; it is itself the limit now"
    return Explanation(sentence, Bottleneck.NOTHING, loop.share)


def _blames_here(loop: IteratorStats) -> bool:
    """Return whether most of the wait is for operators in the training process."""
    time, whole = loop.newest, loop.loop
    if not loop.reads_job:
        return True
    if time.slowest_here:
        return time.waited_here >= time.waited / 2
    return sum(one.waited for one in loop.operators if one.label == READS) < whole.waited / 2


def _slowest_of(loop: IteratorStats) -> LoopTime:
    """Return the loop's newest figures, with the slowest operator of all its time if need be."""
    time = loop.newest
    slowest = max(loop.operators, key=_worked, default=None)
    if time.slowest_here or slowest is None:
        return time
    cpu = slowest.worked if slowest.cpu is None else slowest.cpu
    return replace(time, slowest_here=slowest.label, worked_here=slowest.worked, cpu_here=cpu)


def _why_here(loop: LoopTime, words: str, *, reads_job: bool) -> Explanation:
    """Return that an operator in the training process is the limit, and what would help."""
    what = advice.here(loop, reads_job=reads_job)
    label = loop.slowest_here or "its pipeline"
    sentence = f"{words}; {label} in the training process is the bottleneck: {what.words}"
    return Explanation(sentence, Bottleneck.HERE, loop.share, label, parallel_calls=what.calls)


def explain_job(job: JobLook, *, asked: LoopTime | None = None, words: str = "") -> Explanation:
    """Return what limits the loops that read *job*: that of the one that waits most.

    *asked* is the loop that is asked about, if one is, and *words* say how it waits.
    """
    last = slowest(job.tasks)
    # A loop that is asked about knows its own links, and has said what operators made.
    figures = () if asked else _made_on_workers(job)
    figures += tuple(_job_figures(job, last, links=() if asked else job.links))
    loop = asked or max(job.loops, key=_worst_of, default=None)
    if (found := _told_first(job, loop)) is not None:
        return replace(found, figures=figures, slowest=last)
    assert loop is not None  # noqa: S101  else it was told first
    words = (
        words or _without_element(loop) or _waits(loop.share, f"{loop.rate:,.0f} steps a second")
    )
    if lost := _readers_lost(job):
        words = f"{lost}; {words}"
    if loop.waiting >= BLOCKED:
        found = _why_without_element(job, loop, words)
    else:
        found = _why(job, loop, words)
    return replace(found, figures=figures, slowest=last)


def _readers_lost(job: JobLook) -> str:
    known = job.readers
    return readers_lost(known.lost, known.silent, known.live + known.lost)


def _why(job: JobLook, loop: LoopTime, words: str) -> Explanation:
    """Return what limits the loops of *job*, of which *loop* is the worst."""
    share = loop.share
    if (found := _waits_no_more(loop, words)) is not None:
        return found
    if loop.slowest_here and loop.waited_here >= loop.waited / 2:
        return _why_here(loop, words, reads_job=True)
    limit, busiest = _limit(job)
    operator, what = "", Advice()
    match limit:
        case Bottleneck.ABSENT:
            sentence = f"{words}, for {job.waiting_for}"
        case Bottleneck.UNKNOWN:
            sentence = f"{words}; no worker has said yet what its tasks do"
        case Bottleneck.DELIVERY:
            sentence = f"{words}, {_untaken(job)}"
        case Bottleneck.WORKERS:
            operator, work = busiest, advice.work_of(busiest, job.tasks)
            what = advice.on_workers(job, work, advice.wanted(loop))
            many = len({task.worker for task in job.tasks})
            sentence = (
                f"{words}; {busiest} is the bottleneck on {many} worker{'s' * (many > 1)} "
                f"({_how_busy(busiest, job.tasks)})"
            )
            sentence += f"; {what.words}" if what.words else ""
        case Bottleneck.NOTHING | Bottleneck.HERE | Bottleneck.STOPPED | Bottleneck.READERS:
            raise AssertionError(limit)
        case _:
            assert_never(limit)
    return Explanation(
        sentence,
        limit,
        share,
        operator,
        what.slots,
        more_workers=what.workers,
        parallel_calls=what.calls,
    )


def _untaken(job: JobLook) -> str:
    """Return in words that workers wait for a loop that waits for elements."""
    if job.consumers > 1 and job.backlog > BACKLOG:
        ready = sum(task.ready + task.unacked for task in job.tasks)
        return (
            f"although {ready:,} elements are ready: consumers get each round together, and other "
            "consumers are slower"
        )
    held = _share(sum(t.held_up for t in job.tasks), sum(t.seconds for t in job.tasks))
    return (
        f"and workers wait for it, too, {_percent(held)} of their time: elements are not taken "
        "fast enough; look at the link, at compression, and at what else the training process does"
    )


def _told_first(job: JobLook, loop: LoopTime | None) -> Explanation | None:
    """Return what there is to say of a job before how its loops wait, or instead of that."""
    readers = job.readers
    if job.stopped is not None:
        share = 0.0 if loop is None else loop.share
        return Explanation(job.stopped.sentence, Bottleneck.STOPPED, share)
    if loop is not None and (loop.total or loop.waiting >= BLOCKED):
        return None
    if readers.silent and readers.silent == readers.live:
        sentence = f"nothing is known of the loops of job {job.job!r}: {_readers_lost(job)}"
        return Explanation(sentence, Bottleneck.READERS, 0.0)
    if readers.unread is not None:
        how = f", {readers.lost:,} died" if readers.lost else ""
        sentence = f"nobody has read job {job.job!r} for {duration(readers.unread)}{how}"
        return Explanation(sentence, Bottleneck.READERS, 0.0)
    had = f"the loops of job {job.job!r} have had {job.had:,} elements; nothing newer is known yet"
    sentence = had if job.had else f"no loop of job {job.job!r} has had an element yet"
    if job.waiting_for:
        sentence += f": it waits for {job.waiting_for}"
    return Explanation(sentence, Bottleneck.UNKNOWN, 0.0)


def _worst_of(loop: LoopTime) -> tuple[bool, float, float]:
    return bool(loop.total or loop.waiting >= BLOCKED), loop.share, loop.waiting


def _without_element(loop: LoopTime) -> str:
    """Return in words how long a loop has had no element, if that is long."""
    if not loop.steps and not loop.waiting and loop.total:
        return f"the trainer has not asked for an element for {duration(loop.seconds)}"
    if loop.waiting < BLOCKED:
        return ""
    which = "next" if loop.total else "first"
    return f"the trainer has waited for its {which} element for {duration(loop.waiting)}"


def _why_without_element(job: JobLook, loop: LoopTime, words: str) -> Explanation:
    """Return for what a loop waits that has had no element for long."""
    if loop.waits_here:
        sentence = f"{words}: it waits for {loop.waits_for}"
        return Explanation(sentence, Bottleneck.HERE, loop.share)
    calls = [(one.call, one.label, task) for task in job.tasks for one in task.operators]
    call, label, task = max(calls, key=_first, default=(0.0, "", None))
    if task is not None and call >= BLOCKED:
        where = f"in {task.name} on worker {task.worker}"
        sentence = f"{words}: {label} {where} has not returned for {duration(call)}"
        return Explanation(sentence, Bottleneck.WORKERS, loop.share, label)
    what = job.waiting_for or loop.waits_for
    if not what:
        return Explanation(words, Bottleneck.UNKNOWN, loop.share)
    return Explanation(f"{words}, for {what}", Bottleneck.ABSENT, loop.share)


def _first(call: tuple[float, str, TaskLook]) -> float:
    return call[0]


def _longest_label(operators: Sequence[OperatorLook]) -> str:
    return max(operators, key=attrgetter("call")).label if operators else ""


def _limit(job: JobLook) -> tuple[Bottleneck, str]:
    if job.waiting_for and not job.tasks:
        return Bottleneck.ABSENT, ""
    operators = [one for task in job.tasks for one in task.operators]
    if not operators:
        return Bottleneck.UNKNOWN, ""
    seconds = sum(task.seconds for task in job.tasks)
    held = _share(sum(task.held_up for task in job.tasks), seconds)
    if held > HELD_UP or (job.consumers > 1 and job.backlog > BACKLOG):
        return Bottleneck.DELIVERY, ""
    worked: dict[str, float] = {}
    for one in operators:
        worked[one.label] = worked.get(one.label, 0.0) + one.worked
    return Bottleneck.WORKERS, max(worked, key=worked.__getitem__)


def _how_busy(label: str, tasks: Sequence[TaskLook]) -> str:
    worked = sum(one.worked for task in tasks for one in task.operators if one.label == label)
    share = _share(worked, sum(task.seconds for task in tasks))
    busy = f"{_percent(share)} of their time" if share <= 1 else f"{share:.1f} calls at a time"
    remote = _share(sum(task.remote for task in tasks), sum(task.seconds for task in tasks))
    return f"{busy}; {_percent(remote)} they wait for object storage" if remote > SLOW else busy


def _job_figures(
    job: JobLook, last: Slowest | None, links: Iterable[tuple[int, LinkTraffic]]
) -> Iterable[str]:
    yield from _task_figures(job.tasks)
    if last is not None:
        yield str(last)
    for reader, link in links:
        yield _link_figure(f"reader {reader}", link)


def _made_on_workers(job: JobLook | None) -> tuple[str, ...]:
    return () if job is None else tuple(f"on workers: {one}" for one in job.figures)


def _task_figures(tasks: Sequence[TaskLook]) -> Iterable[str]:
    for task in tasks:
        yield from _figures(f"{task.name} on {task.worker}", task.operators, task.seconds)
        if task.held_up or task.starved:
            held, starved = (
                _percent(_share(s, task.seconds)) for s in (task.held_up, task.starved)
            )
            yield f"{task.name}: held up {held} of its time, without splits {starved}"
        compressed = f", compression {task.compression}" if task.compression else ""
        yield (
            f"{task.name}: {task.ready:,} elements ready for readers, {task.unacked:,} "
            f"unacked at them, {_filled(task.nbytes, task.room)}{compressed}"
        )


def _link_figure(where: str, link: LinkTraffic) -> str:
    compressed = f", {link.compression}" if link.compression not in ("", Codec.NONE.value) else ""
    if link.raw_nbytes > link.nbytes:
        compressed += f", ratio {link.raw_nbytes / link.nbytes:.1f}"
    return (
        f"{where}: from {link.worker} by {link.transport} {link.rate / 1e6:,.1f} MB/s, "
        f"{link.nbytes / 1e6:,.1f} MB in {link.frames:,} frames{compressed}, "
        f"{_filled(link.held, link.room)}"
    )


def _filled(nbytes: int, room: int) -> str:
    """Return how full a buffer is; one without *room* is bounded in frames."""
    of = f" of {room / 1e6:,.1f}" if room else ""
    return f"{nbytes / 1e6:,.1f}{of} MB buffered"


def _figures(where: str, operators: Sequence[OperatorLook], seconds: float) -> tuple[str, ...]:
    return tuple(
        f"{where}: {one.label} works {_percent(_share(one.worked, seconds))}, waits "
        f"{_percent(_share(one.waited, seconds))}, {one.elements:,} elements"
        for one in operators
    )


def _worked(one: OperatorLook) -> float:
    return one.worked


def _waits(share: float, more: str) -> str:
    return f"the trainer waits {_percent(share)} of its time ({more})"


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _seconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
