"""What workers' events do: heartbeats, checkpoints, split requests, lost connections, drains."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused
from penstock.protocol.control import (
    AttemptProgress,
    SplitGrant,
    SplitRequest,
    WorkerHeartbeat,
    WorkerRefused,
)
from penstock.protocol.splits import Split
from penstock.protocol.types import Checkpoint, Failure, TaskId, WorkerId
from penstock_dispatcher.core import admission, runner_shortage, scheduler
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import (
    DrainWorker,
    ProbeWorker,
    ReplyToCall,
    SendCommand,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    CheckpointSaved,
    InDoubtResolved,
    TaskDone,
    TaskFailed,
    WorkerRegistered,
)
from penstock_dispatcher.core.records import TaskRecord
from penstock_dispatcher.core.soft_state import WorkerDeparture
from penstock_dispatcher.core.split_provider import END


def beat(desk: DecisionContext, beat: WorkerHeartbeat, now: float) -> None:
    """Hear a worker; let it in if it is new."""
    desk.counts.worker_beats += 1
    try:
        admission.check_worker(desk.books, beat, desk.settings.worker_addresses)
    except PenstockError as exc:
        _refuse(desk, beat.worker, beat.incarnation, exc)
        return
    known = desk.books.workers.get(beat.worker)
    if known is None or known.incarnation != beat.incarnation:
        _welcome(desk, beat)
    if desk.heard.worker_beat(beat, now):
        desk.unsettle_all()
    if (departure := desk.heard.departures.get(beat.worker)) is not None:
        _depart(desk, beat.worker, departure)
    desk.news.heard_of(beat, desk.books.as_of)
    for name, progress in beat.progress.items():
        _progress(desk, beat, name, progress)
    for name, attempt in beat.ended:
        task = desk.books.task(name)
        if task is not None and _runs(task, beat.worker, attempt):
            _ended(desk, beat, name, task, now)


def line_broken(desk: DecisionContext, signal: WorkerDisconnected) -> None:
    """Note that a worker cannot be told anything, and find out whether it is dead."""
    if _is_life(desk, signal.worker, signal.incarnation):
        desk.heard.workers[signal.worker].connected = False
        desk.out.append(ProbeWorker(signal.worker, signal.incarnation))


def gone(desk: DecisionContext, signal: WorkerDead) -> None:
    """Give up a worker that is dead for certain, unless it has come back meanwhile."""
    if not _is_life(desk, signal.worker, signal.incarnation):
        return
    if not desk.heard.workers[signal.worker].connected:
        desk.lose(signal.worker)
        _departed(desk, signal.worker)


def drain(desk: DecisionContext, signal: DrainWorker) -> None:
    """Have a worker leave in order, and answer when it says that it does, or has ended."""
    if signal.worker not in desk.books.workers:
        known = ", ".join(sorted(desk.books.workers)) or "none"
        error = Refused(f"worker {signal.worker} is not registered; those that are: {known}")
        desk.out.append(ReplyToCall(signal.call, Failure.of(error)))
        return
    incarnation = desk.books.workers[signal.worker].incarnation
    departure = desk.heard.departures.setdefault(signal.worker, WorkerDeparture(incarnation))
    departure.calls.append(signal.call)
    _depart(desk, signal.worker, departure)
    desk.news.workers[signal.worker] = None
    desk.unsettle_all()


def _depart(desk: DecisionContext, worker: WorkerId, departure: WorkerDeparture) -> None:
    """Have the present life of a worker leave if that is the one; tell who waits for its word."""
    if departure.incarnation != desk.books.workers[worker].incarnation:
        _departed(desk, worker)
        return
    word = desk.heard.workers[worker]
    word.ordered = True
    if word.draining:
        desk.out += [ReplyToCall(call, None) for call in departure.calls]
        departure.calls.clear()


def _departed(desk: DecisionContext, worker: WorkerId) -> None:
    departure = desk.heard.departures.pop(worker, None)
    if departure is not None:
        desk.out += [ReplyToCall(call, None) for call in departure.calls]


def split_request(desk: DecisionContext, ask: SplitRequest, now: float) -> None:
    """Say what stands in a log from a position on; at its end, draw more."""
    desk.counts.split_requests += 1
    task = desk.books.task(ask.task)
    if task is None or not _is_life(desk, ask.worker, ask.incarnation):
        return
    if not _runs(task, ask.worker, ask.attempt):
        return
    splits: tuple[Split, ...] = (END,)
    if not _behind_the_last_pass(desk, task, ask):
        try:
            admission.check_split_request(task, ask)
        except PenstockError as exc:
            _refuse(desk, ask.worker, ask.incarnation, exc)
            return
        if ask.position == task.logs[ask.stream].stop:
            if desk.heard.workers[ask.worker].leaving:
                return  # whoever goes on with the task asks again
            scheduler.grant_splits(desk, ask.task, ask.stream, now)
        splits = task.logs[ask.stream].after(ask.position)
    grant = SplitGrant(ask.task, ask.attempt, ask.stream, ask.position, splits)
    desk.out.append(SendCommand(ask.worker, ask.incarnation, grant))


def _welcome(desk: DecisionContext, beat: WorkerHeartbeat) -> None:
    if beat.worker in desk.books.workers:
        desk.lose(beat.worker)  # another life of it: what that one ran is over
    desk.write(WorkerRegistered(beat.worker, beat.incarnation))
    desk.unsettle_all()


def _is_life(desk: DecisionContext, worker: WorkerId, incarnation: int) -> bool:
    known = desk.books.workers.get(worker)
    return known is not None and known.incarnation == incarnation


def _runs(task: TaskRecord, worker: WorkerId, attempt: int) -> bool:
    return task.worker == worker and task.attempt == attempt


def _progress(
    desk: DecisionContext, beat: WorkerHeartbeat, name: TaskId, progress: AttemptProgress
) -> None:
    task = desk.books.task(name)
    if task is None or task.done:
        return
    desk.heard.learn(name, progress.taken)
    if not _runs(task, beat.worker, progress.attempt):
        return
    desk.heard.progress[name] = progress
    runner_shortage.relieved(desk, name, progress)
    state = progress.state
    if state is not None and state.number > task.state.number and _counts(task, state, progress):
        desk.write(CheckpointSaved(name, state))
    if task.suspects:
        _settle(desk, name, task, progress, beat.as_of)
    if progress.failure is not None and task.failure is None:
        desk.task_over(TaskFailed(name, progress.failure))
    elif progress.done:
        desk.task_over(TaskDone(name, desk.taken(name, task), desk.spent(name)))


def _ended(
    desk: DecisionContext, beat: WorkerHeartbeat, name: TaskId, task: TaskRecord, now: float
) -> None:
    progress = beat.progress.get(name)
    if progress is not None and progress.attempt == task.attempt and progress.lacking:
        runner_shortage.turned_down(desk, beat.worker, name, task, progress, now)
    else:
        desk.task_over(AttemptEnded(name, desk.spent(name)))


def _counts(task: TaskRecord, state: Checkpoint, progress: AttemptProgress) -> bool:
    """Say whether everything before a state is taken, and its splits are in the logs."""
    places = zip(state.positions, task.logs, strict=False)
    return state.number <= progress.taken.floor and all(at <= log.stop for at, log in places)


def _settle(
    desk: DecisionContext, name: TaskId, task: TaskRecord, progress: AttemptProgress, as_of: int
) -> None:
    """Know that a worker whose orders are that new has told all about who was given up before."""
    readers = tuple(reader for reader, since in task.suspects.items() if since <= as_of)
    if readers:
        doubted = progress.doubted - task.doubted
        desk.write(InDoubtResolved(name, readers, doubted, desk.taken(name, task)))
        desk.unsettled[task.iteration] = None


def _refuse(
    desk: DecisionContext, worker: WorkerId, incarnation: int, error: PenstockError
) -> None:
    refused = WorkerRefused(Failure.of(error))
    desk.out.append(SendCommand(worker, incarnation, refused))


def _behind_the_last_pass(desk: DecisionContext, task: TaskRecord, ask: SplitRequest) -> bool:
    if not 0 <= ask.stream < len(task.logs) or ask.position < task.logs[ask.stream].stop:
        return False
    source = desk.books.iterations[task.iteration].sources[ask.stream]
    return source.over(task.ended[ask.stream])
