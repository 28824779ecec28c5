"""What is answered without credentials: of named datasets alone, at workers that can be reached."""

import pytest

from penstock.errors import UnknownDataset, WrongRole
from penstock.protocol.tensorflow import (
    DisableCompressionRequest,
    FindTaskRequest,
    HeartbeatRequest,
    IterationRequest,
    JobRequest,
    MetadataRequest,
    ProcessingMode,
    ReleaseRequest,
    RemoveTaskRequest,
)
from penstock_dispatcher.tensorflow.clients import TensorFlowClients
from penstock_dispatcher.tensorflow.opened import OpenedDatasets


class Known:
    """Three workers, of which two answer without credentials."""

    def __init__(self):
        self.asked = []

    async def find_dataset(self, dataset_id):
        self.asked.append(dataset_id)
        if dataset_id == "gone":
            raise UnknownDataset("gone")

    def live_workers(self):
        return [("a:1", 1), ("b:1", 2), ("c:1", 3)]

    def tensorflow_addresses(self):
        return {"a:1": "a:9", "c:1": "c:9"}

    def is_finished(self, *_):
        return False


def job_of(dataset):
    return JobRequest(dataset, ProcessingMode(1), "job", None, cached=False, target_workers=2)


@pytest.fixture
def known():
    return Known()


@pytest.fixture
def clients():
    return TensorFlowClients((), 1000, lambda _: None, 30.0)


@pytest.fixture
def api(known, clients):
    return OpenedDatasets(known, clients, lambda: 0.0, ("open", "gone"))


async def test_a_pass_of_an_opened_dataset_has_tasks_at_the_ports_that_can_be_reached(api):
    job = await api.job(job_of("open"))
    client = (await api.iteration(IterationRequest(job.job_id, 1))).client_id
    told = await api.heartbeat(HeartbeatRequest(client))

    assert [task.worker_address for task in told.tasks] == ["a:9", "c:9"]
    assert [s.address for task in told.tasks for s in task.transfer_servers] == ["a:9", "c:9"]
    await api.release(ReleaseRequest(client))
    with pytest.raises(WrongRole):
        await api.heartbeat(HeartbeatRequest(client))


async def test_of_other_datasets_nothing_is_told_by_whatever_number(api, clients, known):
    job = clients.job(job_of("closed"), "x")
    client = clients.enter(job, 1, 0.0)
    (task, *_) = clients.tasks(client, known.live_workers(), lambda *_: False, 0.0).tasks
    asked = [
        api.metadata(MetadataRequest("closed")),
        api.compression(DisableCompressionRequest("closed")),
        api.job(job_of("closed")),
        api.iteration(IterationRequest(job, 1)),
        api.heartbeat(HeartbeatRequest(client)),
        api.release(ReleaseRequest(client)),
        api.remove_task(RemoveTaskRequest(task.task_id, 0, 0)),
        api.find_task(FindTaskRequest(task.task_id)),
        api.iteration(IterationRequest(5, 1)),
        api.heartbeat(HeartbeatRequest(5)),
        api.remove_task(RemoveTaskRequest(5, 0, 0)),
    ]

    for call in asked:
        with pytest.raises(WrongRole):
            await call
    assert known.asked == []


async def test_an_opened_one_that_is_not_registered_is_said_to_be_missing(api):
    with pytest.raises(UnknownDataset):
        await api.job(job_of("gone"))
