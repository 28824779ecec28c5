"""Hearing readers: they join, say what they hold, and leave."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused, UnknownIteration
from penstock.messages import Failure, ReaderBeat
from penstock.numbers import ReaderId, Standing
from penstock_dispatcher.core import jobs
from penstock_dispatcher.core.admission import LOST_HISTORY
from penstock_dispatcher.core.desk import Desk, superseded
from penstock_dispatcher.core.facts import ReaderJoined, ReaderTold
from penstock_dispatcher.core.records import Iteration
from penstock_dispatcher.core.signals import HangUp, ReaderLineBroken

NOBODY = ReaderId(0)
"""Stands for a reader that has no id and needs none."""


def beat(desk: Desk, beat: ReaderBeat, now: float) -> None:
    """Hear a reader; let it in if it is new."""
    desk.counts.reader_beats += 1
    iteration = desk.books.iterations.get(beat.iteration)
    if iteration is None:
        _unknown(desk, beat)
        return
    if beat.reader is not None and beat.reader >= desk.books.next_id:
        error = Refused(f"reader {beat.reader} is not known here: {LOST_HISTORY}; open anew")
        _hang_up(desk, beat, error)
        return
    if iteration.finished:
        _too_late(desk, beat, iteration)
        return
    reader = _name(desk, beat, iteration)
    tasks, heard = iteration.tasks, desk.heard
    for task, holding in beat.holdings.items():
        if task in tasks:
            heard.learn(task, holding.taken)
    known = iteration.readers.get(reader)
    if known is not None and known.standing is Standing.LIVE:
        missed = beat.unreached or heard.missed(reader)
        heard.reader_beat(reader, beat, now)
        if beat.leaving:
            desk.part(beat.iteration, reader, Standing.LEFT, now)
        elif beat.cut is not None or missed or beat.iteration in desk.waiting:
            desk.unsettled[beat.iteration] = None
    standing = known.standing if known is not None else Standing.GONE
    if reader == NOBODY:
        standing = Standing.LEFT
    desk.news.answer(beat, reader, standing)


def line_broken(desk: Desk, signal: ReaderLineBroken) -> None:
    """Note that nobody is at a reader's line: who restores its job's state begins there again."""
    desk.heard.lines.discard(signal.token)


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
    desk.write(ReaderJoined(beat.iteration, reader, beat.token, beat.process))
    desk.unsettled[beat.iteration] = None
    return reader


def _too_late(desk: Desk, beat: ReaderBeat, iteration: Iteration) -> None:
    """Answer a reader of an iteration that is over: of what it says, only the account is kept."""
    reader = iteration.tokens.get(beat.token)
    if reader is not None:
        known = iteration.readers[reader]
        if beat.handed > known.handed or (beat.leaving and not known.told):
            desk.write(ReaderTold(beat.iteration, reader, beat.handed, beat.leaving))
        (desk.heard.lines.discard if beat.leaving else desk.heard.lines.add)(beat.token)
    standing = Standing.LEFT if beat.leaving else Standing.LIVE
    desk.news.answer(beat, beat.reader or NOBODY, standing)


def _unknown(desk: Desk, beat: ReaderBeat) -> None:
    """Answer a reader of an iteration that is not known, or not any more."""
    if beat.iteration == jobs.OVER or beat.leaving:
        standing = Standing.LEFT if beat.leaving else Standing.LIVE
        desk.news.answer(beat, beat.reader or NOBODY, standing)
        return
    job = desk.books.superseded.get(beat.iteration)
    if job is not None:
        _hang_up(desk, beat, superseded(beat.iteration, job))
        return
    error = UnknownIteration(
        f"iteration {beat.iteration} is not known at {desk.address}: it was forgotten because "
        "nobody read it, or the dispatcher was restarted and keeps no journal"
    )
    _hang_up(desk, beat, error)


def _hang_up(desk: Desk, beat: ReaderBeat, error: PenstockError) -> None:
    desk.out.append(HangUp(beat.token, Failure.of(error)))
