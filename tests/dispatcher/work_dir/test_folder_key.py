"""The key of a work_dir: made once, for its user alone."""

import pytest

from penstock.errors import ConfigError
from penstock_dispatcher.work_dir.folder_key import KEY, kept_key, own_key


def test_it_is_made_once_and_for_its_user_alone(tmp_path):
    folder = tmp_path / "new"

    key = own_key(folder)

    assert own_key(folder) == kept_key(folder) == key
    assert len(set(key)) > 1
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600
    (folder / KEY).chmod(0o644)
    for read in (own_key, kept_key):
        with pytest.raises(ConfigError, match=f"chmod 600 .*{KEY}`, and if one of them may"):
            read(folder)


@pytest.mark.parametrize("nbytes", [0, 31, 33])
def test_what_has_another_length_is_no_key(tmp_path, nbytes):
    (tmp_path / KEY).write_bytes(bytes(nbytes))
    (tmp_path / KEY).chmod(0o600)

    with pytest.raises(ConfigError, match=rf"{KEY} has {nbytes} bytes, and a key has 32: restore"):
        own_key(tmp_path)
    assert (tmp_path / KEY).stat().st_size == nbytes


def test_what_a_process_left_that_was_killed_while_it_made_one_is_removed(tmp_path):
    (tmp_path / f".{KEY}.x7").write_bytes(b"half")

    own_key(tmp_path)

    assert [file.name for file in tmp_path.iterdir()] == [KEY]


def test_one_that_was_made_before_is_not_made_again(tmp_path):
    with pytest.raises(ConfigError, match=f"{KEY} cannot be read: No such file"):
        kept_key(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ConfigError, match=r"work_dir: .*file/folder cannot be used"):
        own_key(tmp_path / "file" / "folder")
