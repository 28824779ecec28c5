"""A whole mesh with TLS and tokens: who has credentials reads, and nobody else comes in."""

import os
import shutil
import socket
import ssl

import pytest

from penstock.credentials import authority, caller
from penstock.credentials.caller import LocalCaller, caller_with
from penstock.credentials.folder import LOOK
from penstock.dataset.dataset import Dataset
from penstock.errors import (
    PenstockError,
    TamperedDefinition,
    Unauthenticated,
    Unavailable,
    Untrusted,
    WrongRole,
)
from penstock.reader.session import line
from penstock.runtime.event_loop import LoopThread
from penstock.service import from_dataset_id, register_dataset, save
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_cluster.local import LocalCluster
from penstock_dispatcher import DispatcherConfig, DispatchServer
from penstock_worker import WorkerConfig, WorkerServer
from penstock_worker.runner import confinement, cover, landlock
from tests.credentials.keyring import made


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return made(tmp_path_factory.mktemp("keys") / "keys")


@pytest.fixture(scope="module")
def secured(clusters, keys):
    """A cluster of real processes with credentials."""
    configs = {
        "dispatcher": DispatcherConfig(credentials=str(keys / "dispatcher")),
        "worker": WorkerConfig(credentials=str(keys / "worker")),
    }
    clusters.close()
    with LocalCluster(workers=1, **configs) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def no_choices(monkeypatch):
    monkeypatch.setattr(caller, "_chosen", {})


def ask(address, who, method):
    async def run():
        async with connect(address, caller=who) as channel:
            return await method(DispatcherClient(channel))

    with LoopThread.shared() as loop:
        return loop.run(run(), 20)


def test_a_trainer_reads_what_it_registers_by_tls(secured, keys):
    assert secured.target.startswith("grpcs://")
    far = (
        Dataset.range(100)
        .map(lambda x: x * 2)
        .distribute("distributed_epoch", secured.target, credentials=keys / "trainer")
    )

    assert sorted(int(x) for x in far) == list(range(0, 200, 2))


def test_frames_come_by_tls_where_no_memory_is_shared(secured, keys):
    far = Dataset.range(100).distribute(
        "distributed_epoch",
        secured.target,
        credentials=keys / "trainer",
        data_transfer_protocol="grpc",
    )

    assert sorted(int(x) for x in far) == list(range(100))


