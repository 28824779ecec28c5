import os

import pytest

from penstock.errors import ConfigError
from penstock.storage.cache_folder import CacheFolder
from penstock.storage.cache_index import CacheTotals
from penstock_worker import WorkerConfig, WorkerServer
from penstock_worker.file_cache import totals, with_file_cache
from penstock_worker.runner.confinement import Confinement
from penstock_worker.runner.landlock import FileRules


def variables(confinement):
    return confinement.passed_on({b"PENSTOCK_FILE_CACHE_DIR": b"/of/the/worker", b"HOME": b"/"})


def test_runners_get_the_folder_and_the_bytes_whatever_variables_are_kept_from_them(tmp_path):
    config = WorkerConfig(file_cache_dir=str(tmp_path / "new"), file_cache_bytes=1000)
    found = variables(with_file_cache(Confinement(variables=("HOME",)), config))
    assert found == {
        b"HOME": b"/",
        b"PENSTOCK_FILE_CACHE_DIR": bytes(tmp_path / "new"),
        b"PENSTOCK_FILE_CACHE_BYTES": b"1000",
    }


def test_runners_of_a_worker_without_a_cache_use_none_even_if_the_worker_has_the_variable():
    found = variables(with_file_cache(Confinement(), WorkerConfig()))
    assert found[b"PENSTOCK_FILE_CACHE_DIR"] == b""


def test_runners_may_write_to_the_folder_if_they_may_write_to_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock_worker.runner.landlock.check", lambda rules: None)
    config = WorkerConfig(file_cache_dir=str(tmp_path))
    made = with_file_cache(Confinement(files=FileRules(read_only=True)), config)
    assert made.files.writable == (str(CacheFolder(str(tmp_path), os.geteuid()).path),)


def test_a_worker_does_not_start_if_the_folder_cannot_be_used(tmp_path):
    (tmp_path / "file").touch()
    config = WorkerConfig("127.0.0.1:1", file_cache_dir=str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=f"file_cache_dir='{tmp_path}/file' cannot be used"):
        WorkerServer(config)


def test_a_worker_tells_how_full_the_cache_is(tmp_path):
    assert totals(WorkerConfig()) is None
    config = WorkerConfig(file_cache_dir=str(tmp_path))
    assert totals(config) == CacheTotals()
    index = CacheFolder(str(tmp_path), os.geteuid()).prepare().open_index()
    index.admit("name", 100, lambda _: 1000)
    assert totals(config) == CacheTotals(100, 1000)
