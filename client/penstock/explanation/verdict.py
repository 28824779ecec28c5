"""What limits a training loop, in a sentence with numbers; and what would hide its wait.

A loop that waits for the share w of its time would go 1 / (1 - w) times as fast if it never waited.
As many times as much has to be made for it: so T tasks that are busy become T / (1 - w).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from penstock.explanation.looks import IteratorStats, JobLook, OperatorLook, TaskLook
from penstock.explanation.slowest import Slowest, slowest
from penstock.protocol.loop_time import LinkTraffic
from penstock.protocol.types import Codec

WAITS = 0.05
"""A loop that waits for less of its time gains little."""

HELD_UP = 0.3
"""A task that nobody takes from for so much of its time is not what is waited for."""

MARGIN = 1.1
"""More is asked for than just enough: loops and workers are not perfectly even."""

MOST_WAIT = 0.98
"""A loop that waits longer says little of how fast it could be."""


class Bottleneck(Enum):
    """What a loop waits for most."""

    NOTHING = "the loop itself"
    UNKNOWN = "not known yet"
    ABSENT = "something that is not there"
    HERE = "operators in the training process"
    WORKERS = "operators on workers"
    DELIVERY = "what is made is not taken"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a loop waits for. As text: a sentence, and the figures that it rests on.

    *wait* is the share of its time that the loop waits, from 0 to 1; *operator* the slowest one, on
    workers or here, if that is the limit; *more_slots* how many more tasks at a time would hide it.
    *slowest* is the task that makes least, and the worker, if workers have made anything.
    """

    sentence: str
    limit: Bottleneck
    wait: float
    operator: str = ""
    more_slots: int = 0
    figures: tuple[str, ...] = ()
    slowest: Slowest | None = None

    def __str__(self) -> str:
        return "\n".join((self.sentence, *(f"  {line}" for line in self.figures)))


def explain_loop(loop: IteratorStats, job: JobLook | None) -> Explanation:
    """Return what limits *loop*, which reads *job* if that is there."""
    time, whole = loop.newest, loop.loop
    wait = time.share
    here = _figures("here", loop.operators, whole.seconds)
    here += tuple(_link_figure("here", one) for one in loop.links)
    if not time.steps or time.seconds <= 0:
        sentence = "the loop has had no element yet"
        return Explanation(sentence, Bottleneck.UNKNOWN, wait, figures=here)
    waits = _waits(wait, f"p50 {_seconds(time.p50)}, p99 {_seconds(time.p99)} a step")
    if wait < WAITS:
        return Explanation(
            f"{waits}; it is itself the limit", Bottleneck.NOTHING, wait, figures=here
        )
    far = sum(one.waited for one in loop.operators) if loop.reads_job else 0.0
    if loop.reads_job and job is None and far >= whole.waited / 2:
        sentence = f"{waits}, for its job; the dispatcher does not say what that does"
        return Explanation(sentence, Bottleneck.UNKNOWN, wait, figures=here)
    if job is None or far < whole.waited / 2:
        slowest = max(loop.operators, key=_worked, default=None)
        label = "its pipeline" if slowest is None else slowest.label
        remedy = (
            "give it num_parallel_calls, or put it before distribute"
            if loop.reads_job
            else "give it num_parallel_calls, add prefetch, or have workers do it (distribute)"
        )
        sentence = f"{waits}; {label} in the training process is the bottleneck: {remedy}"
        return Explanation(sentence, Bottleneck.HERE, wait, label, figures=here)
    found = explain_job(job, waits=(wait, waits))
    return replace(found, wait=wait, figures=here + found.figures)


