"""Hearing workers: that they are there, how far they are, what they ask for."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.messages import (
    Failure,
    Progress,
    SplitGrant,
    SplitRequest,
    WorkerBeat,
    WorkerRefused,
)
from penstock.numbers import Split, TaskId, WorkerId
from penstock_dispatcher.core import admission, tasks
from penstock_dispatcher.core.books import Task
from penstock_dispatcher.core.desk import Desk
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    Settled,
    StateSaved,
    TaskDone,
    TaskFailed,
    WorkerSeen,
)
from penstock_dispatcher.core.signals import LineBroken, Send
from penstock_dispatcher.core.sources import END


def beat(desk: Desk, beat: WorkerBeat, now: float) -> None:
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
    desk.news.heard_of(beat, desk.books.as_of)
    for name, progress in beat.progress.items():
        _progress(desk, beat, name, progress)
    for name, attempt in beat.ended:
        task = desk.books.tasks.get(name)
        if task is not None and task.open and _runs(task, beat.worker, attempt):
            desk.task_over(AttemptEnded(name))


def line_broken(desk: Desk, signal: LineBroken) -> None:
    """Note that a worker cannot be told anything; its lease says when it is dead."""
    known = desk.books.workers.get(signal.worker)
    if known is not None and known.incarnation == signal.incarnation:
        desk.heard.workers[signal.worker].connected = False


def split_request(desk: Desk, ask: SplitRequest, now: float) -> None:
    """Say what stands in a log from a position on; at its end, draw more."""
    desk.counts.split_requests += 1
    task, worker = desk.books.tasks.get(ask.task), desk.books.workers.get(ask.worker)
    if task is None or worker is None or worker.incarnation != ask.incarnation:
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
            tasks.draw(desk, ask.task, ask.stream, now)
        splits = task.logs[ask.stream].after(ask.position)
    grant = SplitGrant(ask.task, ask.attempt, ask.stream, ask.position, splits)
    desk.out.append(Send(ask.worker, ask.incarnation, grant))


def _welcome(desk: Desk, beat: WorkerBeat) -> None:
    if beat.worker in desk.books.workers:
        desk.lose(beat.worker)  # another life of it: what that one ran is over
    desk.write(WorkerSeen(beat.worker, beat.incarnation))
    desk.unsettle_all()


def _runs(task: Task, worker: WorkerId, attempt: int) -> bool:
    return (task.worker, task.attempt) == (worker, attempt)


def _progress(desk: Desk, beat: WorkerBeat, name: TaskId, progress: Progress) -> None:
    task = desk.books.tasks.get(name)
    if task is None or task.done:
        return
    desk.heard.learn(name, progress.taken)
    if not _runs(task, beat.worker, progress.attempt):
        return
    desk.heard.progress[name] = progress
    state = progress.state
    if state is not None and task.state.number < state.number <= progress.taken.floor:
        desk.write(StateSaved(name, state))
    if 0 < task.suspect <= beat.as_of:
        desk.write(Settled(name))
    if progress.failure is not None and task.failure is None:
        desk.task_over(TaskFailed(name, progress.failure))
    elif progress.done:
        desk.task_over(TaskDone(name))


def _refuse(desk: Desk, worker: WorkerId, incarnation: int, error: PenstockError) -> None:
    refused = WorkerRefused(Failure.of(error))
    desk.out.append(Send(worker, incarnation, refused))


def _behind_the_last_pass(desk: Desk, task: Task, ask: SplitRequest) -> bool:
    if not 0 <= ask.stream < len(task.logs) or ask.position < task.logs[ask.stream].stop:
        return False
    source = desk.books.iterations[task.iteration].sources[ask.stream]
    return source.over(task.ended[ask.stream])
