"""How a job is, the worst first, and for what it waits: for the page and for commands."""

from __future__ import annotations

from enum import IntEnum

from penstock.explanation.looks import JobLook
from penstock.explanation.trouble import readers_lost
from penstock.explanation.verdict import WAITS, Bottleneck, Explanation
from penstock_dispatcher.core.stats import IterationStats
from penstock_dispatcher.page.nouns import counted


class Grade(IntEnum):
    """How a job is, the worst first."""

    FAILED = 0
    STOPPED = 1
    """Its loops do not get elements, or nothing is known of them."""
    WAITS = 2
    UNKNOWN = 3
    """Too little is known of its loops yet."""
    NOTED = 4
    """Its loops do not wait; readers died, or it left out elements."""
    HEALTHY = 5


def graded(it: IterationStats, look: JobLook, told: Explanation) -> tuple[Grade, str]:
    """Return how a pass is, and what it waits for or what is wrong, in a few words."""
    failure = next((task.failure for task in it.tasks if task.failure), None)
    if failure:
        return Grade.FAILED, f"failed: {failure.strip().partition(chr(10))[0]}"
    if stopped := _stopped(it, look, told):
        return Grade.STOPPED, stopped
    readers = look.readers
    of = readers_lost(readers.lost, readers.silent, readers.live + readers.lost)
    if told.limit is Bottleneck.UNKNOWN and told.wait < WAITS:
        return Grade.UNKNOWN, of or told.sentence
    if told.limit is not Bottleneck.NOTHING:
        return Grade.WAITS, _what(told, it, of)
    errors = it.account.errors
    noted = of or (f"left out {counted(errors, 'error')}" if errors else "")
    return (Grade.NOTED if noted else Grade.HEALTHY), noted


def _stopped(it: IterationStats, look: JobLook, told: Explanation) -> str:
    """Return why the loops of a pass get nothing, if that is so."""
    lost = next((one.lost for one in it.rounds.consumers if one.lost), "") if it.rounds else ""
    if lost:
        return f"lost: {lost}"
    if told.limit in (Bottleneck.STOPPED, Bottleneck.READERS):
        return told.sentence
    return "" if look.running else it.waiting_for


def _what(told: Explanation, it: IterationStats, died: str) -> str:
    """Return for what loops wait, in a few words: `penstock explain` has the sentence."""
    match told.limit:
        case Bottleneck.WORKERS if told.operator:
            what = f"{told.operator} on workers"
        case Bottleneck.HERE if told.operator:
            what = f"{told.operator} in the training process"
        case Bottleneck.DELIVERY:
            what = "what is made to be taken"
        case _:
            what = it.waiting_for or told.sentence
    return f"{what}; {died}" if died else what
