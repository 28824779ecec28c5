"""A small disk that is really full: of a task's cache, of a cache of one's own, of a dispatcher."""

import os
import subprocess

import numpy as np
import pytest

from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError, PenstockError, StoreFull
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersions
from penstock.saved.upkeep import damage
from penstock.service import save
from tests.chaos import limits

MANY, NBYTES = 48, 1 << 16
"""Elements and the bytes of each: they fit on the disk, when that is empty, and are some blocks."""


@pytest.fixture
def disk(tmp_path):
    folder = tmp_path / "disk"
    with limits.small_disk(folder) as mounted:
        if not mounted:
            pytest.skip("only root may mount a disk")
        yield folder


def arrays(folder):
    large = Dataset.range(MANY).map(lambda x: np.full(NBYTES, x, np.uint8))
    return large.cache(str(folder / "cache"))


def taken(dataset):
    """Return the elements, and what was raised meanwhile."""
    out, errors = [], []
    with iter(dataset) as elements:
        while True:
            try:
                out.append(int(next(elements)[0]))
            except StopIteration:
                return sorted(out), errors
            except PenstockError as exc:
                errors.append(str(exc))
                if len(errors) == 3:
                    return sorted(out), errors


TWICE = sorted([*range(MANY), *range(MANY)])


def test_a_cache_file_is_named_where_there_is_no_room_and_costs_no_element(disk):
    restore = limits.fill(disk)

    found, errors = taken(arrays(disk).repeat(2))

    assert found == TWICE
    assert len(errors) == 2  # one a pass
    for error in errors:
        assert str(disk / "cache") in error
        assert "No space left on device" in error
    assert os.listdir(disk) == ["filler"]
    restore()
    assert taken(arrays(disk).repeat(2)) == (TWICE, [])
    assert os.listdir(disk) == ["cache"]


def test_a_cache_of_workers_is_named_where_there_is_no_room(cluster, disk):
    far = arrays(disk).repeat(2).distribute("parallel_epochs", cluster.target)
    restore = limits.fill(disk)

    _, errors = taken(far)

    assert str(disk / "cache") in errors[0]
    assert "No space left on device" in errors[0]
    restore()
    found, errors = taken(far)
    assert errors == []
    assert found == sorted([*TWICE, *TWICE])  # two workers
    assert os.listdir(disk) == ["cache"]


@pytest.mark.slow
def test_a_dispatcher_takes_nothing_new_and_forgets_nothing_until_there_is_room(another, disk):
    with another(1, work_dir=disk / "work") as cluster:
        far = Dataset.range(2000).distribute(
            "distributed_epoch", cluster.target, max_outstanding_requests=1, timeout=60
        )
        elements = iter(far)
        found = [int(next(elements)) for _ in range(20)]
        restore = limits.fill(disk)

        with pytest.raises(StoreFull, match=str(disk / "work")):
            list(Dataset.range(3).distribute("distributed_epoch", cluster.target))

        restore()
        assert sorted(found + [int(x) for x in elements]) == list(range(2000))
        assert len(list(Dataset.range(3).distribute("distributed_epoch", cluster.target))) == 3
        cluster.dispatcher.restart()
        assert len(list(Dataset.range(4).distribute("distributed_epoch", cluster.target))) == 4


def test_a_save_names_the_file_that_has_no_room_and_continues_when_there_is_room(disk):
    pytest.importorskip("pyarrow")
    path, dataset = disk / "saved", Dataset.range(MANY).map(noise)
    dataset.take(0).save(path)
    restore = limits.fill(disk)

    with pytest.raises(DatasetError, match=r"saved/_penstock/.* cannot be written .*No space left"):
        dataset.save(path, overwrite=True)
    restore()
    dataset.save(path, overwrite=True)

    assert [int(each[0]) for each in Dataset.load(path)] == list(range(MANY))
    assert not list(path.rglob(".*"))


def test_a_save_that_fills_the_disk_lists_whole_chunks_and_continues_on_a_larger_one(cluster, disk):
    pytest.importorskip("pyarrow")
    path, dataset = disk / "saved", Dataset.range(4 * MANY).map(noise)  # 12 MiB, on one of 8 MiB

    with pytest.raises(DatasetError, match=r"saved/.* cannot be written .*No space left"):
        save(dataset, path, cluster.target, chunk_bytes=8 * NBYTES).wait(60)

    folder = folder_of("load", str(path))
    version = SavedVersions("load", folder).latest()
    assert 0 < version.manifest.elements < 4 * MANY
    assert not list(damage(folder, version))
    listed = Dataset.load(path, at=version.manifest.version)
    assert [int(each[0]) for each in listed] == list(range(version.manifest.elements))

    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
    save(dataset, path, cluster.target, chunk_bytes=8 * NBYTES).wait(60)

    assert [int(each[0]) for each in Dataset.load(path)] == list(range(4 * MANY))
    assert not list(path.rglob(".*"))


def noise(x):
    random = np.random.default_rng(int(x)).integers(0, 255, NBYTES, np.uint8)
    return np.concatenate([np.array([x], np.uint8), random])
