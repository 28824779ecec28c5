"""What many tasks wait for is not looked for each time that somebody is told."""

import pytest

from penstock.protocol.control import ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.types import PROTOCOL, Codec, Mode, Versions
from penstock_dispatcher.core import wait_reasons
from penstock_dispatcher.core.events import (
    OpenIteration,
    RegisterDataset,
    ReplyToCall,
    SendView,
    StartHistory,
    Tick,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from penstock_dispatcher.core.wait_reasons import FEW, LOOK
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11", "0")


class Mesh:
    """So many workers with a task each, and a reader that asks what there is."""

    def __init__(self, workers, monkeypatch):
        self.core = DispatcherCore(DispatcherState(), CoreSettings(), 0.0, 1_800_000_000.0)
        self.tell(StartHistory(1))
        spec = SplitProviderSpec((".0",), 10**9)
        self.tell(RegisterDataset(1, VERSIONS, "d", (spec,), ""))
        for number in range(workers):
            self.tell(WorkerHeartbeat(f"w{number}", 1, -1, versions=VERSIONS))
        asked = opening(VERSIONS, "d", Mode.DYNAMIC, "j", 1, Codec.NONE)
        (reply,) = (e for e in self.tell(OpenIteration(1, asked, 5)) if isinstance(e, ReplyToCall))
        self.iteration, self.reader, self.seq, self.looks = reply.answer.iteration, None, 0, 0
        right = wait_reasons.waiting_for

        def looked(*args):
            self.looks += 1
            return right(*args)

        monkeypatch.setattr(wait_reasons, "waiting_for", looked)
        self.ask(0.0)

    def tell(self, event, now=0.0):
        return [*self.core.handle(event, now), *self.core.take_views(now)]

    def ask(self, now):
        """Return the view that answers the reader, and whether the wait was looked for anew."""
        before, self.seq = self.looks, self.seq + 1
        effects = self.tell(ReaderHeartbeat(self.iteration, "r", self.reader, self.seq), now)
        (view,) = (e.view for e in effects if isinstance(e, SendView))
        self.reader = view.reader
        return view, self.looks > before


@pytest.mark.parametrize(("workers", "again"), [(FEW, True), (FEW + 1, False)])
def test_only_of_more_than_a_few_tasks_a_wait_is_shown_again(workers, again, monkeypatch):
    mesh = Mesh(workers, monkeypatch)

    assert mesh.ask(0.001)[1] is again
    assert mesh.ask(LOOK * (workers + 1))[1]


def test_a_wait_is_looked_for_anew_at_once_if_a_task_ended(monkeypatch):
    mesh = Mesh(2 * FEW, monkeypatch)
    mesh.tell(WorkerDisconnected("w7", 1), 0.001)
    mesh.tell(WorkerDead("w7", 1), 0.001)
    before = mesh.looks

    view, _ = mesh.ask(0.002)
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
    for tick in range(6):
        mesh.tell(Tick(), tick / 2)

    view, _ = mesh.ask(2.5)

    assert view.waiting_for.count("silent for 2.5 s, expires in") == min(workers, 4)
    assert view.waiting_for.endswith(f"expires in 2.5 s{rest}")
