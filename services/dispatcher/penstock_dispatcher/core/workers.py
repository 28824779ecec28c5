"""Hearing workers: that they are there, how far they are, what they ask for."""

from __future__ import annotations

from penstock.errors import PenstockError, Refused
from penstock.messages import (
    Failure,
    Progress,
    SplitGrant,
    SplitRequest,
    WorkerBeat,
    WorkerRefused,
)
from penstock.numbers import EngineState, Split, TaskId, WorkerId
from penstock_dispatcher.core import admission, shortage, tasks
from penstock_dispatcher.core.desk import Desk
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    Settled,
    StateSaved,
    TaskDone,
    TaskFailed,
    WorkerSeen,
)
from penstock_dispatcher.core.heard import Departure
from penstock_dispatcher.core.records import Task
from penstock_dispatcher.core.signals import Answer, Drain, LineBroken, Probe, Send, WorkerGone
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
    if (departure := desk.heard.departures.get(beat.worker)) is not None:
        _depart(desk, beat.worker, departure)
    desk.news.heard_of(beat, desk.books.as_of)
    for name, progress in beat.progress.items():
        _progress(desk, beat, name, progress)
    for name, attempt in beat.ended:
        task = desk.books.task(name)
        if task is not None and _runs(task, beat.worker, attempt):
            _ended(desk, beat, name, task, now)


def line_broken(desk: Desk, signal: LineBroken) -> None:
    """Note that a worker cannot be told anything, and find out whether it is dead."""
    if _is_life(desk, signal.worker, signal.incarnation):
        desk.heard.workers[signal.worker].connected = False
        desk.out.append(Probe(signal.worker, signal.incarnation))


def gone(desk: Desk, signal: WorkerGone) -> None:
    """Give up a worker that is dead for certain, unless it has come back meanwhile."""
    if not _is_life(desk, signal.worker, signal.incarnation):
        return
    if not desk.heard.workers[signal.worker].connected:
        desk.lose(signal.worker)
        _departed(desk, signal.worker)


def drain(desk: Desk, signal: Drain) -> None:
    """Have a worker leave in order, and answer when it says that it does, or has ended."""
    if signal.worker not in desk.books.workers:
        known = ", ".join(sorted(desk.books.workers)) or "none"
        error = Refused(f"worker {signal.worker} is not registered; those that are: {known}")
        desk.out.append(Answer(signal.call, Failure.of(error)))
        return
    incarnation = desk.books.workers[signal.worker].incarnation
    departure = desk.heard.departures.setdefault(signal.worker, Departure(incarnation))
    departure.calls.append(signal.call)
    _depart(desk, signal.worker, departure)
    desk.news.workers[signal.worker] = None
    desk.unsettle_all()


def _depart(desk: Desk, worker: WorkerId, departure: Departure) -> None:
    """Have the present life of a worker leave if that is the one; tell who waits for its word."""
    if departure.incarnation != desk.books.workers[worker].incarnation:
        _departed(desk, worker)
        return
    word = desk.heard.workers[worker]
    word.ordered = True
    if word.draining:
        desk.out += [Answer(call, None) for call in departure.calls]
        departure.calls.clear()


def _departed(desk: Desk, worker: WorkerId) -> None:
    departure = desk.heard.departures.pop(worker, None)
    if departure is not None:
        desk.out += [Answer(call, None) for call in departure.calls]


def split_request(desk: Desk, ask: SplitRequest, now: float) -> None:
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
            tasks.draw(desk, ask.task, ask.stream, now)
        splits = task.logs[ask.stream].after(ask.position)
    grant = SplitGrant(ask.task, ask.attempt, ask.stream, ask.position, splits)
    desk.out.append(Send(ask.worker, ask.incarnation, grant))


def _welcome(desk: Desk, beat: WorkerBeat) -> None:
    if beat.worker in desk.books.workers:
        desk.lose(beat.worker)  # another life of it: what that one ran is over
    desk.write(WorkerSeen(beat.worker, beat.incarnation))
    desk.unsettle_all()


def _is_life(desk: Desk, worker: WorkerId, incarnation: int) -> bool:
    known = desk.books.workers.get(worker)
    return known is not None and known.incarnation == incarnation


def _runs(task: Task, worker: WorkerId, attempt: int) -> bool:
    return task.worker == worker and task.attempt == attempt


def _progress(desk: Desk, beat: WorkerBeat, name: TaskId, progress: Progress) -> None:
    task = desk.books.task(name)
    if task is None or task.done:
        return
    desk.heard.learn(name, progress.taken)
    if not _runs(task, beat.worker, progress.attempt):
        return
    desk.heard.progress[name] = progress
    shortage.relieved(desk, name, progress)
    state = progress.state
    if state is not None and state.number > task.state.number and _counts(task, state, progress):
        desk.write(StateSaved(name, state))
    if task.suspects:
        _settle(desk, name, task, progress, beat.as_of)
    if progress.failure is not None and task.failure is None:
        desk.task_over(TaskFailed(name, progress.failure))
    elif progress.done:
        desk.task_over(TaskDone(name, desk.taken(name, task), desk.spent(name)))


def _ended(desk: Desk, beat: WorkerBeat, name: TaskId, task: Task, now: float) -> None:
    progress = beat.progress.get(name)
    if progress is not None and progress.attempt == task.attempt and progress.lacking:
        shortage.turned_down(desk, beat.worker, name, task, progress, now)
    else:
        desk.task_over(AttemptEnded(name, desk.spent(name)))


def _counts(task: Task, state: EngineState, progress: Progress) -> bool:
    """Say whether everything before a state is taken, and its splits are in the logs."""
    places = zip(state.positions, task.logs, strict=False)
    return state.number <= progress.taken.floor and all(at <= log.stop for at, log in places)


def _settle(desk: Desk, name: TaskId, task: Task, progress: Progress, as_of: int) -> None:
    """Know that a worker whose orders are that new has told all about who was given up before."""
    readers = tuple(reader for reader, since in task.suspects.items() if since <= as_of)
    if readers:
        doubted = progress.doubted - task.doubted
        desk.write(Settled(name, readers, doubted, desk.taken(name, task)))
        desk.unsettled[task.iteration] = None


def _refuse(desk: Desk, worker: WorkerId, incarnation: int, error: PenstockError) -> None:
    refused = WorkerRefused(Failure.of(error))
    desk.out.append(Send(worker, incarnation, refused))


def _behind_the_last_pass(desk: Desk, task: Task, ask: SplitRequest) -> bool:
    if not 0 <= ask.stream < len(task.logs) or ask.position < task.logs[ask.stream].stop:
        return False
    source = desk.books.iterations[task.iteration].sources[ask.stream]
    return source.over(task.ended[ask.stream])
