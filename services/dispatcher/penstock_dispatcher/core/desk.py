"""What all decisions are made on: the books, what was heard, who must be told."""

from __future__ import annotations

from penstock.messages import ReaderBeat
from penstock.numbers import NOTHING, IterationId, ReaderId, Standing, Taken, TaskId, WorkerId
from penstock_dispatcher.core.books import Books, Iteration
from penstock_dispatcher.core.facts import (
    AttemptEnded,
    Fact,
    IterationForgotten,
    ReaderParted,
    TaskDone,
    TaskFailed,
    WorkerLost,
)
from penstock_dispatcher.core.heard import Heard, ReaderWord, WorkerWord
from penstock_dispatcher.core.news import News
from penstock_dispatcher.core.settings import Settings
from penstock_dispatcher.core.signals import Effect, Write
from penstock_dispatcher.core.stats import Counts


class Desk:
    """The state that decisions read, and `write`, the one way to change what lasts."""

    def __init__(self, books: Books, settings: Settings, now: float) -> None:
        self.books = books
        self.settings = settings
        self.heard = Heard(since=now)
        self.news = News()
        self.counts = Counts()
        self.address = "this dispatcher"
        """Where workers and readers find it."""
        self.out: list[Effect] = []
        self.unsettled: dict[IterationId, None] = {}
        """The iterations for which something may follow from what became fact."""
        self._expect_everybody(now)

    def write(self, fact: Fact) -> None:
        """Let *fact* be true, and written before what comes after."""
        self.news.note(self.books, fact)
        self.books.apply(fact)
        self.counts.facts += 1
        self.out.append(Write(fact))

    def taken(self, task: TaskId) -> Taken:
        """Return all that is known to be taken of *task*."""
        return self.books.tasks[task].taken | self.heard.learnt.get(task, NOTHING)

    def able(self) -> list[WorkerId]:
        """Return the workers that may be given something to run."""
        words = self.heard.workers
        return [worker for worker in self.books.workers if words[worker].able]

    def sharing(self, iteration: Iteration) -> int:
        """Return how many tasks what is left of *iteration* should be enough for."""
        return max(1, len(self.able()), sum(task.open for task in iteration.tasks.values()))

    def task_over(self, fact: TaskDone | TaskFailed | AttemptEnded) -> None:
        """Write that a task, or an attempt of it, is over."""
        self.write(fact)
        self.unsettled[self.books.tasks[fact.task].iteration] = None

    def lose(self, worker: WorkerId) -> None:
        """Give up *worker*, and what it runs."""
        for name in self.books.workers[worker].tasks:
            self.unsettled[self.books.tasks[name].iteration] = None
        self.write(WorkerLost(worker))
        del self.heard.workers[worker]

    def part(self, name: IterationId, reader: ReaderId, standing: Standing, now: float) -> None:
        """Write that a reader left or is given up."""
        tasks = self.books.iterations[name].tasks
        taken = {task: self.taken(task) for task, known in tasks.items() if not known.done}
        self.write(ReaderParted(name, reader, standing, taken))
        self.heard.readers.pop(reader, None)
        self.heard.idle_since[name] = now
        self.unsettled[name] = None

    def forget(self, name: IterationId) -> None:
        """Forget an iteration that nobody reads."""
        iteration = self.books.iterations[name]
        self.heard.forget(iteration.tasks, iteration.readers)
        self.heard.idle_since.pop(name, None)
        self.heard.accounts.pop(name, None)
        self.write(IterationForgotten(name))

    def unsettle_all(self) -> None:
        """Note that something may follow for every iteration: a worker came or went."""
        running = (n for n, iteration in self.books.iterations.items() if not iteration.finished)
        self.unsettled.update(dict.fromkeys(running))

    def _expect_everybody(self, now: float) -> None:
        """Give everybody in the books a full lease: a restart counts against nobody."""
        for worker in self.books.workers:
            self.heard.workers[worker] = WorkerWord(now)
        for name, iteration in self.books.iterations.items():
            self.heard.idle_since[name] = now
            for reader in () if iteration.finished else iteration.live:
                silent = ReaderBeat(name, iteration.readers[reader].token, reader, beat=-1)
                self.heard.readers[reader] = ReaderWord(now, silent)