def test_a_variable_says_which_credentials(secured, keys, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CREDENTIALS", str(keys / "trainer"))

    for target in (secured.target, secured.dispatcher.address):
        far = Dataset.range(4).distribute("distributed_epoch", target)
        assert sorted(int(x) for x in far) == [0, 1, 2, 3]


def test_a_reader_reads_what_is_registered_and_registers_nothing(secured, keys):
    name = register_dataset(
        secured.target, Dataset.range(3), dataset_id="three", credentials=keys / "trainer"
    )
    found = from_dataset_id("distributed_epoch", secured.target, name, credentials=keys / "reader")

    assert sorted(int(x) for x in found) == [0, 1, 2]
    with pytest.raises(WrongRole, match="for the role trainer"):
        register_dataset(secured.target, Dataset.range(5), credentials=keys / "reader")


def test_a_trainer_saves_and_a_reader_only_looks(secured, keys, tmp_path):
    pytest.importorskip("pyarrow")
    target, path = secured.target, tmp_path / "saved"
    with pytest.raises(WrongRole, match="is for the role trainer, and reader"):
        save(Dataset.range(50), tmp_path / "other", target, credentials=keys / "reader")
    job = save(Dataset.range(50), path, target, credentials=keys / "trainer")

    assert job.wait(60).elements == 50
    asked = (secured.dispatcher.address, caller_with(str(keys / "reader")))
    assert ask(*asked, lambda api: api.find_recording(job.save_id)).stage == "complete"
    with pytest.raises(WrongRole, match="is for the role trainer or operator"):
        ask(*asked, lambda api: api.cancel_recording(job.save_id))


def test_who_has_no_credentials_does_not_come_in(secured, keys, tmp_path):
    other = made(tmp_path / "other")
    shutil.copytree(keys / "reader", tmp_path / "mixed")
    shutil.copy(other / "reader" / "token", tmp_path / "mixed" / "token")
    address = secured.dispatcher.address

    with pytest.raises(PenstockError, match="grpcs://"):
        ask(address, LocalCaller(), lambda d: d.status())
    with pytest.raises(Untrusted, match="CA that is not trusted"):
        ask(address, caller_with(str(other / "reader")), lambda d: d.status())
    with pytest.raises(Unauthenticated, match="another cluster"):
        ask(address, caller_with(str(tmp_path / "mixed")), lambda d: d.status())


def test_a_dispatcher_of_another_cluster_is_no_reason_to_wait_long(secured, tmp_path, monkeypatch):
    monkeypatch.setattr(line, "REPLACED_WITHIN", 0.1)
    other = made(tmp_path / "other")
    far = Dataset.range(3).distribute(
        "distributed_epoch", secured.target, credentials=other / "trainer", timeout=100.0
    )

    with pytest.raises(Untrusted, match="CA that is not trusted"):
        next(iter(far))


def test_the_worker_asks_for_a_token_too(secured, keys):
    address = secured.workers[0].address
    with pytest.raises(WrongRole, match="Worker/Trace"):
        trace(address, caller_with(str(keys / "worker")))
    trace(address, caller_with(str(keys / "operator")))


def trace(address, who):
    from penstock.wire.worker import SERVER, WorkerClient

    async def run():
        async with connect(address, caller=who, server=SERVER) as channel:
            return await WorkerClient(channel).trace(-1)

    with LoopThread.shared() as loop:
        return loop.run(run(), 20)


def test_a_service_process_speaks_no_tls_older_than_1_3(secured):
    host, _, port = secured.dispatcher.address.rpartition(":")

    def spoken(newest):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = newest
        with socket.create_connection((host, int(port)), 10) as plain:
            with context.wrap_socket(plain) as tls:
                return tls.version()

    assert spoken(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    with pytest.raises(OSError):
        spoken(ssl.TLSVersion.TLSv1_2)


def test_a_worker_runs_nothing_that_has_not_its_dispatchers_seal(keys, tmp_path):
    other = tmp_path / "worker"
    shutil.copytree(keys / "worker", other)
    (other / "definitions.key").write_bytes(bytes(32))
    ran = tmp_path / "ran"
    with (
        DispatchServer(DispatcherConfig(credentials=keys / "dispatcher")) as dispatcher,
        WorkerServer(WorkerConfig(dispatcher.target, credentials=other)),
    ):
        far = Dataset.range(3).map(lambda x: (ran.touch(), x)[1])
        far = far.distribute("distributed_epoch", dispatcher.target, credentials=keys / "trainer")
        with pytest.raises(TamperedDefinition, match="definitions.key"):
            next(iter(far))

    assert not ran.exists()


@pytest.mark.slow
@pytest.mark.skipif(landlock.version() < landlock.LEAST, reason="this kernel has no Landlock")
def test_users_code_can_read_no_key_of_its_worker_and_change_no_mode_where_that_can_be_kept(
    keys, monkeypatch
):
    monkeypatch.setattr(confinement, "_is_everybodys", lambda _: False)  # it is below /tmp here

    kept = cover.possible([str(keys)])
    modes = {file: file.stat().st_mode for file in keys.glob("*/*")}

    def tried(_):
        found = []
        for file in sorted(keys.glob("*/*")):
            try:
                if kept:
                    os.chmod(file, 0o644)
                file.read_bytes()
                found.append(file.name)
            except PermissionError:
                pass
        return len(found), len(list(keys.glob("*/*")))

    with (
        DispatchServer(DispatcherConfig(credentials=keys / "dispatcher")) as dispatcher,
        WorkerServer(WorkerConfig(dispatcher.target, credentials=keys / "worker")),
    ):
        far = Dataset.range(1).map(tried)
        far = far.distribute("distributed_epoch", dispatcher.target, credentials=keys / "trainer")
        ((read, there),) = far

    assert (int(read), int(there)) == (0, len(list(keys.glob("*/*"))))
    assert {file: file.stat().st_mode for file in modes} == modes


def test_on_loopback_another_users_processes_are_refused_without_any_setting(tmp_path):
    stranger = LocalCaller(lambda: tmp_path)  # who has not this user's key
    with DispatchServer() as server:
        assert ask(server.address, LocalCaller(), lambda d: d.status())
        with pytest.raises(Unauthenticated, match=f"user {os.getuid()}"):
            ask(server.address, stranger, lambda d: d.status())


@pytest.mark.slow
def test_certificates_and_keys_are_changed_while_all_go_on(tmp_path):
    keys = made(tmp_path / "keys")
    from datetime import UTC, datetime

    class Clock:
        now = 0.0

        def __call__(self):
            self.now += LOOK  # each look is at the files
            return self.now

    who = caller.TokenCaller(caller.WatchedFolder(keys / "operator", caller.load_client, Clock()))
    with DispatchServer(DispatcherConfig(credentials=str(keys / "dispatcher"))) as server:

        async def run():
            async with connect(server.address, caller=who) as channel:
                client = DispatcherClient(channel)
                assert await client.status()
                for _ in range(4):
                    authority.rotate(keys, datetime.now(UTC))
                    await eventually(client.status)

        with LoopThread.shared() as loop:
            loop.run(run(), 30)


async def eventually(method):
    """Call until it works: a service looks at its files once a second."""
    import asyncio

    async with asyncio.timeout(10):
        while True:
            try:
                return await method()
            except (Unauthenticated, Unavailable):
                await asyncio.sleep(0.05)
