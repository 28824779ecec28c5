import os
import stat

import pytest

from penstock.errors import ConfigError
from penstock.runtime.settings import from_env
from penstock.storage.cache_folder import FILE_CACHE_BYTES, CacheFolder, FileCacheSettings
from penstock.storage.cache_index import CacheTotals

HERE = os.geteuid()


def test_settings_come_from_variables():
    env = {"PENSTOCK_FILE_CACHE_DIR": "/nvme", "PENSTOCK_FILE_CACHE_BYTES": "1000"}
    assert from_env(FileCacheSettings, env) == FileCacheSettings("/nvme", 1000)
    assert from_env(FileCacheSettings, {}) == FileCacheSettings(None, FILE_CACHE_BYTES)


@pytest.mark.parametrize("wrong", ["0", "-1", "many"])
def test_a_number_of_bytes_that_is_none_is_refused(wrong):
    with pytest.raises(ConfigError, match=r"(?i)file_cache_bytes.*" + wrong):
        from_env(FileCacheSettings, {"PENSTOCK_FILE_CACHE_BYTES": wrong})


def test_the_folder_is_private_also_below_an_open_one(tmp_path):
    tmp_path.chmod(0o777)
    folder = CacheFolder(str(tmp_path), HERE).prepare()
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.path.chmod(0o755)
    assert stat.S_IMODE(folder.prepare().path.stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o777


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file_cache_dir='.*file/below' cannot be used by user"):
        CacheFolder(str(tmp_path / "file" / "below"), HERE).prepare()


def test_a_link_or_a_folder_of_another_user_is_refused(tmp_path):
    folder = CacheFolder(str(tmp_path), HERE)
    (tmp_path / "elsewhere").mkdir()
    folder.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is not a folder of this user"):
        folder.prepare()


@pytest.mark.skipif(HERE != 0, reason="only root may give a folder to another user")
def test_root_makes_the_folder_for_the_user_of_its_runners(tmp_path):
    for above in (tmp_path, *tmp_path.parents):
        if above.stat().st_uid == HERE and not above.stat().st_mode & 0o001:
            above.chmod(0o711)
    folder = CacheFolder(str(tmp_path), 65534).prepare()
    assert folder.path.stat().st_uid == 65534
    tmp_path.chmod(0o700)
    with pytest.raises(ConfigError, match="is closed to this user"):
        folder.prepare()


def test_a_folder_without_an_index_holds_nothing(tmp_path):
    assert CacheFolder(str(tmp_path), HERE).totals() == CacheTotals()
