"""Counters of a worker since its start, and of the elements of an attempt."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.control import ElementCounts
from penstock.protocol.measures import Measure


@dataclass(slots=True)
class WorkerCounters:
    """Counters; they only grow. *in_doubt* and *requeued* are numbers of elements."""

    frames_made: int = 0
    elements_made: int = 0
    bytes_made: int = 0
    frames_sent: int = 0
    elements_sent: int = 0
    bytes_sent: int = 0
    elements_acked: int = 0
    requeued: int = 0
    in_doubt: int = 0
    frames_dropped: int = 0
    recalls: int = 0
    runs_started: int = 0
    runners_lost: int = 0

    def add_made(self, elements: int, nbytes: int) -> None:
        """Count a produced frame."""
        self.frames_made += 1
        self.elements_made += elements
        self.bytes_made += nbytes

    def add_sent(self, elements: int, nbytes: int) -> None:
        """Count a sent frame."""
        self.frames_sent += 1
        self.elements_sent += elements
        self.bytes_sent += nbytes


@dataclass(slots=True)
class AttemptCounters:
    """The element counts of an attempt (see `ElementCounts`). The runner is at element *head*."""

    head: int
    produced: int = 0
    replayed: int = 0
    sent: int = 0
    requeued: int = 0
    skipped: int = 0
    to_replay: int = 0
    """Elements that exist and are replayed: those of a nondeterministic pipeline may differ."""
    exact: bool = True
    by_this_runner: int = 0
    """The part of `to_replay` that the present runner added; it has not begun yet."""

    def on_started(self, at: int, replays: int) -> None:
        """Record that a runner begins at number *at*, and replays *replays* elements."""
        self.head, self.by_this_runner = at, replays
        self.to_replay += replays

    def on_not_started(self) -> None:
        """Record that it did not begin after all."""
        self.to_replay -= self.by_this_runner

    def advance(self, number: int, head: int) -> None:
        """Record that the runner has produced all before *number*; below *head*, a replay."""
        if number > self.head:
            self.by_this_runner = 0  # it did begin
            self.produced += number - self.head
            self.replayed += max(0, min(number, head) - self.head)
            self.head = number

    def counts(self, measures: tuple[Measure, ...] = ()) -> ElementCounts:
        """Return the counts of a heartbeat, with the *measures* of its runners."""
        nondeterministic = 0 if self.exact else self.to_replay
        counts = self.produced, self.replayed, self.sent, self.requeued, self.skipped
        return ElementCounts(*counts, nondeterministic, measures)
