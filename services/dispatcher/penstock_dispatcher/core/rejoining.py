"""Joining an iteration that was read before: the reply says what is gone, and who had it.

A loop that joins an iteration that is over is given nothing, and one that joins what readers left
behind is given the rest of it. Both are what a name means, and seldom what was meant.
"""

from __future__ import annotations

from penstock.protocol.control import OpenIterationRequest
from penstock.protocol.types import ReaderId, ReaderStatus
from penstock_dispatcher.core import account, jobs
from penstock_dispatcher.core.context import REUNION, DecisionContext
from penstock_dispatcher.core.records import IterationRecord

LATE = 5
"""So many intervals without a beat after which nobody counts on a reader."""

NAMED = 4
"""So many readers are named, those that read most; the others are counted."""


def read_before(
    desk: DecisionContext, request: OpenIterationRequest, plan: jobs.Plan, now: float
) -> str:
    """Say what was read before of the pass that *request* joins, and by whom.

    That is nothing if it is new, is shared with readers that are there, or goes on from a saved
    state.
    """
    if request.job_name is None or request.restore or plan.facts:
        return ""
    this = f"job {plan.job!r}, repetition {request.repetition}"
    iteration = desk.books.iterations.get(plan.iteration)
    if iteration is None:
        return f"{this} is over: it was read before, and its readers are forgotten here"
    taken = account.of(iteration, desk.heard).taken
    if not taken:
        return ""
    if iteration.finished:
        return f"{this} is over: {_elements(taken)} went to {_readers(desk, iteration)}"
    if _attended(desk, iteration, now):
        return ""
    return (
        f"{this} was read before: {_elements(taken)} went to {_readers(desk, iteration)}, and "
        "it has no reader now"
    )


def _attended(desk: DecisionContext, iteration: IterationRecord, now: float) -> bool:
    """Say whether a reader is there, or may come back from the dispatcher's own absence."""
    return any(_is_there(desk, iteration, reader, now) for reader in iteration.live)


def _is_there(
    desk: DecisionContext, iteration: IterationRecord, reader: ReaderId, now: float
) -> bool:
    word, token = desk.heard.readers.get(reader), iteration.readers[reader].token
    if word is None or word.beat.beat < 0:  # not heard since a restart
        return now < desk.heard.since + REUNION
    silence = desk.heard.silence(word.at, now)
    return token in desk.heard.lines and silence < LATE * desk.settings.refresh_interval


def _readers(desk: DecisionContext, iteration: IterationRecord) -> str:
    words = desk.heard.readers
    handed = {
        name: max(known.handed, words[name].beat.handed if name in words else 0)
        for name, known in iteration.readers.items()
    }
    had = sorted((name for name in handed if handed[name]), key=lambda name: -handed[name])
    shown = [
        iteration.called(name, f"{_elements(handed[name])}{_end(iteration, name)}")
        for name in had[:NAMED]
    ]
    if len(had) > NAMED:
        shown.append(f"{len(had) - NAMED} more")
    return ", ".join(shown) or "readers that are not known any more"


def _end(iteration: IterationRecord, reader: ReaderId) -> str:
    match iteration.readers[reader].standing:
        case ReaderStatus.GONE:
            return ", expired"
        case ReaderStatus.LEFT:
            return ", left"
    return "" if iteration.finished else ", its connection is closed"


def _elements(count: int) -> str:
    return f"{count:,} element{'s' * (count != 1)}"
