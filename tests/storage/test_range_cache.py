import pytest

from penstock.errors import ConfigError
from penstock.storage import range_cache
from penstock.storage.part_key import PartKey
from penstock.storage.range_cache import cached, use_cache

KEY = PartKey("s3://bucket/file", "7.etag", 0, 7)


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    monkeypatch.setattr(range_cache, "_cache", None)
    monkeypatch.setattr(range_cache, "_chosen", False)


def read(count=1):
    """Read `KEY`; return how often it was fetched."""
    fetched = []
    for _ in range(count):
        assert cached(KEY, lambda: fetched.append(1) or b"7 bytes") == b"7 bytes"
    return len(fetched)


def test_a_process_without_a_cache_fetches_each_time(monkeypatch):
    monkeypatch.delenv("PENSTOCK_FILE_CACHE_DIR", raising=False)
    assert read(3) == 3


def test_the_environment_names_the_cache_of_a_process(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_FILE_CACHE_DIR", str(tmp_path))
    assert read(3) == 1
    use_cache(None)
    assert read(3) == 3


def test_a_folder_that_cannot_be_used_is_an_error_at_the_first_read(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PENSTOCK_FILE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match="file_cache_dir=.*cannot be used"):
        read()
