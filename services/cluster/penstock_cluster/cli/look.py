"""The state of a cluster at one time, reduced to the jobs that ``--job NAME`` names.

NAME is the name of a job or, if no job has this name, a part of names.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from penstock.errors import ConfigError
from penstock.explanation.looks import MeshLook
from penstock_dispatcher.core.stats import DispatcherStats, IterationStats


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the cluster of *target*: *at* in monotonic seconds, *date* since 1970."""

    target: str
    at: float
    date: float
    stats: DispatcherStats
    mesh: MeshLook = field(default_factory=MeshLook)
    """The facts about running passes that explain why they are slow or fail."""


def state_of(it: IterationStats, now: Look) -> str:
    """Return the state of a pass in a few words."""
    if it.finished:
        return "finished"
    state = "failed" if any(task.failure for task in it.tasks) else "running"
    if it.unread is None:
        return f"restored, {state}" if it.restored else state
    since = time.strftime("%H:%M:%S", time.localtime(now.date - it.unread))
    unread = f"no reader since {since}"
    return f"failed, {unread}" if state == "failed" else unread


def name_of(it: IterationStats) -> str:
    """Return the name of a pass's job, or its pipeline if the job has no name."""
    return it.outline if it.private and it.outline else it.job


NAMED = 8
"""The most names that an error lists."""


def names_meant(names: Collection[str], job: str) -> frozenset[str]:
    """Return those of *names* that *job* means: all of them if it is empty.

    Raises:
        ConfigError: when it means none, with the names that there are.
    """
    found = frozenset(one for one in names if one == job)
    found = found or frozenset(one for one in names if job in one)
    if job and not found:
        known = sorted(set(names))
        more = f", and {len(known) - NAMED} more" if len(known) > NAMED else ""
        there = ", ".join(known[:NAMED]) + more if known else "none"
        raise ConfigError(f"--job: no job has {job!r} in its name; jobs are: {there}")
    return found


def passes_meant(passes: Collection[IterationStats], job: str) -> tuple[IterationStats, ...]:
    """Return those of *passes* whose job *job* means.

    Raises:
        ConfigError: as `names_meant`.
    """
    found = names_meant([name_of(it) for it in passes], job)
    return tuple(it for it in passes if name_of(it) in found)


def of_job(now: Look, job: str) -> Look:
    """Reduce *now* to the jobs that *job* names. Workers and trouble stay.

    Raises:
        ConfigError: as `names_meant`.
    """
    if not job:
        return now
    passes = passes_meant(now.stats.iterations, job)
    numbers = {it.iteration for it in passes}
    looks = tuple(one for one in now.mesh.jobs if one.iteration in numbers)
    stats = replace(now.stats, iterations=passes, registrations=(), forgotten=(), saves=())
    return replace(now, stats=stats, mesh=MeshLook(looks, now.mesh.trouble))
