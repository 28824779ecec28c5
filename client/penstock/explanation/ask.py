"""`explain`: ask an iterator, and the dispatcher of its job, why the loop waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from penstock.errors import Unavailable
from penstock.explanation import mesh
from penstock.explanation.looks import IteratorStats, JobLook
from penstock.explanation.verdict import Explanation, explain_loop
from penstock.protocol.loop_time import PassRead

PATIENCE = 5.0
"""Seconds that a dispatcher has to answer."""


class Measured(Protocol):
    """An iterator of `iter(dataset)`."""

    def stats(self) -> IteratorStats:
        """Return how long the loop waits, and how long operators here work."""
        ...


def explain(iterator: Measured) -> Explanation:
    """Return what a training loop waits for, and what would hide that: a sentence with numbers.

    The loop's wait is that of about the last ten seconds, so ask in mid-training, from the loop or
    from another thread. Workers and readers report once a second.

    Args:
        iterator: what the loop reads: ``iter(dataset)`` or ``dataset.iterator()``.

    Of a dispatcher that does not answer within five seconds it says so.

    Raises:
        Closed: when the iterator was closed.

    >>> from penstock import Dataset, explain
    >>> elements = iter(Dataset.range(5))
    >>> explain(elements).sentence
    'the loop has had no element yet'
    """
    stats = iterator.stats()
    return explain_loop(stats, stats.jobs[0] if stats.jobs else None)


def jobs_of(passes: Iterable[PassRead]) -> tuple[JobLook, ...]:
    """Return what dispatchers know of *passes*; those of one that does not answer are left out."""
    wanted: dict[str, set[int]] = {}
    for one in passes:
        wanted.setdefault(one.address, set()).add(one.iteration)
    return tuple(
        look
        for address, iterations in wanted.items()
        for look in _jobs(address)
        if look.iteration in iterations
    )


def _jobs(address: str) -> tuple[JobLook, ...]:
    from penstock.reader.session.line import call_dispatcher  # noqa: PLC0415  it loads gRPC
    from penstock.runtime.event_loop import LoopThread  # noqa: PLC0415  as above

    with LoopThread.shared() as loop:
        try:
            status = loop.run(call_dispatcher(address, PATIENCE, lambda d: d.status()))
            return mesh.look(status).jobs
        except Unavailable:
            return ()
