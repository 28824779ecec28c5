"""Which worker hosts which save: in virtual time, with the core alone."""

import msgspec
import pytest

from penstock.errors import DatasetError, Overloaded, UnknownDataset
from penstock.protocol.calls import Registration
from penstock.protocol.control import Assignment, WorkerHeartbeat
from penstock.protocol.recording import (
    RecordingProgress,
    RecordingReport,
    SaveStage,
    StartRecordingRequest,
)
from penstock.protocol.types import Codec, Failure
from penstock_dispatcher.core import hosting, recordings
from penstock_dispatcher.core.events import (
    CancelRecording,
    DrainWorker,
    FindRecording,
    SendCommand,
    StartRecording,
    WorkerDead,
    WorkerDisconnected,
)
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.state import DispatcherState
from tests.dispatcher.core.driver import VERSIONS, DrivenCore

REQUEST = StartRecordingRequest("s", "/data/saved", "d", 100)


class Mesh(DrivenCore):
    """Workers that host what they are assigned, and report what a test says."""

    def __init__(self, *workers):
        super().__init__(settings=CoreSettings(dataset_idle=20.0))
        self.registers("d", registration=Registration("d", Codec.NONE, b""))
        self.orders = {}
        for worker in workers:
            self.joins(worker)

    def joins(self, worker):
        self.beat(worker, versions=VERSIONS)

    def beat(self, worker, *reports, **about):
        self.beats += 1
        self.tell(
            WorkerHeartbeat(
                worker, 1, self.core.state.revision, recordings=reports, seq=self.beats, **about
            )
        )

    def tell(self, event):
        effects = super().tell(event)
        for effect in effects:
            if isinstance(effect, SendCommand) and isinstance(effect.command, Assignment):
                self.orders[effect.worker] = effect.command.recordings
        return effects

    def starts(self, request=REQUEST):
        return self.reply(StartRecording(1, request))

    def found(self, save_id="s"):
        return self.reply(FindRecording(1, save_id))

    def hosts(self):
        """Return the hosts of the save, with their attempts, as workers were told."""
        told = {name: [one.attempt for one in orders] for name, orders in self.orders.items()}
        return {name: attempts for name, attempts in told.items() if attempts}

    def dies(self, worker):
        self.tell(WorkerDisconnected(worker, 1))
        self.tell(WorkerDead(worker, 1))
        self.orders.pop(worker)


def said(attempt, stage=SaveStage.OPEN, version=1, elements=10, **more):
    progress = RecordingProgress(version, elements, 1, 80)
    return RecordingReport("s", attempt, stage, progress, **more)


def test_a_save_is_hosted_by_one_worker():
    mesh = Mesh("a", "b")
    reply = mesh.starts()

    assert (reply.stage, reply.worker, reply.path) == (SaveStage.OPEN, "a", "/data/saved")
    assert mesh.hosts() == {"a": [1]}


def test_the_same_call_again_is_the_same_save():
    mesh = Mesh("a", "b")
    mesh.starts()
    before = len(mesh.facts)

    assert mesh.starts().worker == "a"
    assert len(mesh.facts) == before
    assert mesh.hosts() == {"a": [1]}


def test_saves_are_spread_over_workers():
    mesh = Mesh("a", "b")
    for name in "stu":
        mesh.starts(_request(name))

    assert sorted(len(orders) for orders in mesh.orders.values()) == [1, 2]


def _request(name):
    return StartRecordingRequest(name, f"/data/{name}", "d", 100)


def test_another_worker_hosts_a_save_whose_host_died():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.dies("a")
    mesh.wait(0.5)

    assert mesh.hosts() == {"b": [2]}


def test_a_save_without_workers_waits_for_one():
    mesh = Mesh()
    assert mesh.starts().worker == ""
    mesh.joins("a")
    mesh.wait(0.5)

    assert mesh.hosts() == {"a": [1]}


def test_a_worker_that_drains_gives_its_saves_away():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.tell(DrainWorker(3, "a"))
    mesh.wait(0.5)

    assert mesh.hosts() == {"b": [2]}


def test_a_restarted_dispatcher_leaves_a_save_with_its_host():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.beat("a", said(1))
    mesh.restart()
    mesh.wait(0.5)
    mesh.beat("a", said(1), versions=VERSIONS)

    assert mesh.hosts() == {"a": [1]}
    assert mesh.found().progress.elements == 10


def test_what_an_older_host_reports_does_not_count():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.tell(DrainWorker(3, "a"))
    mesh.wait(0.5)
    failure = Failure.of(DatasetError("another process writes"))
    mesh.beat("a", said(1, SaveStage.FAILED, failure=failure))

    assert mesh.found().stage is SaveStage.OPEN


@pytest.mark.parametrize("stage", [SaveStage.COMPLETE, SaveStage.FAILED])
def test_the_end_is_kept_over_a_restart_and_its_host_is_told(stage):
    mesh = Mesh("a")
    mesh.starts()
    failure = Failure.of(DatasetError("no")) if stage is SaveStage.FAILED else None
    mesh.beat("a", said(1, stage, 7, 100, failure=failure))
    mesh.restart()

    found = mesh.found()
    assert (found.stage, found.worker, found.progress.elements) == (stage, "", 100)
    assert found.failure == failure
    assert mesh.hosts() == {}


def test_a_failed_save_is_continued_by_the_same_call():
    mesh = Mesh("a")
    mesh.starts()
    mesh.beat("a", said(1, SaveStage.FAILED, failure=Failure.of(DatasetError("no"))))
    reply = mesh.starts()

    assert (reply.stage, reply.failure) == (SaveStage.OPEN, None)
    assert mesh.hosts() == {"a": [2]}


