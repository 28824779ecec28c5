"""What lasts: a restart from the state, and how little of a finished job stays."""

import pytest

from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.control import Assignment, AttemptProgress, ReaderHeartbeat, WorkerHeartbeat
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.ranges import AckedSet
from penstock.protocol.types import PROTOCOL, Codec, Mode, ReaderStatus, Versions
from penstock_dispatcher.core import state
from penstock_dispatcher.core.events import (
    AppendFact,
    OpenIteration,
    RegisterDataset,
    ReplyToCall,
    SendCommand,
    SendView,
    StartHistory,
    Tick,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from penstock_dispatcher.core.state_machine import DispatcherCore
from tests.openings import opening

VERSIONS = Versions(PROTOCOL, "3.11", "0")


class Life:
    """A core, and the facts that it committed."""

    def __init__(self, facts=(), now=0.0):
        self.facts, self.now = list(facts), now
        replayed = DispatcherState()
        for fact in self.facts:
            replayed.apply(fact)
        self.core = DispatcherCore(replayed, CoreSettings(), now)
        if not self.facts:
            self.tell(StartHistory(7))
            self.tell(RegisterDataset(1, VERSIONS, "d", (SplitProviderSpec((".0",), 10),), ""))

    def tell(self, signal):
        effects = [*self.core.handle(signal, self.now), *self.core.take_views(self.now)]
        self.facts += [effect.fact for effect in effects if isinstance(effect, AppendFact)]
        return effects

    def open(self, job="j", repetition=1):
        request = opening(VERSIONS, "d", Mode.DYNAMIC, job, repetition, Codec.NONE)
        effects = self.tell(OpenIteration(1, request, 5))
        return next(
            e.answer.iteration
            for e in effects
            if isinstance(e, ReplyToCall) and isinstance(e.answer, OpenIterationReply)
        )

    def finish(self, iteration):
        self.tell(ReaderHeartbeat(iteration, "r", None, 1))
        (task,) = self.core.state.iterations[iteration].tasks
        self.tell(
            WorkerHeartbeat("w", 1, 0, {task: AttemptProgress(1, 10, AckedSet(10), done=True)})
        )
        assert self.core.state.iterations[iteration].finished

    def pass_time(self, seconds, beat=True):
        until = self.now + seconds
        while self.now < until:
            self.now += 0.25
            if beat:
                self.tell(WorkerHeartbeat("w", 1, self.core.state.revision))
            self.tell(Tick())


def test_a_restart_starts_full_leases_and_sends_everything_again():
    first = Life()
    first.tell(WorkerHeartbeat("w", 1, -1, versions=VERSIONS))
    iteration = first.open()
    shown = first.tell(ReaderHeartbeat(iteration, "r", None, 1))
    (view,) = [effect.view for effect in shown if isinstance(effect, SendView)]

    again = Life(first.facts, now=5000.0)
    again.pass_time(4.5, beat=False)
    heard = again.tell(WorkerHeartbeat("w", 1, 0))
    seen = again.tell(ReaderHeartbeat(iteration, "r", view.reader, 9))

    (order,) = [effect.command for effect in heard if isinstance(effect, SendCommand)]
    assert isinstance(order, Assignment)
    assert len(order.tasks) == 1
    (answer,) = [effect.view for effect in seen if isinstance(effect, SendView)]
    assert answer.tasks == view.tasks
    assert (answer.status, answer.seq) == (ReaderStatus.LIVE, 9)
    assert again.facts == first.facts


def test_a_peer_that_does_not_come_back_after_a_restart_expires_with_its_lease():
    first = Life()
    first.tell(WorkerHeartbeat("w", 1, -1))
    iteration = first.open()
    first.tell(ReaderHeartbeat(iteration, "r", None, 1))

    again = Life(first.facts, now=5000.0)
    again.pass_time(40, beat=False)

    assert not again.core.state.workers
    (reader,) = again.core.state.iterations[iteration].readers.values()
    assert reader.status is ReaderStatus.EXPIRED


def test_of_a_finished_job_one_record_stays():
    life = Life()
    life.tell(WorkerHeartbeat("w", 1, -1))
    for repetition in (1, 2, 3):
        life.finish(life.open(repetition=repetition))
    life.pass_time(320)

    job = life.core.state.jobs["j"]
    assert not life.core.state.iterations
    assert not life.core.state.owners
    assert job.finished.spans == ((1, 4),)
    assert life.open(repetition=2) == 0


def test_nothing_stays_of_a_private_job():
    life = Life()
    life.tell(WorkerHeartbeat("w", 1, -1))
    life.finish(life.open(job=None))
    life.pass_time(320)

    assert not life.core.state.jobs


def test_lines_of_the_oldest_jobs_are_forgotten(monkeypatch):
    monkeypatch.setattr(state, "JOBS_KEPT", 3)
    life = Life()
    life.tell(WorkerHeartbeat("w", 1, -1))
    for name in "abcde":
        life.finish(life.open(job=name))
        life.pass_time(320)
    life.open(job="f")

    assert list(life.core.state.jobs) == ["c", "d", "e", "f"]


def test_two_histories_share_no_ids_and_no_dates():
    early, late = (
        DispatcherCore(DispatcherState(), CoreSettings(), 0.0),
        DispatcherCore(DispatcherState(), CoreSettings(), 0.0),
    )
    early.handle(StartHistory(1_000), 0.0)
    late.handle(StartHistory(1_001), 0.0)

    assert early.state.revision < late.state.revision
    assert early.state.next_id < late.state.next_id


@pytest.mark.parametrize("word", ["stats", "versions"])
def test_what_a_worker_reported_of_itself_is_kept_until_it_reports_otherwise(word):
    life = Life()
    life.tell(WorkerHeartbeat("w", 1, -1, versions=VERSIONS, stats=b"{}"))
    life.tell(WorkerHeartbeat("w", 1, 0))

    assert getattr(life.core.ctx.soft_state.workers["w"], word)


def test_statistics_of_a_worker_that_are_no_json_are_left_out():
    life = Life()
    life.tell(WorkerHeartbeat("w", 1, -1, stats=b"\xff{"))

    (worker,) = life.core.stats(0.0).workers
    assert worker.stats is None
