"""What a session is told of itself when it opens."""

import json
from types import SimpleNamespace

import pytest

from penstock.dataset.dataset import Dataset
from penstock.definition import encode
from penstock.errors import DatasetError, JobMismatch, UnknownDataset
from penstock.protocol.calls import OpenIterationReply
from penstock.protocol.types import Codec, DatasetId, IterationId, Mode
from penstock.reader.core.rounds import Consumer
from penstock.reader.session import open as session_open
from penstock.reader.session.open import check_local, explained
from penstock.runtime.versions import versions
from penstock.transport.in_process import offered
from tests.openings import opening


def test_of_two_processes_the_one_that_asked_last_began_last_though_it_is_answered_first(
    monkeypatch,
):
    request = opening(versions(), DatasetId("d"), Mode.DYNAMIC, "j", 1, Codec.NONE)
    where = ("grpc://127.0.0.1:1", bytes, str, request, None, 1.0, False)
    spec = session_open.ReadSpec(*where, consumer=Consumer(0, 2))
    now, cores = [100], []

    def answers(*_):
        """Answer, after another process has asked and was answered."""
        if now[0] == 100:
            now[0] = 200
            session_open.open_session(spec)
            now[0] = 300
        return DatasetId("d"), OpenIterationReply(IterationId(1), "j", 1.0, 10.0)

    def opened(core, config, loop, held):
        cores.append(core)
        session_open._close(loop, config.line)
        held.close()

    monkeypatch.setattr(session_open, "time", SimpleNamespace(time_ns=lambda: now[0]))
    monkeypatch.setattr(session_open, "_open", answers)
    monkeypatch.setattr(session_open, "_await_join", lambda _: None)
    monkeypatch.setattr(session_open, "Session", opened)
    session_open.open_session(spec)

    answered_first, answered_last = (core.heartbeat(0.0).rounds.stamp for core in cores)
    assert (answered_first, answered_last) == (200, 100)


THEIRS = encode(Dataset.range(10).map(lambda x: x + 1).node)
MINE = encode(Dataset.range(10).map(lambda x: x + 2).node)


def registered(definition):
    async def fetch(dataset):
        assert dataset == THEIRS.fingerprint
        return definition.to_bytes()

    return fetch


async def test_the_first_difference_is_added_to_the_error():
    error = JobMismatch("its dataset is another", THEIRS.fingerprint)

    told = await explained(error, MINE.to_bytes(), registered(THEIRS))

    assert str(told).startswith("its dataset is another. Of the job's pipeline and this one, map")
    assert told.dataset == THEIRS.fingerprint


async def test_an_error_about_other_parameters_stays_as_it_is():
    error = JobMismatch("its mode is another")

    assert await explained(error, MINE.to_bytes(), registered(THEIRS)) is error


@pytest.mark.parametrize("why", ["the same", "forgotten", "no definition"])
async def test_so_does_one_whose_difference_cannot_be_told(why):
    error = JobMismatch("its dataset is another", THEIRS.fingerprint)

    async def fetch(_dataset):
        if why == "forgotten":
            raise UnknownDataset("it is not registered")
        return MINE.to_bytes() if why == "the same" else b"damaged"

    assert await explained(error, MINE.to_bytes(), fetch) is error


def status(*workers):
    async def ask():
        known = [{"address": name, "incarnation": life, "tasks": []} for name, life in workers]
        return json.dumps({"address": "d:1", "workers": known}).encode()

    return ask


async def test_a_worker_here_that_the_dispatcher_knows_is_enough():
    with offered("w:1", 5, None):
        await check_local("d:1", status(("w:2", 5), ("w:1", 5)))


async def test_workers_elsewhere_are_named_and_so_is_the_remedy():
    with pytest.raises(DatasetError) as caught:
        await check_local("d:1", status(*((f"w:{i}", 5) for i in range(6))))

    words = str(caught.value)
    assert "w:0, w:1, w:2, w:3 and 2 more, in other processes, registered" in words
    assert "WorkerServer(WorkerConfig('d:1'))" in words


async def test_where_there_is_no_worker_at_all_it_says_so():
    with pytest.raises(DatasetError, match="no worker is registered at the dispatcher at d:1"):
        await check_local("d:1", status())


async def test_a_worker_here_of_another_dispatcher_or_life_is_not_enough():
    with offered("w:1", 5, None), offered("w:2", 5, None):
        with pytest.raises(DatasetError, match="w:1, in other processes"):
            await check_local("d:1", status(("w:1", 4)))
