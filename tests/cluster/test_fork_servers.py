"""The servers that fork members of clusters, and the runners of workers."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock_cluster.fork_servers import ForkServers, held
from tests.process_tree import below, parent

WITHIN = 20.0


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")


def preloaded():
    """The processes that this one forks from, by what they have loaded."""
    found = {}
    for pid in below(os.getpid()):
        with suppress(OSError):
            words = command(pid)
            if "--requests" in words:
                found[words[words.index("-m") + 2]] = pid
    return found


def loaded(pid):
    return Path(f"/proc/{pid}/maps").read_text()


def test_one_server_forks_members_and_another_one_runners(clusters):
    with clusters.own(workers=2) as cluster:
        members = [cluster.dispatcher, *cluster.workers]
        list(Dataset.range(4).distribute("parallel_epochs", cluster.target))
        runners = [pid for worker in cluster.workers for pid in below(worker.pid)]

        servers = preloaded()
        of_members = servers["penstock_cluster.fork_servers"]
        of_runners = servers["penstock_worker.runner.fork_child"]
        assert {parent(member.pid) for member in members} == {of_members}
        assert {parent(pid) for pid in runners} == {of_runners}
        for member, module in zip(members, ["dispatcher", "worker", "worker"], strict=True):
            assert command(member.pid)[1:] == ["-m", f"penstock_{module}"]
            assert os.getsid(member.pid) == member.pid


def test_the_server_of_runners_has_no_grpc_and_one_thread(clusters):
    with clusters.own(workers=1):
        of_runners = preloaded()["penstock_worker.runner.fork_child"]

        assert "_multiarray_umath" in loaded(of_runners)
        assert "cygrpc" not in loaded(of_runners)
        assert len(os.listdir(f"/proc/{of_runners}/task")) == 1


def test_a_member_that_is_started_again_is_forked_too(clusters):
    with clusters.own(workers=1) as cluster:
        cluster.workers[0].kill()
        cluster.workers[0].restart()

        assert parent(cluster.workers[0].pid) == preloaded()["penstock_cluster.fork_servers"]


@pytest.mark.slow
def test_a_member_whose_environment_is_another_is_started_by_itself(clusters, monkeypatch):
    with clusters.own(workers=1) as cluster:
        monkeypatch.setenv("SOMETHING_NEW", "that modules may read")

        added = cluster.add_worker()

        assert parent(added.pid) == os.getpid()
        assert b"SOMETHING_NEW=" in Path(f"/proc/{added.pid}/environ").read_bytes()
        far = Dataset.range(9).distribute("distributed_epoch", cluster.target)
        assert sorted(map(int, far)) == list(range(9))


@pytest.mark.slow
def test_a_process_that_runners_come_from_does_not_know_where_credentials_are(monkeypatch):
    monkeypatch.setenv("PENSTOCK_CREDENTIALS", "/where/they/are")
    servers = ForkServers()

    servers.start()
    server = servers.runners.server_pid

    assert b"PENSTOCK_CREDENTIALS" not in Path(f"/proc/{server}/environ").read_bytes()
    servers.close()


@pytest.mark.slow
def test_members_are_started_where_the_system_has_no_pidfds(clusters, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    servers = ForkServers()
    ours, theirs = os.pipe()

    process = servers.process("penstock_dispatcher", {}, {"PENSTOCK_READY_FD": theirs})
    os.close(theirs)
    with os.fdopen(ours) as ready:
        assert ready.readline().startswith("127.0.0.1:")

    assert parent(process.pid) == os.getpid()
    process.terminate()
    assert process.wait(WITHIN) == 0
    servers.close()


@pytest.mark.slow
def test_both_processes_end_when_nobody_holds_them(clusters):
    servers = ForkServers()
    before = below(os.getpid())
    ours, theirs = os.pipe()
    process = servers.process("penstock_dispatcher", {}, {"PENSTOCK_READY_FD": theirs})
    os.close(theirs)
    with os.fdopen(ours) as ready:
        ready.readline()
    assert len(below(os.getpid()) - before) == 3
    process.terminate()
    assert process.wait(WITHIN) == 0

    servers.close()

    assert below(os.getpid()) - before == set()


@pytest.mark.slow
def test_a_cluster_goes_on_without_what_it_was_forked_from_which_is_replaced(clusters):
    with clusters.own(workers=1) as cluster:
        first = preloaded()["penstock_cluster.fork_servers"]
        os.kill(first, signal.SIGKILL)

        far = Dataset.range(9).distribute("distributed_epoch", cluster.target)
        assert sorted(map(int, far)) == list(range(9))
        added = cluster.add_worker()
        second = preloaded()["penstock_cluster.fork_servers"]
        assert parent(added.pid) == second != first


def test_holders_in_one_process_share_what_they_fork_from(clusters):
    with held() as one, held() as two:
        assert one is two
