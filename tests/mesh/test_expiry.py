"""Credentials that expire in the middle of a pass: what goes on, and what is refused."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from penstock.credentials import authority, caller
from penstock.credentials.access import AccessRole
from penstock.credentials.caller import caller_with
from penstock.credentials.folder import TOKEN
from penstock.credentials.secret_file import write_file
from penstock.credentials.token import SKEW
from penstock.dataset.dataset import Dataset
from penstock.errors import PenstockError, Unauthenticated, Untrusted
from penstock.runtime.event_loop import LoopThread
from penstock.wire.connection import connect
from penstock.wire.dispatcher import DispatcherClient
from penstock_cluster.local import LocalCluster
from penstock_dispatcher import DispatcherConfig
from penstock_worker import WorkerConfig
from tests.credentials.keyring import made

SECOND = timedelta(seconds=1)

LIFE = 5.0
"""Seconds for which what expires is good."""

MANY, MORE = 4_000, 10_000_000
"""Elements of a pass that is read to its end, and of one that is over when it gets an error."""

WITHIN = 60.0


class Loop:
    """A training loop in a thread, which stands still when it took some, until it is told."""

    def __init__(self, dataset, some=20):
        self.taken, self.error = [], None
        self._some = some
        self._may, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, args=(dataset,))
        self._thread.start()

    def take_some(self):
        assert self._stands.acquire(timeout=WITHIN)
        assert self.error is None
        self._may.release()

    def end(self):
        """Take all that comes."""
        self._some = 1 << 60
        self.take_some()
        self._thread.join(WITHIN)
        assert not self._thread.is_alive()

    def _run(self, dataset):
        try:
            with iter(dataset) as elements:
                for element in elements:
                    self.taken.append(int(element))
                    if len(self.taken) % self._some == 0:
                        self._stands.release()
                        self._may.acquire()
        except PenstockError as exc:
            self.error = exc
        self._stands.release()


def ask(address, folder):
    """Ask for the status, by a connection of its own."""

    async def status():
        async with connect(address, caller=caller_with(str(folder))) as channel:
            return await DispatcherClient(channel).status()

    with LoopThread.shared() as loop:
        return loop.run(status(), WITHIN)


def certified(keys, folder, lasts):
    authority.personal(keys, folder, AccessRole.TRAINER, folder.name, datetime.now(UTC), lasts)
    return folder


def read(number, address, folder):
    return Loop(
        Dataset.range(number).distribute(
            "distributed_epoch",
            f"grpcs://{address}",
            credentials=folder,
            data_transfer_protocol="grpc",
            max_outstanding_requests=1,
            timeout=WITHIN,
        )
    )


@pytest.fixture
def secured(clusters, tmp_path, monkeypatch):
    monkeypatch.setattr(caller, "_chosen", {})
    keys = made(tmp_path / "keys")
    clusters.close()
    with LocalCluster(
        workers=1,
        work_dir=tmp_path / "work",
        dispatcher=DispatcherConfig(credentials=str(keys / "dispatcher")),
        worker=WorkerConfig(credentials=str(keys / "worker")),
    ) as cluster:
        yield cluster, keys


@pytest.mark.slow
def test_who_renews_in_time_reads_on_and_who_does_not_is_told_that_it_expired(secured, tmp_path):
    cluster, keys = secured
    here = cluster.dispatcher.address
    by_name = here.replace("127.0.0.1", "localhost")  # credentials are chosen by address
    began = datetime.now(UTC)
    # The services' certificates end then, too; they look each second for new ones.
    authority.renew(keys, (), began - authority.CERTIFICATE_LASTS + LIFE * SECOND)
    renewed = read(MANY, here, certified(keys, tmp_path / "renewed", LIFE))
    forgotten = read(MORE, by_name, certified(keys, tmp_path / "forgotten", LIFE))
    token = certified(keys, tmp_path / "token", WITHIN)
    dead = authority.token(keys, AccessRole.TRAINER, "cat", began.timestamp() - 2 * SKEW, SKEW - 1)
    write_file(token / TOKEN, dead.encode(), secret=True)
    with pytest.raises(Unauthenticated, match="token of 'cat' expired"):
        ask(here, token)
    for loop in (renewed, forgotten):
        loop.take_some()
    certified(keys, tmp_path / "renewed", 10 * WITHIN)

    while datetime.now(UTC) < began + (LIFE + 1) * SECOND:
        time.sleep(0.05)  # nothing but the clock says when they are over

    for loop in (renewed, forgotten):
        loop.take_some()  # what is connected goes on
    cluster.dispatcher.restart()
    with pytest.raises(Untrusted, match="certificate that has expired"):
        ask(here, tmp_path / "renewed")
    authority.renew(keys, (), datetime.now(UTC))
    renewed.end()
    forgotten.end()

    assert renewed.error is None
    assert sorted(renewed.taken) == list(range(MANY))
    assert isinstance(forgotten.error, Unauthenticated)
    assert "this process's certificate expired" in str(forgotten.error)
    assert len(forgotten.taken) == len(set(forgotten.taken))
    with pytest.raises(Unauthenticated, match="certificate expired"):
        ask(by_name, tmp_path / "forgotten")
