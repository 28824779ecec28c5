"""What readers' heartbeats do: join, report what is buffered and acked, leave."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused, UnknownIteration
from penstock.protocol.control import ReaderHeartbeat
from penstock.protocol.types import Failure, ReaderId, ReaderStatus
from penstock_dispatcher.core import jobs
from penstock_dispatcher.core.admission import LOST_HISTORY
from penstock_dispatcher.core.context import DecisionContext, superseded
from penstock_dispatcher.core.events import CloseReaderStream, ReaderDisconnected
from penstock_dispatcher.core.facts import ConsumptionReported, ReaderJoined
from penstock_dispatcher.core.records import IterationRecord

NOBODY = ReaderId(0)
"""Stands for a reader that has no id and needs none."""


def beat(desk: DecisionContext, beat: ReaderHeartbeat, now: float) -> None:
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
    if known is not None and known.standing is ReaderStatus.LIVE:
        missed = beat.unreached or heard.missed(reader)
        heard.reader_beat(reader, beat, now)
        if beat.leaving:
            desk.part(beat.iteration, reader, ReaderStatus.LEFT, now)
        elif beat.cut is not None or missed or beat.iteration in desk.waiting:
            desk.unsettled[beat.iteration] = None
    standing = known.standing if known is not None else ReaderStatus.GONE
    if reader == NOBODY:
        standing = ReaderStatus.LEFT
    desk.news.answer(beat, reader, standing)


def line_broken(desk: DecisionContext, signal: ReaderDisconnected) -> None:
    """Note that nobody is at a reader's line: who restores its job's state begins there again."""
    desk.heard.lines.discard(signal.token)


def _name(desk: DecisionContext, beat: ReaderHeartbeat, iteration: IterationRecord) -> ReaderId:
    """Return the reader's id, a new one if it has none: written before it is answered."""
    if beat.reader is not None:
        return beat.reader
    reader = iteration.tokens.get(beat.token)
    if reader is not None and iteration.readers[reader].standing is ReaderStatus.LIVE:
        return reader
    if beat.leaving:
        return NOBODY  # who holds nothing simply goes
    reader = ReaderId(desk.books.next_id)
    desk.write(ReaderJoined(beat.iteration, reader, beat.token, beat.process))
    desk.unsettled[beat.iteration] = None
    return reader


def _too_late(desk: DecisionContext, beat: ReaderHeartbeat, iteration: IterationRecord) -> None:
    """Answer a reader of an iteration that is over: of what it says, only the account is kept."""
    reader = iteration.tokens.get(beat.token)
    if reader is not None:
        known = iteration.readers[reader]
        if beat.handed > known.handed or (beat.leaving and not known.told):
            desk.write(ConsumptionReported(beat.iteration, reader, beat.handed, beat.leaving))
        (desk.heard.lines.discard if beat.leaving else desk.heard.lines.add)(beat.token)
    standing = ReaderStatus.LEFT if beat.leaving else ReaderStatus.LIVE
    desk.news.answer(beat, beat.reader or NOBODY, standing)


def _unknown(desk: DecisionContext, beat: ReaderHeartbeat) -> None:
    """Answer a reader of an iteration that is not known, or not any more."""
    if beat.iteration == jobs.OVER or beat.leaving:
        standing = ReaderStatus.LEFT if beat.leaving else ReaderStatus.LIVE
        desk.news.answer(beat, beat.reader or NOBODY, standing)
        return
    job = desk.books.superseded.get(beat.iteration)
    if job is not None:
        _hang_up(desk, beat, superseded(beat.iteration, job))
        return
    error = UnknownIteration(
        f"iteration {beat.iteration} is not known at {desk.address}: it was forgotten because it "
        "had no reader, or the dispatcher was restarted and keeps no journal"
    )
    _hang_up(desk, beat, error)


def _hang_up(desk: DecisionContext, beat: ReaderHeartbeat, error: PenstockError) -> None:
    desk.out.append(CloseReaderStream(beat.token, Failure.of(error)))
