"""The first line of the page: is my training waiting, and for what?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from penstock.explanation.trouble import Trouble, TroubleKind, counted
from penstock_dispatcher.page.job_view import JobView
from penstock_dispatcher.page.standing import PassStanding

WAITS = 0.05
"""A loop that waits for less of its time gains little by more workers."""


LONGEST = 110
"""The first clause of a longer sentence on a problem is the first line; all of it is below."""

_FIRST_CLAUSE = re.compile(r" \(|, and |; |\. ")


class Tone(Enum):
    """How good that is which the headline says."""

    IDLE = "idle"
    GOOD = "good"
    WAITS = "waits"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Headline:
    """A sentence with a figure in it, on the pass of *iteration* if it is about one."""

    tone: str
    before: str
    number: str
    after: str
    detail: str = ""
    iteration: int | None = None


def headline(jobs: Sequence[JobView], workers: int, trouble: Trouble | None) -> Headline:
    """Return the headline of *jobs* with *workers* workers: the worst first.

    A problem that stops all jobs comes before problems of one job. *trouble* is the worst that is
    wrong with the mesh.
    """
    if trouble is not None and trouble.stops:
        return _troubled(trouble)
    for find in (_unbalanced, _failed):
        found = next((said for one in jobs if (said := find(one)) is not None), None)
        if found is not None:
            return found
    running = [one for one in jobs if one.standing == PassStanding.RUNNING.value]
    if trouble is not None:
        return _troubled(trouble, max(running, key=_need, default=None))
    if not running:
        return _nothing_runs(jobs, workers)
    worst = max(running, key=_need)
    if worst.wait >= WAITS or _is_held(worst):
        return _waiting(worst, running)
    return _going(worst, running)


def _troubled(trouble: Trouble, worst: JobView | None = None) -> Headline:
    tone = Tone.WAITS if trouble.kind is TroubleKind.RECOVERING else Tone.BAD
    sentence, detail = trouble.sentence, ""
    if len(sentence) > LONGEST:
        sentence, detail = _FIRST_CLAUSE.split(sentence, maxsplit=1)[0], sentence
    if worst is None:
        return Headline(tone.value, sentence, "", "", detail)
    return Headline(tone.value, sentence, "", "", detail or worst.sentence, worst.iteration)


def _unbalanced(one: JobView) -> Headline | None:
    if not one.balance.faults:
        return None
    faults = one.balance.faults
    before = f"The account of {name_of(one)} does not balance, in"
    return Headline(
        Tone.BAD.value, before, counted(len(faults), "place"), "", faults[0], one.iteration
    )


def _failed(one: JobView) -> Headline | None:
    if one.standing != PassStanding.FAILED.value:
        return None
    number, why = counted(one.tasks.failed, "task"), next(iter(one.troubles), "")
    return Headline(Tone.BAD.value, "", number, f"of {name_of(one)} failed", why, one.iteration)


def _nothing_runs(jobs: Sequence[JobView], workers: int) -> Headline:
    unread = [one for one in jobs if one.standing == PassStanding.UNREAD.value]
    there = f"{counted(workers, 'worker')} ready"
    if unread:
        after = f"without a reader; {there}"
        detail = f"nobody takes elements of {name_of(unread[0])}"
        count = counted(len(unread), "job")
        return Headline(Tone.IDLE.value, "", count, after, detail, unread[0].iteration)
    return Headline(Tone.IDLE.value, "No job runs;", there, "")


def _is_held(one: JobView) -> bool:
    return bool(one.waiting_for) and not one.tasks.running


def _need(one: JobView) -> tuple[bool, float]:
    return _is_held(one), one.wait


def _waiting(worst: JobView, running: Sequence[JobView]) -> Headline:
    before, number, after = f"{name_of(worst)} waits", _percent(worst.wait), "of its time"
    if worst.wait < WAITS:
        number, after = "", f"for {worst.waiting_for}"
    elif worst.limit == "workers":
        after += f", for {worst.operator} on workers"
    elif worst.limit == "here":
        after += ", for an operator in the training process"
    elif worst.limit == "delivery":
        after += ", and workers wait, too: their elements are not taken fast enough"
    elif worst.waiting_for:
        after += f", for {worst.waiting_for}"
    detail = _detail(worst, running)
    return Headline(Tone.WAITS.value, before, number, after, detail, worst.iteration)


def _going(worst: JobView, running: Sequence[JobView]) -> Headline:
    if worst.limit != "nothing":
        return Headline(Tone.IDLE.value, worst.sentence, "", "", "", worst.iteration)
    before, after = f"{name_of(worst)} is not waiting for data: it waits", "of its time"
    if len(running) > 1:
        before = f"None of {len(running)} jobs is waiting for data: none waits more than"
    detail = _detail(worst, running)
    return Headline(Tone.GOOD.value, before, _percent(worst.wait), after, detail, worst.iteration)


def _detail(worst: JobView, running: Sequence[JobView]) -> str:
    waiting = sum(one.wait >= WAITS for one in running)
    others = f"{waiting} of {len(running)} jobs wait; " if len(running) > 1 else ""
    return others + worst.sentence


def name_of(one: JobView) -> str:
    """Return what the job of a pass is called: without a name, by its pipeline."""
    return one.outline if one.private and one.outline else one.job


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
