"""TensorFlow's protocol beside TLS: a port of its own, of datasets that are opened by name."""

import json
from contextlib import contextmanager

import grpc
import numpy as np
import pytest

from penstock import Dataset
from penstock.credentials import caller
from penstock.service import from_dataset_id, register_dataset
from penstock.wire._pb import tensorflow_pb2 as pb
from penstock_cluster.cli.client import ask
from penstock_dispatcher import DispatcherConfig, DispatchServer
from penstock_worker import WorkerConfig, WorkerServer
from tests.credentials.keyring import made
from tests.mesh.test_tensorflow_protocol import Peer, Reading, numbers_of

REFUSED = grpc.StatusCode.FAILED_PRECONDITION


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture(autouse=True)
def no_choices(monkeypatch):
    monkeypatch.setattr(caller, "_chosen", {})


@pytest.fixture
def mesh(keys):
    """A dispatcher and a worker with credentials, and ports for TensorFlow's clients."""
    settings = DispatcherConfig(
        credentials=keys / "dispatcher", tensorflow_port=0, tensorflow_datasets=("open",)
    )
    with DispatchServer(settings) as dispatcher:
        worker = WorkerConfig(dispatcher.target, credentials=keys / "worker", tensorflow_port=0)
        with WorkerServer(worker):
            for name in ("open", "closed"):
                register_dataset(
                    dispatcher.target,
                    Dataset.range(50),
                    dataset_id=name,
                    credentials=keys / "trainer",
                )
            yield dispatcher


def status(mesh):
    return json.loads(ask(mesh.address, lambda dispatcher: dispatcher.status()))


@pytest.fixture
def plain(mesh, keys, monkeypatch):
    """A client of the dispatcher's port that needs no credentials."""
    monkeypatch.setenv("PENSTOCK_CREDENTIALS", str(keys))
    peer = Peer(status(mesh)["tensorflow"]["address"])
    yield peer
    peer.channel.close()


@contextmanager
def refused(code):
    with pytest.raises(grpc.RpcError) as raised:
        yield
    assert raised.value.code() is code, raised.value.details()


def test_an_opened_dataset_is_read_whole_and_others_are_refused_at_each_step(mesh, plain, keys):
    found = status(mesh)
    assert found["tensorflow"]["datasets"] == ["open"]
    assert found["security"] == "TLS and tokens"

    reading = Reading(plain, "open", "job", target=2)
    tasks = reading.tasks()
    assert sorted(n for task in tasks for n in numbers_of(task)) == list(range(50))
    assert reading.heartbeat().finished

    for name in ("closed", "never registered"):
        with refused(REFUSED):
            Reading(plain, name)
        with refused(REFUSED):
            asked = pb.MetadataRequest(dataset_id=name)
            plain.ask("GetDataServiceMetadata", asked, pb.MetadataReply)
    reading.release()


def test_numbers_of_what_is_not_opened_are_of_no_use_there(mesh, plain, keys):
    credentials = certified(keys)
    within = Peer.__new__(Peer)
    within.channel = credentials(mesh.address)
    theirs = Reading(within, "closed", "job", target=2)
    task = theirs.tasks()[0]

    with refused(REFUSED):
        plain.ask("ClientHeartbeat", pb.HeartbeatRequest(client_id=theirs.client), None)
    with refused(REFUSED):
        plain.ask("ReleaseIterationClient", pb.ReleaseRequest(client_id=theirs.client), None)
    at = Reading(plain, "open", target=2).tasks()[0].worker_address
    worker = Peer(at)
    with refused(REFUSED):
        worker.element(task.task_id)
    # Nor when it is read already, by somebody who may.
    allowed = Peer.__new__(Peer)
    allowed.channel = credentials(task.worker_address)
    assert allowed.element(task.task_id)
    with refused(REFUSED):
        worker.element(task.task_id)
    for peer in (within, worker, allowed):
        peer.channel.close()


class WithToken(grpc.UnaryUnaryClientInterceptor):
    def __init__(self, token):
        self.token = token

    def intercept_unary_unary(self, continuation, details, request):
        return continuation(details._replace(metadata=[("penstock-token", self.token)]), request)


def certified(keys):
    """Return how a reader connects by hand."""
    found = caller.load_client(keys / "reader")
    options = [("grpc.ssl_target_name_override", "localhost")]

    def connected(address):
        secured = grpc.secure_channel(address, grpc.ssl_channel_credentials(*found.tls), options)
        return grpc.intercept_channel(secured, WithToken(found.token))

    return connected


def test_nothing_else_is_answered_there(mesh, plain):
    for path in (
        "/penstock.v1.Dispatcher/Status",
        "/penstock.v1.Dispatcher/RegisterDataset",
        "/penstock.v1.TensorFlow/FindTask",
    ):
        with pytest.raises(grpc.RpcError) as raised:
            plain.channel.unary_unary(path)(b"", timeout=20)
        assert raised.value.code() in {
            grpc.StatusCode.UNIMPLEMENTED,
            grpc.StatusCode.UNAUTHENTICATED,
        }


def test_it_shares_a_job_with_a_reader_by_tls(mesh, plain, keys):
    reading = Reading(plain, "open", "dataset_id=/open/both", target=2)
    ours = from_dataset_id(
        "distributed_epoch", mesh.target, "open", job_name="both", credentials=keys / "reader"
    )
    task = reading.tasks()[0]
    peer = Peer(task.worker_address)
    first = int(np.frombuffer(peer.element(task.task_id)[-8:], "<i8")[0])
    peer.channel.close()
    found = [int(x) for x in ours]
    found += [n for one in reading.tasks() for n in numbers_of(one)]
    reading.release()

    assert sorted([first, *found]) == list(range(50))
