"""Remedies for a loop's wait: more calls at a time, more slots, or more workers.

A loop that waits for the share w of its time would go 1 / (1 - w) times as fast if it never waited.
So the job must make elements that many times as fast (`LoopTime.wanted`). More slots help jobs that
fill slots, more workers help jobs with one task for each worker, and more calls at a time help
functions that wait rather than compute. If no remedy is known, there is no advice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.explanation.looks import JobLook, TaskLook
from penstock.protocol.loop_time import LoopTime

MARGIN = 1.1
"""More is asked for than just enough: loops and workers are not perfectly even."""

MOST_WAIT = 0.98
"""A loop that waits longer says little of how fast it could be."""

SLEEPS = 0.5
"""A function that needs a core for less of its time waits for something else."""

PARALLEL = ("map", "map_batches", "interleave")
"""The operators that take `num_parallel_calls`."""

MOST_CALLS = 256

AHEAD = 1.0
"""If elements for so much time (in seconds) are ready out of turn, a job in one order waits for one
task. This happens at its start, when tasks are long."""

WORTH = 1.3
"""More calls at a time are advised if they make the operator at least this many times as fast."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A remedy in *words* and in numbers, each of which would be enough; 0 if none is known."""

    words: str = ""
    slots: int = 0
    workers: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    """The work of an operator: it *worked* for a part of the *seconds* of one or several runs.

    It needed a core for *cpu* seconds, and the whole run for *run_cpu*; None if not known.
    """

    label: str
    seconds: float
    worked: float
    cpu: float | None
    run_cpu: float | None

    @property
    def takes_calls(self) -> bool:
        """Whether it is an operator that takes `num_parallel_calls`."""
        return self.label.partition("(")[0] in PARALLEL

    @property
    def sleeps(self) -> bool:
        """Whether it waits for something rather than computes."""
        return self.cpu is not None and self.cpu < SLEEPS * self.worked

    @property
    def most_speed_up(self) -> float:
        """How many times as fast the run could be before it fills a core."""
        used = self.seconds if self.run_cpu is None else self.run_cpu
        return self.seconds / used if used > 0 else math.inf

    @property
    def at_once(self) -> float:
        """How many calls there are at a time."""
        return max(1.0, self.worked / self.seconds) if self.seconds > 0 else 1.0


def wanted(loop: LoopTime) -> float:
    """Return how many times as much would have to be made; 1 if that is not known yet."""
    most = 1 / (1 - MOST_WAIT)
    return min(most, max(1.0, loop.wanted or 1 / (1 - min(MOST_WAIT, loop.share))))


def work_of(label: str, tasks: Sequence[TaskLook]) -> Work:
    """Return what the operator *label* did in *tasks*."""
    rows = [one for task in tasks for one in task.operators]
    mine = [one for one in rows if one.label == label]
    known = all(one.cpu is not None for one in rows)
    return Work(
        label,
        sum(task.seconds - task.held_up for task in tasks),
        sum(one.worked for one in mine),
        sum(one.cpu or 0.0 for one in mine) if known else None,
        sum(one.cpu or 0.0 for one in rows) if known else None,
    )


def on_workers(job: JobLook, work: Work, times: float) -> Advice:
    """Return what would make *times* as much of a job that waits for *work* on its workers."""
    if times <= 1.0:
        return Advice()
    calls = _calls(work, times)
    more = _more_slots(job, work, times) if job.fills_slots else _more_workers(job, work, times)
    if calls is None:
        return more
    other = f", or {more.words}" if more.slots or more.workers else ""
    return replace(more, words=calls.words + other, calls=calls.calls)


def _more_slots(job: JobLook, work: Work, times: float) -> Advice:
    if job.running < job.slots and not job.ordered:
        return Advice(_NO_SPLITS)
    if job.ordered and (ready := job.ready_ahead) > AHEAD * sum(one.speed for one in job.tasks):
        return Advice(
            f"{ready:,} elements of later tasks are ready, and more slots would only make more of "
            "these: the loop waits for the task whose turn it is"
        )
    slots = job.slots or len(job.tasks)
    sharing, unused = 1, 0
    if job.slots:
        sharing, unused = job.sharing, max(0, slots - job.all_slots)
    more = max(1, _more(slots, times) * sharing + unused)
    computes = work.cpu is not None and not work.sleeps
    cores = " (each needs a core)" if computes else ""
    return Advice(f"{more} more slot{'s' * (more > 1)} would hide it{cores}", slots=more)


def _more(count: int, times: float) -> int:
    return max(1, math.ceil(MARGIN * count * (times - 1)))


_NO_SPLITS = (
    "its source has no splits left for the slots that are free: write it as more files, or give "
    "slow operators num_parallel_calls"
)


def here(loop: LoopTime, *, reads_job: bool) -> Advice:
    """Return what would hide the wait for the slowest operator in the training process."""
    cpu = loop.cpu_here if loop.slowest_here else None
    work = Work(loop.slowest_here, loop.seconds, loop.worked_here, cpu, cpu)
    calls = _calls(work, wanted(loop)) if wanted(loop) > 1.0 else None
    before = "put it before distribute, so that workers do it"
    if calls is not None:
        return Advice(
            f"{calls.words}; or {before}" if reads_job else calls.words, calls=calls.calls
        )
    if reads_job:
        return Advice(before)
    if work.takes_calls or not work.label:
        return Advice(
            "give it num_parallel_calls, add prefetch, or have workers do it (distribute)"
        )
    return Advice("add prefetch after it, or have workers do it (distribute)")


def _calls(work: Work, times: float) -> Advice | None:
    """Return how many calls at a time would help an operator that waits; None if none would."""
    most = work.most_speed_up
    if not work.takes_calls or not work.sleeps or most < WORTH:
        return None
    able = min(times, most)
    count = min(MOST_CALLS, math.ceil(work.at_once * (1 + MARGIN * (able - 1))))
    share = (work.cpu or 0.0) / work.worked
    effect = "would hide it" if able == times else f"would make it {able:.0f} times as fast"
    waits = f"it waits rather than computes ({100 * share:.0f} % CPU)"
    words = f"{waits}: num_parallel_calls={count} {effect}"
    return Advice(words, calls=count)


def _more_workers(job: JobLook, work: Work, times: float) -> Advice:
    workers = len({task.worker for task in job.tasks})
    more = _more(workers, times)
    words = (
        f"{more} more worker{'s' * (more > 1)} would hide it: this job has one task a worker, "
        "whatever its slots"
    )
    if work.takes_calls and not work.sleeps:
        words += '; so would num_parallel_calls with executor="process", where cores are free'
    return Advice(words, workers=more)
