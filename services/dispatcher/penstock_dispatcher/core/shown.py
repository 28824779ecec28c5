"""What workers and readers are told: always all that concerns them, never a difference."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.messages import Assignment, Run, TaskView, View
from penstock.numbers import IterationId, ReaderId, Standing, TaskId, WorkerId
from penstock_dispatcher.core.books import Iteration
from penstock_dispatcher.core.desk import Desk
from penstock_dispatcher.core.jobs import OVER
from penstock_dispatcher.core.signals import Effect, Send, Show


def tell(desk: Desk, now: float) -> list[Effect]:
    """Tell everybody whom the news concerns, once, and clear it."""
    books, news = desk.books, desk.news
    out: list[Effect] = []
    for worker in news.workers:
        if worker in books.workers:
            order = _assignment(desk, worker)
            out.append(Send(worker, order.incarnation, order))
    views = _Views(desk, now)
    for name in news.iterations:
        iteration = books.iterations.get(name)
        for reader, known in iteration.readers.items() if iteration is not None else ():
            if known.standing is Standing.LIVE and known.token not in news.asked:
                word = desk.heard.readers.get(reader)
                beat = word.beat.beat if word is not None else None
                out.append(views.show(name, known.token, reader, known.standing, beat))
    for token, asked in news.asked.items():
        out.append(views.show(asked.iteration, token, asked.reader, asked.standing, asked.beat))
    news.clear()
    return out


def _assignment(desk: Desk, worker: WorkerId) -> Assignment:
    books = desk.books
    known = books.workers[worker]
    runs = []
    readers: dict[ReaderId, Standing] = {}
    for name in known.tasks:
        task = books.tasks[name]
        iteration = books.iterations[task.iteration]
        run = Run(
            name,
            task.index,
            task.attempt,
            task.iteration,
            iteration.parameters.dataset,
            iteration.seed,
            iteration.parameters.codec,
            task.state,
            task.logs,
            desk.taken(name),
            task.held,
        )
        runs.append(run)
        readers.update({reader: r.standing for reader, r in iteration.readers.items()})
    interval = desk.settings.beat_interval
    return Assignment(books.as_of, known.incarnation, tuple(runs), readers, interval)


class _Views:
    """Makes views; what the readers of one iteration have in common is made once."""

    def __init__(self, desk: Desk, now: float) -> None:
        self._desk, self._now = desk, now
        self._waits: dict[IterationId, str] = {}

    def show(
        self,
        name: IterationId,
        token: str,
        reader: ReaderId,
        standing: Standing,
        beat: int | None,
    ) -> Show:
        books, pictures = self._desk.books, self._desk.news.pictures
        iteration = books.iterations.get(name)
        if iteration is None or iteration.finished:
            finished = iteration is not None or name == OVER
            return Show(View(books.as_of, token, reader, standing, beat, {}, finished))
        if name not in pictures:
            pictures[name] = _picture(iteration)
        if name not in self._waits:
            self._waits[name] = self._waiting_for(iteration)
        waits = self._waits[name]
        view = View(books.as_of, token, reader, standing, beat, pictures[name], waiting_for=waits)
        return Show(view)

    def _waiting_for(self, iteration: Iteration) -> str:
        desk = self._desk
        if iteration.broken:
            return ""
        if not desk.books.workers:
            return f"a worker: none is registered at {desk.address}"
        if not iteration.tasks:
            return "; ".join(self._unable(worker) for worker in desk.books.workers)
        if not desk.heard.quiet:
            return ""
        tasks = iteration.tasks.values()
        late = desk.heard.quiet.intersection(t.worker for t in tasks if t.worker)
        return "; ".join(self._late(worker) for worker in sorted(late))

    def _unable(self, worker: WorkerId) -> str:
        if self._desk.heard.workers[worker].draining:
            return f"worker {worker}: it drains, and takes nothing new"
        if not self._desk.heard.workers[worker].connected:
            return f"worker {worker}: its connection is closed, {self._given_up(worker)}"
        return self._late(worker)

    def _late(self, worker: WorkerId) -> str:
        return (
            f"worker {worker}: silent for {self._silence(worker):.1f} s, {self._given_up(worker)}"
        )

    def _given_up(self, worker: WorkerId) -> str:
        left = max(0.0, self._desk.settings.worker_lease - self._silence(worker))
        return f"given up in {left:.1f} s"

    def _silence(self, worker: WorkerId) -> float:
        heard = self._desk.heard
        return heard.silence(heard.workers[worker].at, self._now)


def _picture(iteration: Iteration) -> Mapping[TaskId, TaskView]:
    return {
        name: TaskView(task.attempt, task.worker, task.lost, task.failure)
        for name, task in iteration.tasks.items()
        if task.attempt and not task.done
    }
