import pytest

from penstock.analysis.sharding import idle_caches
from penstock.dataset.dataset import Dataset


@pytest.fixture
def file(tmp_path):
    return tmp_path / "elements"


def test_a_cache_that_no_repeat_reads_again_is_idle():
    assert len(idle_caches(Dataset.range(3).cache().map(abs).node)) == 1
    assert len(idle_caches(Dataset.range(3).repeat(2).cache().repeat(1).node)) == 1
    assert idle_caches(Dataset.range(3).cache().repeat(2).node) == []


def test_a_cache_with_a_path_is_a_snapshot_on_workers_and_not_idle(file):
    assert idle_caches(Dataset.range(3).cache(file).node) == []


def test_a_cache_in_two_branches_is_found_once():
    cached = Dataset.range(3).cache()

    assert len(idle_caches(Dataset.zip((cached, cached)).node)) == 1
    assert len(idle_caches(cached.repeat(2).concatenate(cached).node)) == 1
