"""What a worker has counted since it started, and what an attempt has cost."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.control import ElementCounts


@dataclass(slots=True)
class WorkerCounters:
    """Counters; they only grow. *doubted* and *given_back* are numbers of elements."""

    frames_made: int = 0
    elements_made: int = 0
    bytes_made: int = 0
    frames_sent: int = 0
    elements_sent: int = 0
    bytes_sent: int = 0
    elements_taken: int = 0
    given_back: int = 0
    doubted: int = 0
    frames_lent: int = 0
    recalls: int = 0
    runs_started: int = 0
    runners_lost: int = 0

    def made(self, elements: int, nbytes: int) -> None:
        """Count a made frame."""
        self.frames_made += 1
        self.elements_made += elements
        self.bytes_made += nbytes

    def sent(self, elements: int, nbytes: int) -> None:
        """Count a sent frame."""
        self.frames_sent += 1
        self.elements_sent += elements
        self.bytes_sent += nbytes


@dataclass(slots=True)
class AttemptCounters:
    """What an attempt has cost (see `ElementCounts`). The runner stands at element *at*."""

    at: int
    made: int = 0
    remade: int = 0
    sent: int = 0
    given_back: int = 0
    skipped: int = 0
    again: int = 0
    """Elements that exist and are made again: those of an inexact pipeline may be others."""
    exact: bool = True
    more: int = 0
    """What of `again` is the present runner's."""

    def begin(self, at: int, again: int) -> None:
        """Know that a runner begins *at* a number, and makes so many again."""
        self.at, self.more = at, again
        self.again += again

    def not_begun(self) -> None:
        """Know that it did not begin after all."""
        self.again -= self.more

    def reach(self, number: int, head: int) -> None:
        """Know that the runner has made all before *number*; below *head* that was done before."""
        if number > self.at:
            self.made += number - self.at
            self.remade += max(0, min(number, head) - self.at)
            self.at = number

    def work(self) -> ElementCounts:
        """Return it as it travels."""
        inexact = 0 if self.exact else self.again
        return ElementCounts(
            self.made, self.remade, self.sent, self.given_back, self.skipped, inexact
        )
