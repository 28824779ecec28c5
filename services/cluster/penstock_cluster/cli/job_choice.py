"""Which jobs ``--job NAME`` means: those with that name, else those with it in their names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from penstock.errors import ConfigError
from penstock.explanation.looks import MeshLook
from penstock_cluster.cli.job_rows import name_of
from penstock_cluster.cli.look import Look
from penstock_dispatcher.core.stats import IterationStats

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
    stats = replace(now.stats, iterations=passes, registrations=(), forgotten=())
    return replace(now, stats=stats, mesh=MeshLook(looks, now.mesh.trouble))
