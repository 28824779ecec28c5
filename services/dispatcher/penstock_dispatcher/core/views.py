"""What workers and readers are told: always all that concerns them, never a difference."""

from __future__ import annotations

from penstock.protocol.control import Assignment, ReaderView, TaskAssignment, TaskView
from penstock.protocol.types import IterationId, ReaderId, ReaderStatus, WorkerId
from penstock_dispatcher.core import saves
from penstock_dispatcher.core.context import DecisionContext
from penstock_dispatcher.core.events import Effect, SendCommand, SendView
from penstock_dispatcher.core.jobs import OVER
from penstock_dispatcher.core.notifications import IterationView, ViewRequest
from penstock_dispatcher.core.records import IterationRecord
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.wait_reasons import Wait, waiting_for


def tell(desk: DecisionContext, now: float) -> list[Effect]:
    """Tell everybody whom the news concerns, once, and clear it."""
    books, news = desk.books, desk.news
    out: list[Effect] = []
    for worker in news.workers:
        if worker in books.workers:
            order = _assignment(desk, worker)
            out.append(SendCommand(worker, order.incarnation, order))
    views = _Views(desk, now)
    for name in news.iterations:
        iteration = books.iterations.get(name)
        for reader, known in iteration.readers.items() if iteration is not None else ():
            if known.standing is ReaderStatus.LIVE and known.token not in news.asked:
                word = desk.heard.readers.get(reader)
                beat, cut = (word.beat.beat, word.beat.cut) if word is not None else (None, None)
                pushed = ViewRequest(name, reader, known.standing, beat, cut)
                out.append(views.show(known.token, pushed))
    for token, asked in news.asked.items():
        out.append(views.show(token, asked))
    news.clear()
    return out


def _assignment(desk: DecisionContext, worker: WorkerId) -> Assignment:
    books = desk.books
    known = books.workers[worker]
    runs = []
    readers: dict[ReaderId, ReaderStatus] = {}
    for name in known.tasks:
        iteration = books.iterations[books.owners[name]]
        task = iteration.tasks[name]
        run = TaskAssignment(
            name,
            task.index,
            task.attempt,
            task.iteration,
            iteration.parameters.dataset,
            iteration.seed,
            iteration.parameters.codec,
            task.state,
            task.logs,
            desk.taken(name, task),
            task.held,
        )
        runs.append(run)
        readers.update({reader: r.standing for reader, r in iteration.readers.items()})
    interval, drain = desk.settings.beat_interval, desk.heard.workers[worker].ordered
    return Assignment(books.as_of, known.incarnation, tuple(runs), readers, interval, drain)


def waits(desk: DecisionContext, now: float) -> dict[IterationId, str]:
    """Say what keeps each pass from going on whose readers wait; see `waiting_for`."""
    return {
        name: waiting_for(desk, name, iteration, _picture(desk.books, iteration), now).words
        for name, iteration in desk.books.iterations.items()
        if not iteration.finished and iteration.live
    }


class _Views:
    """Makes views; what the readers of one iteration have in common is made once."""

    def __init__(self, desk: DecisionContext, now: float) -> None:
        self._desk, self._now = desk, now
        self._waits: dict[IterationId, Wait] = {}

    def show(self, token: str, asked: ViewRequest) -> SendView:
        desk, name = self._desk, asked.iteration
        books, pictures = desk.books, desk.news.pictures
        iteration = books.iterations.get(name)
        verdict = saves.answer(desk, iteration, asked.cut) if asked.cut is not None else None
        verdicts = () if verdict is None else (verdict,)
        next_save = 0 if iteration is None else iteration.saves
        to = (books.as_of, token, asked.reader, asked.standing, asked.beat)
        if iteration is None or iteration.finished:
            finished = iteration is not None or name == OVER
            view = ReaderView(*to, {}, finished, verdicts=verdicts, saves=next_save)
            return SendView(view)
        if name not in pictures:
            pictures[name] = _picture(books, iteration)
        if name not in self._waits:
            self._waits[name] = waiting_for(desk, name, iteration, pictures[name], self._now)
        return SendView(
            ReaderView(
                *to,
                pictures[name].tasks,
                verdicts=verdicts,
                saves=next_save,
                waiting_for=self._waits[name].words,
                on_readers=self._waits[name].on_readers,
                held_by=desk.heard.held_by.get(name, ""),
            )
        )


def _picture(books: DispatcherState, iteration: IterationRecord) -> IterationView:
    tasks = {
        name: TaskView(task.attempt, task.worker, task.failure, _life(books, task.worker))
        for name, task in iteration.tasks.items()
        if task.attempt and not task.done
    }
    stalled = tuple(name for name, task in tasks.items() if task.worker is None)
    return IterationView(tasks, stalled, iteration.broken)


def _life(books: DispatcherState, worker: WorkerId | None) -> int:
    return 0 if worker is None else books.workers[worker].incarnation
