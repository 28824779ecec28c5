"""Files with secrets: nobody else may read them."""

import os

import pytest

from penstock.credentials.secret_file import LARGEST, read_public, read_secret, write_file
from penstock.errors import ConfigError


def test_a_secret_is_written_for_its_user_alone_and_the_rest_for_all(tmp_path):
    write_file(tmp_path / "secret", b"s", secret=True)
    write_file(tmp_path / "public", b"p", secret=False)

    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "public").stat().st_mode & 0o777 == 0o644
    assert read_secret(tmp_path / "secret") == b"s"
    assert read_public(tmp_path / "public") == b"p"
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o660, 0o602, 0o644])
def test_a_secret_that_others_can_read_or_change_is_refused_with_the_remedy(tmp_path, mode):
    file = tmp_path / "key"
    write_file(file, b"s", secret=True)
    file.chmod(mode)

    with pytest.raises(ConfigError, match="chmod 600") as raised:
        read_secret(file)

    assert f"{mode:04o}" in str(raised.value)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_secret_of_somebody_else_is_refused(tmp_path):
    file = tmp_path / "key"
    write_file(file, b"s", secret=True)
    os.chown(file, 12345, -1)

    with pytest.raises(ConfigError, match="belongs to user 12345"):
        read_secret(file)


def test_what_is_not_there_or_too_large_is_said_by_name(tmp_path):
    with pytest.raises(ConfigError, match="nothing"):
        read_secret(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="nothing"):
        read_public(tmp_path / "nothing")
    (tmp_path / "big").write_bytes(bytes(LARGEST + 1))
    with pytest.raises(ConfigError, match="big"):
        read_public(tmp_path / "big")


def test_a_folder_that_is_not_there_cannot_be_written_to(tmp_path):
    with pytest.raises(ConfigError, match="cannot be written"):
        write_file(tmp_path / "no" / "file", b"", secret=True)
