"""A consumer's reports of what it has, and what the dispatcher answered to them.

A consumer reports soon, and not more often with more rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.errors import ConsumerLost
from penstock.protocol.rounds import LostConsumer, RoundsReport
from penstock.reader.core.effects import LookAgain, ReaderEffect, SendHeartbeat
from penstock.reader.core.task_stream import LONG_AGO

REPORT_EVERY, REPORT_EACH = 0.02, 0.0005
"""Seconds between two reports of a consumer, at least, and for each of them: so a dispatcher hears
some 2,000 a second of a job, however many consumers and rounds there are."""

AT_EASE, EASE = 16, 5.0
"""With so many rounds in hand, or handed out since the last report but one, a consumer reports so
many times less often: rounds that come in such numbers lose nothing by coming in larger ones."""


class RoundReports:
    """The reports of one of *consumers*, as *make* returns them; *effects* has them sent."""

    def __init__(
        self, consumers: int, make: Callable[[], RoundsReport], effects: list[ReaderEffect]
    ) -> None:
        self._least = max(REPORT_EVERY, REPORT_EACH * consumers)
        self._make, self._effects = make, effects
        self._last: RoundsReport | None = None
        self._at, self._asked, self._looking, self._wanted = LONG_AGO, False, False, False
        self._many = False
        """Whether many rounds were handed out between the last two reports."""

    def send(self, now: float) -> RoundsReport:
        """Return the report that is being sent now."""
        before, self._last, self._at = self._last, self._make(), now
        self._many = before is not None and self._last.handed - before.handed >= AT_EASE
        self._asked = self._looking = self._wanted = False
        return self._last

    def want(self) -> None:
        """Have a report sent also without news, for its answer."""
        self._wanted = True

    def soon(self, in_hand: int, now: float) -> None:
        """Have a report sent when there is news, with *in_hand* rounds, but not too often."""
        early = now < self._next_at(in_hand)
        if self._asked or (early and self._looking) or not self._has_news:
            return
        if not early:
            self._asked = True
            self._effects.append(SendHeartbeat())
        else:
            self._looking = True
            self._effects.append(LookAgain())

    def due(self, in_hand: int, at: float) -> float:
        """Return when `soon` sends a report, *at* the latest."""
        return min(at, self._next_at(in_hand)) if self._has_news and not self._asked else at

    def _next_at(self, in_hand: int) -> float:
        return self._at + (EASE if self._many or in_hand >= AT_EASE else 1.0) * self._least

    @property
    def _has_news(self) -> bool:
        return self._last is not None and (self._wanted or self._make() != self._last)


class RoundAnswers:
    """The newest answer to a consumer's heartbeats, by their sequence numbers."""

    def __init__(self) -> None:
        self.end_is_known = False
        """Whether the dispatcher wrote down that this consumer took all rounds of the pass."""
        self._newest = 0
        self._lost_since = 0
        self._end_said: int | None = None

    @property
    def lost_are_known(self) -> bool:
        """Whether it was said who is lost since the loop asked."""
        return self._newest >= self._lost_since

    def ask_for_lost(self, seq: int) -> None:
        """Record that who is lost counts from the answer to a later heartbeat than *seq* on."""
        self._lost_since = seq + 1

    def say_end(self, seq: int) -> None:
        """Record that heartbeat *seq* tells the dispatcher that the last round was taken."""
        if self._end_said is None:
            self._end_said = seq

    def on_answer(self, seq: int) -> None:
        """Record that heartbeat *seq* is answered, and all before it."""
        self._newest = max(self._newest, seq)
        if self._end_said is not None and self._newest >= self._end_said:
            self.end_is_known = True

    def on_removed(self) -> None:
        """Record that the dispatcher gave this reader up: it heard nothing under that id."""
        self._end_said = None


def lost_error(number: int, lost: Sequence[LostConsumer]) -> ConsumerLost:
    """Return what a loop is told that waits for round *number* in vain."""
    who = "; ".join(one.description for one in lost)
    return ConsumerLost(
        f"round {number} waits for {who}. It continues when that consumer is back: start it again "
        f"with start_round={number}, or a later round that all agree on"
    )