def explain_job(job: JobLook, *, waits: tuple[float, str] | None = None) -> Explanation:
    """Return what limits the loops that read *job*: that of the one that waits most.

    *waits* is the wait of a loop, and that in words, if one is asked about.
    """
    last = slowest(job.tasks)
    # A loop that is asked about says itself what came to it.
    figures = tuple(_job_figures(job, last, links=() if waits else job.links))
    share, words = waits or _worst(job)
    if not words:
        sentence = f"no loop of job {job.job!r} has had an element yet"
        if job.waiting_for:
            sentence += f": it waits for {job.waiting_for}"
        return Explanation(sentence, Bottleneck.UNKNOWN, 0.0, figures=figures, slowest=last)
    if share < WAITS:
        sentence = f"{words}; it is itself the limit"
        return Explanation(sentence, Bottleneck.NOTHING, share, figures=figures, slowest=last)
    limit, busiest = _limit(job)
    operator, more = "", 0
    match limit:
        case Bottleneck.ABSENT:
            sentence = f"{words}, for {job.waiting_for}"
        case Bottleneck.UNKNOWN:
            sentence = f"{words}; no worker has said yet what its tasks do"
        case Bottleneck.DELIVERY:
            held = _share(sum(t.held_up for t in job.tasks), sum(t.seconds for t in job.tasks))
            sentence = (
                f"{words}, and workers wait for it, too, {_percent(held)} of theirs: what is made "
                "is not taken fast enough; look at the link, at compression, and at what else the "
                "training process does"
            )
        case Bottleneck.WORKERS:
            operator, more = busiest, _more(len(job.tasks), share)
            many = len({task.worker for task in job.tasks})
            where = f"on {many} worker{'s' * (many > 1)}"
            sentence = (
                f"{words}; {busiest} is the bottleneck {where} "
                f"({_percent(_share_of(busiest, job.tasks))} of their time); "
                f"{more} more slot{'s' * (more > 1)} would hide it"
            )
        case Bottleneck.NOTHING | Bottleneck.HERE:
            raise AssertionError(limit)
        case _:
            assert_never(limit)
    return Explanation(sentence, limit, share, operator, more, figures, last)


def _worst(job: JobLook) -> tuple[float, str]:
    """Return the wait of the loop that waits most, and that in words; nothing before a step."""
    loops = [loop for loop in job.loops if loop.steps and loop.seconds > 0]
    if not loops:
        return 0.0, ""
    worst = max(loops, key=lambda loop: loop.share)
    return worst.share, _waits(worst.share, f"{worst.steps / worst.seconds:,.0f} steps a second")


def _limit(job: JobLook) -> tuple[Bottleneck, str]:
    if job.waiting_for and not job.tasks:
        return Bottleneck.ABSENT, ""
    operators = [one for task in job.tasks for one in task.operators]
    if not operators:
        return Bottleneck.UNKNOWN, ""
    seconds = sum(task.seconds for task in job.tasks)
    if _share(sum(task.held_up for task in job.tasks), seconds) > HELD_UP:
        return Bottleneck.DELIVERY, ""
    worked: dict[str, float] = {}
    for one in operators:
        worked[one.label] = worked.get(one.label, 0.0) + one.worked
    return Bottleneck.WORKERS, max(worked, key=worked.__getitem__)


def _more(tasks: int, share: float) -> int:
    share = min(share, MOST_WAIT)
    return max(1, math.ceil(MARGIN * tasks * share / (1 - share)))


def _share_of(label: str, tasks: Sequence[TaskLook]) -> float:
    worked = sum(one.worked for task in tasks for one in task.operators if one.label == label)
    return _share(worked, sum(task.seconds for task in tasks))


def _job_figures(
    job: JobLook, last: Slowest | None, links: Iterable[tuple[int, LinkTraffic]]
) -> Iterable[str]:
    yield from _task_figures(job.tasks)
    if last is not None:
        yield str(last)
    for reader, link in links:
        yield _link_figure(f"reader {reader}", link)


def _task_figures(tasks: Sequence[TaskLook]) -> Iterable[str]:
    for task in tasks:
        yield from _figures(f"task {task.task} on {task.worker}", task.operators, task.seconds)
        if task.held_up or task.starved:
            held, starved = (
                _percent(_share(s, task.seconds)) for s in (task.held_up, task.starved)
            )
            yield f"task {task.task}: held up {held} of its time, without splits {starved}"
        compressed = f", compression {task.compression}" if task.compression else ""
        yield (
            f"task {task.task}: {task.ready:,} elements ready for readers, {task.unacked:,} "
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
