"""Hearing readers: they join, say what they hold, and leave."""

from __future__ import annotations

from penstock.errors import UnknownIteration
from penstock.messages import Failure, ReaderBeat
from penstock.numbers import ReaderId, Standing
from penstock_dispatcher.core import jobs
from penstock_dispatcher.core.books import Iteration
from penstock_dispatcher.core.desk import Desk
from penstock_dispatcher.core.facts import ReaderJoined
from penstock_dispatcher.core.signals import HangUp

NOBODY = ReaderId(0)
"""Stands for a reader that has no id and needs none."""


def beat(desk: Desk, beat: ReaderBeat, now: float) -> None:
    """Hear a reader; let it in if it is new."""
    desk.counts.reader_beats += 1
    iteration = desk.books.iterations.get(beat.iteration)
    if iteration is None or iteration.finished:
        _too_late(desk, beat, iteration)
        return
    reader = _name(desk, beat, iteration)
    for task, holding in beat.holdings.items():
        if task in iteration.tasks:
            desk.heard.learn(task, holding.taken)
    known = iteration.readers.get(reader)
    if known is not None and known.standing is Standing.LIVE:
        desk.heard.reader_beat(reader, beat, now)
        if beat.leaving:
            desk.part(beat.iteration, reader, Standing.LEFT, now)
    standing = known.standing if known is not None else Standing.GONE
    if reader == NOBODY:
        standing = Standing.LEFT
    desk.news.answer(beat, reader, standing)


def _name(desk: Desk, beat: ReaderBeat, iteration: Iteration) -> ReaderId:
    """Return the reader's id, a new one if it has none: written before it is answered."""
    if beat.reader is not None:
        return beat.reader
    reader = iteration.tokens.get(beat.token)
    if reader is not None and iteration.readers[reader].standing is Standing.LIVE:
        return reader
    if beat.leaving:
        return NOBODY  # who holds nothing simply goes
    reader = ReaderId(desk.books.next_id)
    desk.write(ReaderJoined(beat.iteration, reader, beat.token))
    desk.unsettled[beat.iteration] = None
    return reader


def _too_late(desk: Desk, beat: ReaderBeat, iteration: Iteration | None) -> None:
    """Answer a reader of an iteration that is over; nothing of it becomes fact."""
    if iteration is None and beat.iteration != jobs.OVER and not beat.leaving:
        error = UnknownIteration(
            f"iteration {beat.iteration} is not known at {desk.address}: it was forgotten because "
            "nobody read it, or the dispatcher was restarted and keeps no journal"
        )
        desk.out.append(HangUp(beat.token, Failure.of(error)))
        return
    standing = Standing.LEFT if beat.leaving else Standing.LIVE
    desk.news.answer(beat, beat.reader or NOBODY, standing)
