"""Which worker hosts which save; see `penstock_dispatcher.core.recordings`.

A host that dies or drains is replaced. Two hosts of one save do no harm: each version of a saved
dataset is created once, so the older host stops at its next version.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from penstock.errors import DatasetError, Overloaded, PenstockError, UnknownDataset
from penstock.protocol.control import WorkerHeartbeat
from penstock.protocol.recording import (
    RecordingAssignment,
    RecordingProgress,
    RecordingReply,
    RecordingReport,
    SaveStage,
    StartRecordingRequest,
)
from penstock.protocol.types import Failure, WorkerId
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import (
    CancelRecording,
    FindRecording,
    RecordingCall,
    ReplyToCall,
    StartRecording,
)
from penstock_dispatcher.core.recordings import (
    HostReports,
    RecordingCancelled,
    RecordingEnded,
    RecordingPlaced,
    RecordingRecord,
    RecordingStarted,
)
from penstock_dispatcher.core.soft_state import SoftState

MOST = 1000
"""The most recordings that may be open at once."""

DEATHS = 4
"""How often the process of a recording may die with no new version in between, until it fails."""


def on_call(ctx: DecisionContext, event: RecordingCall) -> None:
    """Answer a client."""
    try:
        match event:
            case StartRecording(_, request):
                _start(ctx, request)
                answer = _reply(ctx, request.save_id)
            case CancelRecording(_, save_id):
                _cancel(ctx, save_id)
                answer = _reply(ctx, save_id)
            case FindRecording(_, save_id):
                answer = _reply(ctx, save_id)
            case _:
                assert_never(event)
    except PenstockError as exc:
        ctx.effects.append(ReplyToCall(event.call, Failure.of(exc)))
    else:
        ctx.effects.append(ReplyToCall(event.call, answer))


def _start(ctx: DecisionContext, asked: StartRecordingRequest) -> None:
    """Begin a recording, unless it runs."""
    known = ctx.state.recordings.get(asked.save_id)
    if known is None or not known.open:
        ctx.commit(_started(ctx, asked))
        place(ctx)


def _started(ctx: DecisionContext, asked: StartRecordingRequest) -> RecordingStarted:
    named = ctx.state.registrations.get(asked.dataset_id)
    if named is None:
        raise UnknownDataset(
            f"nothing is registered under the dataset_id {asked.dataset_id!r} at {ctx.address}: "
            "call penstock.service.save again"
        )
    count = sum(one.open for one in ctx.state.recordings.values())
    if count >= MOST:
        raise Overloaded(
            f"{count} saves are being written here, which is all that may be: wait for some, or "
            "cancel them (penstock saves cancel)"
        )
    return RecordingStarted(asked.save_id, asked.path, named.dataset, asked.dataset_id, asked.total)


def _cancel(ctx: DecisionContext, save_id: str) -> None:
    """Have a recording stop, if it is open."""
    known = ctx.state.recordings.get(save_id)
    if known is not None and known.open and not known.stopping:
        ctx.commit(RecordingCancelled(save_id))


def _reply(ctx: DecisionContext, save_id: str) -> RecordingReply:
    known = ctx.state.recordings.get(save_id)
    if known is None:
        raise DatasetError(
            f"the dispatcher at {ctx.address} knows no save {save_id!r}: it ended long ago, or the "
            "dispatcher was restarted without its journal; the same call continues it"
        )
    progress = progress_of(ctx.soft_state, save_id, known)
    worker = known.worker or ""
    return RecordingReply(save_id, known.path, known.stage, worker, progress, known.failure)


def progress_of(soft_state: SoftState, save_id: str, record: RecordingRecord) -> RecordingProgress:
    """Return what the saved dataset has, as the host reported last."""
    hosted = soft_state.hosted.get(save_id)
    return hosted.progress if record.open and hosted is not None else record.progress


def on_reports(ctx: DecisionContext, heartbeat: WorkerHeartbeat, now: float) -> None:
    """Take the reports of a worker on the recordings that it hosts."""
    for report in heartbeat.recordings:
        known = ctx.state.recordings.get(report.save_id)
        if known is None or (known.worker, known.attempt) != (heartbeat.worker, report.attempt):
            continue  # another worker hosts it by now, or it is over
        hosted = ctx.soft_state.hosted.setdefault(report.save_id, HostReports(known.progress))
        before = hosted.progress
        hosted.hear(report.progress, now)
        ctx.counts.saved(before, hosted.progress)
        if report.died:
            _on_death(ctx, report, known, hosted)
        elif report.stage is not SaveStage.OPEN:
            ended = (report.save_id, report.stage, report.progress, report.failure)
            _end(ctx, RecordingEnded(*ended))


def _on_death(
    ctx: DecisionContext, report: RecordingReport, known: RecordingRecord, hosted: HostReports
) -> None:
    """Have another worker host a recording whose process died, unless it dies each time."""
    others = [worker for worker in _able(ctx) if worker != known.worker]
    if (host := _least(ctx, others or _able(ctx))) is None:
        return  # the report comes again, and is the same death
    hosted.deaths += 1
    if hosted.deaths >= DEATHS:
        error = DatasetError(
            f"save: the process that commits {known.path} died {DEATHS} times without a new "
            f"version, the last time on worker {known.worker}: {report.died}. The same call "
            "continues the save"
        )
        failed = (report.save_id, SaveStage.FAILED, hosted.progress, Failure.of(error))
        _end(ctx, RecordingEnded(*failed))
        return
    ctx.commit(RecordingPlaced(report.save_id, host, known.attempt + 1))


def _end(ctx: DecisionContext, ended: RecordingEnded) -> None:
    """End a recording, and forget the reports of its hosts: its record has the last numbers."""
    ctx.commit(ended)
    ctx.soft_state.hosted.pop(ended.save_id, None)


def place(ctx: DecisionContext) -> None:
    """Have a worker host each open recording whose host is gone, or drains."""
    able = _able(ctx)
    for save_id, one in list(ctx.state.recordings.items()):
        leaving = one.worker is not None and ctx.soft_state.workers[one.worker].leaving
        if not one.open or not (one.worker is None or leaving):
            continue
        if (host := _least(ctx, able)) is not None:
            ctx.commit(RecordingPlaced(save_id, host, one.attempt + 1))


def _able(ctx: DecisionContext) -> list[WorkerId]:
    return [worker for worker in ctx.state.workers if ctx.soft_state.workers[worker].able]


def _least(ctx: DecisionContext, workers: list[WorkerId]) -> WorkerId | None:
    """Return that of *workers* which hosts the fewest recordings."""
    counts = Counter(one.worker for one in ctx.state.recordings.values() if one.open)
    return min(workers, key=lambda worker: counts[worker], default=None)


def assigned(ctx: DecisionContext, worker: WorkerId) -> tuple[RecordingAssignment, ...]:
    """Return the recordings that *worker* should host."""
    return tuple(
        RecordingAssignment(save_id, one.path, one.dataset_id, one.attempt, one.stopping)
        for save_id, one in ctx.state.recordings.items()
        if one.open and one.worker == worker
    )
