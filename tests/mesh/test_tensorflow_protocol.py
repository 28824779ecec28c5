"""TensorFlow's protocol on the ports of dispatcher and workers, spoken by hand.

`tests/frameworks` has its own client speak it.
"""

import time

import grpc
import numpy as np
import pytest

from penstock import Dataset
from penstock.protocol.tensorflow import END_OF_SEQUENCE
from penstock.service import from_dataset_id, register_dataset
from penstock.wire._pb import tensorflow_pb2 as pb
from penstock_cluster.cli.status import look

DYNAMIC, AUTO, ANY = 1, 1, 2
LIMIT = 60.0


class Peer:
    """A client of one port."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)

    def call(self, service, method, request, reply):
        path = f"/tensorflow.data.{service}Service/{method}"
        answer = self.channel.unary_unary(path)(request.SerializeToString(), timeout=LIMIT)
        return reply.FromString(answer) if reply is not None else answer

    def ask(self, method, request, reply):
        return self.call("Dispatcher", method, request, reply)

    def element(self, task, **more):
        return self.call("Worker", "GetElement", pb.ElementRequest(task_id=task, **more), None)


@pytest.fixture
def dispatcher(cluster):
    peer = Peer(cluster.dispatcher.address)
    yield peer
    peer.channel.close()


class Reading:
    """A client of a pass, as TensorFlow's is one."""

    def __init__(self, dispatcher, dataset_id, job_name=None, repetition=1, target=AUTO):
        self.dispatcher = dispatcher
        job = pb.JobRequest(
            dataset_id=dataset_id,
            processing_mode=pb.ProcessingMode(sharding_policy=DYNAMIC),
            job_name=job_name,
            target_workers=target,
        )
        number = dispatcher.ask("GetOrCreateJob", job, pb.JobReply).job_id
        asked = pb.IterationRequest(job_id=number, repetition=repetition)
        self.client = dispatcher.ask("GetOrCreateIteration", asked, pb.IterationReply).client_id

    def heartbeat(self):
        request = pb.HeartbeatRequest(client_id=self.client)
        return self.dispatcher.ask("ClientHeartbeat", request, pb.HeartbeatReply)

    def tasks(self):
        return [task for task in self.heartbeat().tasks if not task.worker_tags]

    def release(self):
        request = pb.ReleaseRequest(client_id=self.client)
        self.dispatcher.ask("ReleaseIterationClient", request, pb.ReleaseReply)


def numbers_of(task):
    """Return all that a task gives, as integers: eight bytes at the end of each reply."""
    peer, found = Peer(task.transfer_servers[0].address), []
    while (reply := peer.element(task.task_id, allow_skip=True)) != END_OF_SEQUENCE:
        found.append(int(np.frombuffer(reply[-8:], "<i8")[0]))
    peer.channel.close()
    return found


@pytest.mark.slow
def test_a_pass_comes_whole_and_once_and_then_it_is_over(cluster, dispatcher):
    name = register_dataset(cluster.target, Dataset.range(300).map(lambda x: x + 1))
    reading = Reading(dispatcher, name, "whole")

    found = [number for task in reading.tasks() for number in numbers_of(task)]

    assert sorted(found) == list(range(1, 301))
    assert reading.heartbeat().finished
    reading.release()


@pytest.mark.slow
def test_a_worker_reads_what_it_makes_itself_in_its_own_loop(cluster, dispatcher):
    name = register_dataset(cluster.target, Dataset.range(10**6).map(lambda x: x))
    reading = Reading(dispatcher, name, "its-own-loop", target=ANY)
    tasks = reading.tasks()
    peers = [Peer(task.transfer_servers[0].address) for task in tasks]
    first = [peer.element(task.task_id) for peer, task in zip(peers, tasks, strict=True)]
    assert END_OF_SEQUENCE not in first

    def ways():
        passes = [
            one for one in look(cluster.target).stats.iterations if one.job.endswith("its-own-loop")
        ]
        return [dict(reader.transports) for one in passes for reader in one.readers]

    others = len(cluster.workers) - 1
    wanted = {"local": 1} | ({"shm": others} if others else {})
    deadline = time.monotonic() + 20
    while (found := ways()) != [wanted] * len(tasks):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    reading.release()
    for peer in peers:
        peer.channel.close()


