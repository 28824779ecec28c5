"""Workers of a host that read remote files through one cache on its disk."""

import json
import os
import signal
from collections import Counter
from dataclasses import replace

import pytest

from penstock.dataset.dataset import Dataset
from penstock_cluster import LocalCluster, WorkerConfig
from tests.chaos import limits
from tests.mesh.worker_status import status_of
from tests.process_tree import below
from tests.storage.stand_in import served
from tests.waiting import wait_until

COUNT = 2000
FILES = 6


@pytest.fixture
def store():
    """A web server with entity tags and ranges, which has files of numbered lines."""
    with served() as made:
        for number in range(FILES):
            lines = (json.dumps({"n": n}) for n in range(number * COUNT, (number + 1) * COUNT))
            made.objects[f"data/{number}.jsonl"] = "\n".join(lines).encode()
        yield made


@pytest.fixture
def numbers(store):
    return Dataset.json_lines([f"{store.url}/data/{number}.jsonl" for number in range(FILES)])


def caching(folder, **settings):
    return WorkerConfig(file_cache_dir=str(folder), **settings)


def read(dataset, cluster):
    """Read an epoch; check that each element came once."""
    far = dataset.distribute("distributed_epoch", cluster.target)
    found = Counter(int(element["n"]) for element in far)
    assert found == Counter(range(FILES * COUNT))


def counted(cluster):
    """Return what all workers report of remote files, as sums."""
    reports = [Counter(status_of(worker.address)["storage"]) for worker in cluster.workers]
    return sum(reports, Counter())


def downloads(store, cluster):
    """Return how many ranges the store sent, without second requests for ones that are late."""
    return len(store.ranges) - counted(cluster)["hedges"]


def test_two_workers_download_each_piece_once_and_the_second_epoch_comes_from_the_disk(
    store, numbers, tmp_path
):
    whole = sum(map(len, store.objects.values()))
    with LocalCluster(workers=2, worker=caching(tmp_path)) as cluster:
        for _ in range(2):
            read(numbers, cluster)
            assert downloads(store, cluster) <= FILES
        held = status_of(cluster.workers[0].address)["file_cache"]["held"]
    assert whole < held < whole + 1000


def test_runners_that_need_the_same_pieces_at_once_download_each_once(store, numbers, tmp_path):
    node = numbers.node
    small = Dataset(replace(node, pattern=replace(node.pattern, part_bytes=5000)))
    with LocalCluster(workers=2, worker=caching(tmp_path, slots=2)) as cluster:
        read(small, cluster)
        assert downloads(store, cluster) <= len(set(store.ranges))


def test_workers_report_hits_and_misses_and_read_a_replaced_file_anew(store, numbers, tmp_path):
    with LocalCluster(workers=1, worker=caching(tmp_path)) as cluster:
        for _ in range(2):
            read(numbers, cluster)
        counts = counted(cluster)
        assert counts["nbytes"] == sum(map(len, store.objects.values()))
        store.ranges.clear()
        name = "data/0.jsonl"
        store.objects[name] = store.objects[name].replace(b'"n": 5}', b'"n":  5}')
        read(numbers, cluster)
    assert (counts["cache_hits"], counts["cache_misses"]) == (FILES, FILES)
    assert {found for found, _ in store.ranges} == {name}


def test_without_a_folder_each_epoch_reads_from_the_store(store, numbers, monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_FILE_CACHE_DIR", str(tmp_path))
    with LocalCluster(workers=1) as cluster:
        for _ in range(2):
            read(numbers, cluster)
    assert len(store.ranges) >= 2 * FILES
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_cache_with_room_for_no_piece_keeps_none(store, numbers, tmp_path):
    with LocalCluster(workers=1, worker=caching(tmp_path, file_cache_bytes=1)) as cluster:
        for _ in range(2):
            read(numbers, cluster)
        assert status_of(cluster.workers[0].address)["file_cache"]["held"] == 0
    assert len(store.ranges) >= 2 * FILES


def test_a_killed_runner_costs_no_element_and_a_later_cluster_finds_all_files(
    store, numbers, tmp_path
):
    killed = []
    store.fault = lambda _: "" if killed else "late"
    with LocalCluster(workers=1, worker=caching(tmp_path)) as cluster:
        far = numbers.distribute("distributed_epoch", cluster.target)
        with far.iterator() as elements:
            wait_until(lambda: list(tmp_path.glob("*/??/*.new")), 60)
            killed += below(cluster.workers[0].pid)
            for runner in killed:
                os.kill(runner, signal.SIGKILL)
            found = Counter(int(element["n"]) for element in elements)
        assert found == Counter(range(FILES * COUNT))
    store.ranges.clear()
    with LocalCluster(workers=1, worker=caching(tmp_path)) as cluster:
        read(numbers, cluster)
    assert not store.ranges


@pytest.mark.slow
def test_a_full_disk_costs_no_element_and_other_files_keep_their_room(store, numbers, tmp_path):
    with limits.small_disk(tmp_path / "disk") as mounted:
        if not mounted:
            pytest.skip("only root may mount a disk")
        with LocalCluster(workers=2, worker=caching(tmp_path / "disk")) as cluster:
            read(numbers, cluster)
            restore = limits.fill(tmp_path / "disk")
            read(numbers, cluster)
            restore()
            read(numbers, cluster)