def test_a_save_ends_as_cancelled_when_its_host_has_committed_that():
    mesh = Mesh("a", "b")
    mesh.starts()
    assert mesh.reply(CancelRecording(1, "s")).stage is SaveStage.OPEN
    assert mesh.orders["a"][0].stopping
    mesh.dies("a")
    mesh.wait(0.5)
    assert mesh.orders["b"][0].stopping
    mesh.beat("b", said(2, SaveStage.CANCELLED))

    assert mesh.found().stage is SaveStage.CANCELLED
    assert mesh.reply(CancelRecording(1, "s")).stage is SaveStage.CANCELLED


def test_a_process_that_dies_is_replaced_on_another_worker():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.beat("a", said(1, died="its exit code is -9"))

    assert mesh.hosts() == {"b": [2]}


def test_a_process_that_dies_each_time_fails_the_save():
    mesh = Mesh("a")
    mesh.starts()
    for attempt in range(1, hosting.DEATHS + 1):
        mesh.beat("a", said(attempt, died="its exit code is -9"))

    found = mesh.found()
    assert found.stage is SaveStage.FAILED
    assert "died 4 times without a new version, the last time on worker a: its exit code" in str(
        found.failure.error()
    )


def test_a_process_that_dies_now_and_then_fails_nothing():
    mesh = Mesh("a")
    mesh.starts()
    for attempt in range(1, 20):
        mesh.beat("a", said(attempt, version=attempt, died="its exit code is -9"))

    assert mesh.found().stage is SaveStage.OPEN


def test_a_death_that_is_reported_until_a_worker_is_able_counts_once():
    mesh = Mesh("a")
    mesh.starts()
    for _ in range(2 * hosting.DEATHS):
        mesh.beat("a", said(1, died="its exit code is -9"), draining=True)

    assert mesh.found().stage is SaveStage.OPEN

    mesh.joins("b")
    mesh.beat("a", said(1, died="its exit code is -9"), draining=True)

    assert mesh.hosts() == {"b": [2]}


def test_errors_say_what_is_not_there(monkeypatch):
    mesh = Mesh("a")
    with pytest.raises(DatasetError, match="knows no save 's': it ended long ago, or"):
        raise mesh.found().error()
    with pytest.raises(UnknownDataset, match="nothing is registered under the dataset_id 'e'"):
        raise mesh.starts(StartRecordingRequest("s", "/p", "e")).error()
    monkeypatch.setattr(hosting, "MOST", 0)
    with pytest.raises(Overloaded, match="0 saves are being written here, which is all"):
        raise mesh.starts().error()


def test_the_newest_ends_are_kept(monkeypatch):
    monkeypatch.setattr(recordings, "ENDED_KEPT", 2)
    mesh = Mesh("a")
    for name in "stuv":
        mesh.starts(_request(name))
        progress = RecordingProgress(1, 1, 1, 1)
        mesh.beat("a", RecordingReport(name, 1, SaveStage.COMPLETE, progress))

    assert list(mesh.core.state.recordings) == ["u", "v"]


def test_reports_of_a_save_are_forgotten_at_its_end():
    mesh = Mesh("a")
    mesh.starts()
    mesh.beat("a", said(1))
    assert list(mesh.core.ctx.soft_state.hosted) == ["s"]

    mesh.beat("a", said(1, SaveStage.COMPLETE))

    assert not mesh.core.ctx.soft_state.hosted


def test_a_pipeline_of_an_open_save_is_not_forgotten():
    mesh = Mesh("a")
    mesh.core.state.registrations.clear()
    mesh.registers("d", registration=Registration("", Codec.NONE, b""))
    mesh.starts()
    mesh.wait(60)
    assert "d" in mesh.core.state.datasets

    mesh.joins("a")
    mesh.wait(0.5)
    mesh.beat("a", said(2, SaveStage.COMPLETE))
    mesh.wait(60)
    assert "d" not in mesh.core.state.datasets


def test_stats_show_a_save_and_its_rate():
    mesh = Mesh("a")
    mesh.starts()
    for second in range(5):
        mesh.beat("a", said(1, version=second + 1, elements=50 * second))
        mesh.now += 1.0
    (save,) = mesh.core.stats(mesh.now).saves

    assert (save.path, save.stage, save.worker) == ("/data/saved", "open", "a")
    assert (save.elements, save.total, save.rate) == (200, 100, 40.0)


def test_facts_are_written_and_read_again():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.reply(CancelRecording(1, "s"))
    mesh.dies("a")
    mesh.wait(0.5)
    mesh.beat("b", said(2, SaveStage.CANCELLED))
    state = mesh.core.state

    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=DispatcherState) == state


def counted(mesh):
    counts = mesh.core.ctx.counts
    return counts.saved_elements, counts.saved_chunks, counts.saved_bytes, counts.saves_failed


def test_counts_have_each_element_of_a_save_once_also_if_its_host_changes_or_it_is_continued():
    mesh = Mesh("a", "b")
    mesh.starts()
    mesh.beat("a", said(1))
    mesh.beat("a", said(1))
    assert counted(mesh) == (10, 1, 80, 0)

    mesh.beat("a", said(1, died="its exit code is -9"))
    failure = Failure.of(DatasetError("no"))
    mesh.beat("b", said(2, SaveStage.FAILED, 2, 30, failure=failure))
    assert counted(mesh) == (30, 1, 80, 1)

    mesh.starts()
    mesh.beat(*mesh.hosts(), said(3, SaveStage.COMPLETE, 3, 100))
    assert counted(mesh) == (100, 1, 80, 1)