def test_it_shares_a_job_with_readers_of_our_own(cluster, dispatcher):
    name = register_dataset(cluster.target, Dataset.range(200), dataset_id="mixed")
    reading = Reading(dispatcher, name, "dataset_id=/mixed/both")
    ours = from_dataset_id("distributed_epoch", cluster.target, name, job_name="both")
    with iter(ours) as elements:
        mine = [int(next(elements)) for _ in range(20)]
        (task, *_) = reading.tasks()
        peer = Peer(task.worker_address)
        first = peer.element(task.task_id)
        mine += [int(x) for x in elements]
    theirs = [int(np.frombuffer(first[-8:], "<i8")[0])]
    theirs += [number for one in reading.tasks() for number in numbers_of(one)]
    peer.channel.close()
    reading.release()

    assert sorted(mine + theirs) == list(range(200))


def test_what_is_registered_is_told(cluster, dispatcher):
    dataset = Dataset.range(10).map(lambda x: {"x": np.zeros(3, np.float32)})
    name = register_dataset(cluster.target, dataset.repeat())

    found = dispatcher.ask(
        "GetDataServiceMetadata", pb.MetadataRequest(dataset_id=name), pb.MetadataReply
    ).metadata

    assert found.compression == 1
    assert found.cardinality == -1
    assert b"x" in found.element_spec
    version = dispatcher.ask("GetVersion", pb.VersionRequest(), pb.VersionReply)
    assert version.version == 9


def test_compression_is_as_it_was_registered(cluster, dispatcher):
    found = []
    for compression in ("SNAPPY", None, "AUTO"):
        name = register_dataset(
            cluster.target,
            Dataset.range(64),
            compression,
            dataset_id=f"packed by {compression}",
            element_spec=None,
        )
        asked = pb.MetadataRequest(dataset_id=name)
        metadata = dispatcher.ask("GetDataServiceMetadata", asked, pb.MetadataReply).metadata
        refused = dispatcher.ask(
            "DisableCompressionAtRuntime",
            pb.DisableCompressionRequest(dataset_id=name),
            pb.DisableCompressionReply,
        )
        found.append((metadata.compression, refused.no_compression_to_disable))
    ours = from_dataset_id("distributed_epoch", cluster.target, "packed by SNAPPY")

    assert found == [(3, False), (1, True), (1, True)]
    assert sorted(map(int, ours)) == list(range(64))


@pytest.mark.parametrize(
    ("method", "request_", "code", "said"),
    [
        ("GetOrRegisterDataset", pb.VersionRequest(), "UNIMPLEMENTED", "register_dataset(target"),
        ("GetDataServiceMetadata", pb.MetadataRequest(dataset_id="none"), "NOT_FOUND", "none"),
        ("GetOrCreateJob", pb.JobRequest(dataset_id="none"), "NOT_FOUND", "none"),
        ("GetOrCreateIteration", pb.IterationRequest(job_id=7), "FAILED_PRECONDITION", "job 7"),
        ("ClientHeartbeat", pb.HeartbeatRequest(client_id=7), "FAILED_PRECONDITION", "client 7"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(dispatcher, method, request_, code, said):
    with pytest.raises(grpc.RpcError) as refused:
        dispatcher.ask(method, request_, None)

    assert refused.value.code().name == code
    assert said in refused.value.details()


def test_what_a_users_function_raises_ends_the_client_and_says_where(cluster, dispatcher):
    def broken(x):
        raise ValueError(f"no good: {x}")

    name = register_dataset(cluster.target, Dataset.range(4).map(broken), element_spec=None)
    reading = Reading(dispatcher, name, "broken", target=ANY)
    (task, *_) = reading.tasks()
    peer = Peer(task.worker_address)

    with pytest.raises(grpc.RpcError) as failed:
        peer.element(task.task_id)
    peer.channel.close()
    reading.release()

    assert failed.value.code().name == "INVALID_ARGUMENT"
    assert "no good" in failed.value.details()
