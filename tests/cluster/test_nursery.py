"""What members of clusters, and the zygotes of workers, are forked from."""

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.dataset.dataset import Dataset
from penstock_cluster.nursery import Nursery, held
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
            if "--door" in words:
                found[words[words.index("-m") + 1]] = pid
    return found


def loaded(pid):
    return Path(f"/proc/{pid}/maps").read_text()


def test_members_are_forked_from_one_process_and_zygotes_from_another(clusters):
    with clusters.own(workers=2) as cluster:
        members = [cluster.dispatcher, *cluster.workers]
        list(Dataset.range(4).distribute("parallel_epochs", cluster.target))
        zygotes = [pid for worker in cluster.workers for pid in below(worker.pid)]
        zygotes = [pid for pid in zygotes if "--worker" in command(pid)]

        servers = preloaded()
        of_members = servers["penstock_cluster.preloaded"]
        of_zygotes = servers["penstock_worker.runner.preloaded"]
        assert {parent(member.pid) for member in members} == {of_members}
        assert {parent(pid) for pid in zygotes} >= {of_zygotes}
        for member, module in zip(members, ["dispatcher", "worker", "worker"], strict=True):
            assert command(member.pid)[1:] == ["-m", f"penstock_{module}"]
            assert os.getsid(member.pid) == member.pid


def test_what_zygotes_are_forked_from_has_no_grpc_and_one_thread(clusters):
    with clusters.own(workers=1):
        of_zygotes = preloaded()["penstock_worker.runner.preloaded"]

        assert "_multiarray_umath" in loaded(of_zygotes)
        assert "cygrpc" not in loaded(of_zygotes)
        assert len(os.listdir(f"/proc/{of_zygotes}/task")) == 1


def test_a_member_that_is_started_again_is_forked_too(clusters):
    with clusters.own(workers=1) as cluster:
        cluster.workers[0].kill()
        cluster.workers[0].restart()

        assert parent(cluster.workers[0].pid) == preloaded()["penstock_cluster.preloaded"]


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
    nursery = Nursery()

    server = nursery.zygotes.server_pid

    assert b"PENSTOCK_CREDENTIALS" not in Path(f"/proc/{server}/environ").read_bytes()
    nursery.close()


@pytest.mark.slow
def test_members_are_started_where_the_system_has_no_pidfds(clusters, monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    nursery = Nursery()
    ours, theirs = os.pipe()

    process = nursery.process("penstock_dispatcher", {}, {"PENSTOCK_READY_FD": theirs})
    os.close(theirs)
    with os.fdopen(ours) as ready:
        assert ready.readline().startswith("127.0.0.1:")

    assert parent(process.pid) == os.getpid()
    process.terminate()
    assert process.wait(WITHIN) == 0
    nursery.close()


@pytest.mark.slow
def test_both_processes_end_when_nobody_holds_them(clusters):
    nursery = Nursery()
    before = below(os.getpid())
    ours, theirs = os.pipe()
    process = nursery.process("penstock_dispatcher", {}, {"PENSTOCK_READY_FD": theirs})
    os.close(theirs)
    with os.fdopen(ours) as ready:
        ready.readline()
    assert len(below(os.getpid()) - before) == 3
    process.terminate()
    assert process.wait(WITHIN) == 0

    nursery.close()

    assert below(os.getpid()) - before == set()


@pytest.mark.slow
def test_a_cluster_goes_on_without_what_it_was_forked_from_which_is_replaced(clusters):
    with clusters.own(workers=1) as cluster:
        first = preloaded()["penstock_cluster.preloaded"]
        os.kill(first, signal.SIGKILL)

        far = Dataset.range(9).distribute("distributed_epoch", cluster.target)
        assert sorted(map(int, far)) == list(range(9))
        added = cluster.add_worker()
        second = preloaded()["penstock_cluster.preloaded"]
        assert parent(added.pid) == second != first


def test_holders_in_one_process_share_what_they_fork_from(clusters):
    with held() as one, held() as two:
        assert one is two
