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


def test_a_file_is_not_there_for_later_also_with_a_repeat(file):
    assert len(idle_caches(Dataset.range(3).cache(file).repeat(2).node)) == 1


def test_a_cache_in_two_branches_is_found_once():
    cached = Dataset.range(3).cache()

    assert len(idle_caches(Dataset.zip((cached, cached)).node)) == 1
    assert len(idle_caches(cached.repeat(2).concatenate(cached).node)) == 1
