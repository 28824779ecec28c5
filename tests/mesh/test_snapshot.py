"""Snapshots that workers make, split by split."""

import json

import pytest

from penstock.autocache import for_workers
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.explanation.ask import explain
from penstock.options import AutocacheOptions, Options
from penstock.saved.upkeep import datasets_below
from tests.storage.stand_in import served

pytest.importorskip("pyarrow")

COUNT = 900


@pytest.fixture
def calls(tmp_path):
    """A file in which `noted` notes its calls, and a function that reads them."""
    path = str(tmp_path / "calls")

    def read():
        with open(path) as file:
            return sorted(map(int, file.read().split()))

    open(path, "w").close()
    return path, read


def noting(path):
    def noted(x):
        with open(path, "a") as file:
            file.write(f"{x} ")
        return x * 2

    return noted


def far(dataset, target, **options):
    return dataset.distribute("distributed_epoch", target, **options)


def numbers(dataset):
    return [int(x) for x in dataset]


WANTED = [x * 2 for x in range(COUNT)]


def test_a_later_job_calls_no_function_whoever_reads_it(cluster, tmp_path, calls):
    path, read = calls

    def kept():
        return Dataset.range(COUNT).map(noting(path)).snapshot(tmp_path / "snapshots")

    assert sorted(numbers(far(kept(), cluster.target))) == WANTED
    assert read() == list(range(COUNT))
    assert sorted(numbers(far(kept(), cluster.target))) == WANTED
    assert numbers(far(kept(), cluster.target, ordered=True)) == WANTED
    batches = far(kept().batch(20), cluster.target)
    assert sorted(int(x) for batch in batches for x in batch) == WANTED
    assert read() == list(range(COUNT))


def test_a_cache_with_a_path_before_distribute_serves_later_jobs(cluster, tmp_path, calls):
    path, read = calls

    def kept():
        return Dataset.range(COUNT).map(noting(path)).cache(tmp_path / "cache")

    for _ in range(2):
        assert sorted(numbers(far(kept(), cluster.target))) == WANTED
    assert read() == list(range(COUNT))


def test_repeat_behind_a_snapshot_makes_each_element_once(cluster, tmp_path, calls):
    path, read = calls
    kept = Dataset.range(COUNT).map(noting(path)).snapshot(tmp_path / "snapshots").repeat(3)

    assert sorted(numbers(far(kept, cluster.target))) == sorted(WANTED * 3)
    assert len(read()) <= COUNT + 2 * 64  # two workers may make one cell at once


def test_filters_and_packs_are_kept_with_their_split(cluster, tmp_path, calls):
    path, read = calls
    odd = Dataset.range(COUNT).filter(lambda x: x % 3 == 1).map(noting(path))

    def kept():
        documents = odd.map(lambda x: {"tokens": [x] * 3})
        return documents.pack(8).snapshot(tmp_path / "snapshots")

    def packs():
        return [pack["tokens"].tolist() for pack in far(kept(), cluster.target, ordered=True)]

    first, begun = packs(), read()
    again = packs()

    assert first == again
    assert read() == begun == [x for x in range(COUNT) if x % 3 == 1]


def test_workers_make_only_what_a_changed_file_holds(cluster, tmp_path, calls):
    path, read = calls
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"{number}0\n{number}1\n")

    def kept():
        lines = Dataset.text_lines(str(tmp_path / "?.txt")).map(int)
        return lines.map(noting(path)).snapshot(tmp_path / "snapshots")

    assert sorted(numbers(far(kept(), cluster.target))) == [0, 2, 20, 22, 40, 42, 60, 62]
    (tmp_path / "2.txt").write_text("7\n")
    assert sorted(numbers(far(kept(), cluster.target))) == [0, 2, 14, 20, 22, 60, 62]
    assert read() == sorted([0, 1, 10, 11, 20, 21, 30, 31, 7])


def test_where_each_worker_makes_all_one_snapshot_serves_them_and_local_passes(
    cluster, tmp_path, calls
):
    path, read = calls
    kept = Dataset.range(100).map(noting(path)).snapshot(tmp_path / "snapshots")
    list(kept)
    copies = numbers(kept.distribute("parallel_epochs", cluster.target))

    assert sorted(set(copies)) == WANTED[:100]
    assert read() == list(range(100))


