"""What many tasks wait for is not looked for each time that somebody is told."""

import pytest

from penstock.protocol.definition import SplitProviderSpec
from penstock_dispatcher.core import wait_reasons
from penstock_dispatcher.core.wait_reasons import FEW, LOOK
from tests.dispatcher.core.driver import DrivenCore


class Mesh(DrivenCore):
    """So many workers with a task each, and a reader that asks what there is."""

    def __init__(self, workers, monkeypatch):
        super().__init__(SplitProviderSpec((".0",), 10**9))
        for number in range(workers):
            self.comes(f"w{number}")
        self.iteration, self.reader, self.looks = self.opens().iteration, None, 0
        right = wait_reasons.waiting_for

        def looked(*args):
            self.looks += 1
            return right(*args)

        monkeypatch.setattr(wait_reasons, "waiting_for", looked)
        self.ask()

    def ask(self, later=0.0):
        """Return the view that answers the reader, and whether the wait was looked for anew."""
        before = self.looks
        self.now += later
        view = self.beat(self.iteration, "r", self.reader)
        self.reader = view.reader
        return view, self.looks > before


@pytest.mark.parametrize(("workers", "again"), [(FEW, True), (FEW + 1, False)])
def test_only_of_more_than_a_few_tasks_a_wait_is_shown_again(workers, again, monkeypatch):
    mesh = Mesh(workers, monkeypatch)

    assert mesh.ask(0.001)[1] is again
    assert mesh.ask(LOOK * (workers + 1))[1]


def test_a_wait_is_looked_for_anew_at_once_if_a_task_ended(monkeypatch):
    mesh = Mesh(2 * FEW, monkeypatch)
    mesh.now += 0.001
    mesh.dies("w7")
    before = mesh.looks

    view, _ = mesh.ask(0.001)
    assert mesh.looks == before, "it was looked for when all were told"
    assert sum(task.worker is None for task in view.tasks.values()) == 1


def test_the_waits_of_a_job_that_is_over_are_forgotten(monkeypatch):
    mesh = Mesh(2 * FEW, monkeypatch)
    notifications = mesh.core.ctx.notifications
    assert notifications.waits

    mesh.core.ctx.forget(mesh.iteration)
    assert not (notifications.waits or notifications.views or notifications.stale)


@pytest.mark.parametrize(
    ("workers", "rest"), [(4, ""), (5, "; 1 more silent worker"), (9, "; 5 more silent workers")]
)
def test_of_many_silent_workers_some_are_named(workers, rest, monkeypatch):
    mesh = Mesh(workers, monkeypatch)
    mesh.wait(2.5)

    view, _ = mesh.ask()

    assert view.waiting_for.count("silent for 2.5 s, expires in") == min(workers, 4)
    assert view.waiting_for.endswith(f"expires in 2.5 s{rest}")
