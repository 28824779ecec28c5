"""The problems of a cluster, the worst first: one decision for the page, `status` and `explain`.

A problem that stops all jobs comes first, then one that stops a job, then one that makes it slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

SILENT = 3.0
"""Seconds after which silence is shown: three heartbeats."""

REUNION = 10.0
"""Seconds after the start of a dispatcher within which workers and readers reconnect."""


class TroubleKind(Enum):
    """The problems, the worst first."""

    HALTED = "the dispatcher decides nothing"
    RECOVERING = "workers have not reconnected yet"
    NO_WORKER = "no worker is registered"
    WORKERS_SILENT = "no worker answers"
    READERS_LOST = "readers died or are silent"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A problem, in a *sentence*."""

    kind: TroubleKind
    sentence: str

    @property
    def stops(self) -> bool:
        """Whether the problem stops all jobs."""
        return self.kind is not TroubleKind.READERS_LOST


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A registered worker, and for how many seconds it has been *silent*."""

    connected: bool
    silent: float


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A pass that runs: how many readers are *live*, *silent* among them, and *lost*.

    If it has no live reader, the last one left *unread* seconds ago.
    """

    live: int = 0
    silent: int = 0
    lost: int = 0
    unread: float | None = None


@dataclass(frozen=True, slots=True)
class MeshFacts:
    """The counts of a dispatcher that show problems.

    If the dispatcher decides nothing, *halted* says why. Its process started *up* seconds ago. If a
    worker was lost, the last one was heard *worker_lost* seconds ago.
    """

    address: str
    halted: str
    up: float
    workers: tuple[WorkerFacts, ...]
    jobs: tuple[JobFacts, ...]
    worker_lost: float | None = None


def first_trouble(mesh: MeshFacts) -> Trouble | None:
    """Return the worst problem of *mesh*; None if all is well."""
    if mesh.halted:
        why = mesh.halted.replace("the dispatcher", "it", 1)
        return Trouble(TroubleKind.HALTED, f"The dispatcher decides nothing: {why}")
    wanted = any(job.live for job in mesh.jobs)
    found = _workers(mesh) if wanted else None
    return _readers(mesh.jobs) if found is None else found


def _workers(mesh: MeshFacts) -> Trouble | None:
    workers = mesh.workers
    heard = [one for one in workers if one.connected and one.silent < SILENT]
    if heard:
        return None
    if mesh.up < REUNION and not any(one.connected for one in workers):
        known = f"{counted(len(workers), 'worker')} to reconnect" if workers else "workers"
        sentence = f"The dispatcher started {_ago(mesh.up)}, and waits for {known}"
        return Trouble(TroubleKind.RECOVERING, sentence)
    if not workers:
        lost = mesh.worker_lost
        since = "" if lost is None else f": the last was heard {_ago(lost)}"
        sentence = f"No worker is registered at {mesh.address}{since}"
        return Trouble(TroubleKind.NO_WORKER, sentence)
    least = min(one.silent for one in workers)
    sentence = (
        f"None of {counted(len(workers), 'worker')} answers: the last was heard {_ago(least)}"
    )
    return Trouble(TroubleKind.WORKERS_SILENT, sentence)


def _readers(jobs: Iterable[JobFacts]) -> Trouble | None:
    known = [job for job in jobs if job.live or job.lost]
    lost, silent = sum(job.lost for job in known), sum(job.silent for job in known)
    if not lost and not silent:
        return None
    all_of = sum(job.live for job in known) + lost
    sentence = readers_lost(lost, silent, all_of)
    unread = [job for job in known if not job.live]
    if unread and len(known) > 1:
        sentence += f"; nobody reads {len(unread)} of {len(known)} jobs"
    return Trouble(TroubleKind.READERS_LOST, sentence)


def readers_lost(lost: int, silent: int, all_of: int) -> str:
    """Return in words how many of *all_of* readers died, and how many are silent, if any.

    >>> readers_lost(31, 0, 32), readers_lost(2, 1, 4), readers_lost(0, 1, 1)
    ('31 of 32 readers died', '2 of 4 readers died, and 1 is silent', '1 of 1 reader is silent')
    """
    of = f" of {counted(all_of, 'reader')}"
    quiet = "is silent" if silent == 1 else "are silent"
    if lost:
        return f"{lost:,}{of} died" + f", and {silent:,} {quiet}" * bool(silent)
    return f"{silent:,}{of} {quiet}" if silent else ""


def _ago(seconds: float) -> str:
    return f"{duration(seconds)} ago"


def duration(seconds: float) -> str:
    """Return *seconds* in words, in the unit that fits.

    >>> duration(4.2), duration(510), duration(9000)
    ('4.2 s', '8.5 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 100 else f"{minutes / 60:.1f} h"


def counted(number: int, noun: str, nouns: str = "") -> str:
    """Return *number* with its noun; several have the plural *nouns*, by default with an s.

    >>> counted(1200, "task"), counted(1, "task"), counted(2, "pass", "passes")
    ('1,200 tasks', '1 task', '2 passes')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"
