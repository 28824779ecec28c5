"""Which workers are read on which hosts: one that another reader there cannot reach is slow.

A worker whose host has more to do than it can does not answer for many seconds, though it lives and
its readers get what it makes. A task that leaves it then has to begin anew, at a worker that is as
busy and is no sooner there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.nearness import LOCAL_TRANSPORT
from penstock.protocol.types import WorkerId

STANDS = 1.0
"""Seconds for which what was found stands: then there is a newer heartbeat of each reader."""


@dataclass(frozen=True, slots=True)
class HeardNearby:
    """The workers that are *read*, each with the name of a reader's host, as found at some time."""

    at: float
    read: frozenset[tuple[str, str]]

    def stands(self, now: float) -> bool:
        """Return whether it need not be found out again."""
        return self.at <= now < self.at + STANDS

    def on_host_of(self, reader: ReaderHeartbeat, worker: WorkerId) -> bool:
        """Return whether some reader on the host of *reader* reads from *worker*."""
        return reader.process is not None and (reader.process.host, worker) in self.read


def find(heartbeats: Iterable[ReaderHeartbeat], now: float) -> HeardNearby:
    """Return who is read where, as the newest *heartbeats* of readers say."""
    found = set[tuple[str, str]]()
    for heartbeat in heartbeats:
        if heartbeat.process is None or not heartbeat.process.host:
            continue
        host, missed = heartbeat.process.host, heartbeat.unreachable
        for link in heartbeat.links:
            # What comes within a process says nothing of the way to it.
            if link.rate > 0 and link.transport != LOCAL_TRANSPORT and link.worker not in missed:
                found.add((host, link.worker))
    return HeardNearby(now, frozenset(found))