def test_a_state_is_exact_within_a_split(cluster, tmp_path):
    kept = Dataset.range(COUNT).map(lambda x: x * 2).snapshot(tmp_path / "snapshots")
    dataset = far(kept, cluster.target, job_name="snapshot-state", ordered=True)
    it = iter(dataset)
    begun = [int(next(it)) for _ in range(301)]
    state = json.loads(json.dumps(it.state()))
    it.close()

    assert begun + numbers(dataset.iterator(state)) == WANTED


def test_what_needs_more_than_one_split_is_refused_with_the_remedy(cluster, tmp_path):
    path = tmp_path / "snapshots"
    two = Dataset.range(9).concatenate(Dataset.range(9))
    for dataset, why in (
        (Dataset.range(9).filter(bool).batch(2), r"batch keeps something across splits"),
        (Dataset.range(9).repeat(2), r"repeat keeps something across splits"),
        (two, r"concatenate joins sources that are split apart"),
    ):
        kept = dataset.snapshot(path)
        with pytest.raises(DatasetError, match=rf"^snapshot: {why}.* behind the snapshot, or use"):
            far(kept, cluster.target)
        assert list(kept.distribute("parallel_epochs", cluster.target))


@pytest.mark.slow
def test_workers_keep_what_autocache_chose_and_a_later_job_calls_no_function(
    cluster, tmp_path, calls, monkeypatch
):
    path, read = calls
    options = Options(autocache=AutocacheOptions(path=tmp_path / "kept"))

    def kept():
        slow = Dataset.range(COUNT).map(lambda x: x + sum(range(50_000)) * 0).map(noting(path))
        return far(slow.with_options(options), cluster.target)

    dataset = kept()
    measured = len(read())
    assert measured < COUNT
    elements = iter(dataset)
    assert sorted(numbers(elements)) == WANTED
    assert sorted(set(read())) == list(range(COUNT))
    assert any("* after map(noted)" in line for line in explain(elements).figures)
    made = read()
    monkeypatch.setattr(for_workers, "_blocks", None)  # the choice is there already
    assert sorted(numbers(dataset)) == WANTED
    assert sorted(numbers(kept())) == WANTED
    assert read() == made


@pytest.mark.slow
def test_workers_keep_a_snapshot_in_an_object_store(monkeypatch, another, calls):
    path, read = calls
    with served() as bucket:
        for name, value in bucket.env.items():
            monkeypatch.setenv(name, value)
        bucket.write_fault = lambda number: {3: "503", 5: "lost", 8: "lost"}.get(number, "")
        kept = Dataset.range(COUNT).map(noting(path)).snapshot("s3://data/snapshots")
        with another(workers=2) as cluster:
            for _ in range(2):
                assert sorted(numbers(far(kept, cluster.target))) == WANTED
    assert read() == list(range(COUNT))


@pytest.mark.slow
def test_workers_that_come_and_are_killed_leave_a_whole_snapshot(another, tmp_path, calls):
    path, read = calls

    def slow(x):
        with open(path, "a") as file:
            file.write(f"{x} ")
        import time

        time.sleep(0.004)
        return x * 2

    kept = Dataset.range(COUNT).map(slow).snapshot(tmp_path / "snapshots")
    with another(workers=1) as cluster:
        it = iter(far(kept, cluster.target))
        seen = [int(next(it)) for _ in range(100)]
        cluster.add_worker()
        cluster.add_worker()
        seen += [int(next(it)) for _ in range(200)]
        cluster.workers[0].kill()
        seen += numbers(it)
        assert sorted(seen) == WANTED
        made = read()
        assert sorted(set(made)) == list(range(COUNT))
        assert sorted(numbers(far(kept, cluster.target))) == WANTED
        assert read() == made
    cells = [version.manifest for _, version in datasets_below(str(tmp_path / "snapshots"))]
    assert sum(cell.elements for cell in cells) == COUNT
