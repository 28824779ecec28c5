"""A file is there as a whole, or not at all."""

import errno
import os

import pytest

from penstock.errors import Overloaded, Refused, StoreFull
from penstock_dispatcher.work_dir.atomic_file import (
    make_private_file,
    make_private_folder,
    remove_unfinished,
    unwritten,
    write_whole,
)


@pytest.mark.parametrize("power", [True, False])
def test_a_file_that_is_written_is_there_as_a_whole_and_alone(tmp_path, power):
    write_whole(tmp_path / "a", [b"one", b"two"], power)
    write_whole(tmp_path / "a", [b"three"], power)

    assert (tmp_path / "a").read_bytes() == b"three"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_whose_writing_fails_stays_as_it_was(tmp_path):
    def parts():
        yield b"half"
        raise OSError(errno.ENOSPC, "No space left on device")

    write_whole(tmp_path / "a", [b"before"], False)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "a", parts(), False)

    assert (tmp_path / "a").read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    for name in (".a.k3x9", ".a.", "a", ".ab.k3x9", ".other", "a.k3x9"):
        (tmp_path / name).touch()

    remove_unfinished(tmp_path / "a")

    assert sorted(os.listdir(tmp_path)) == [".ab.k3x9", ".other", "a", "a.k3x9"]


def test_an_unfinished_file_is_one_that_is_removed(tmp_path):
    def parts():
        yield b"half"
        assert (tmp_path / os.listdir(tmp_path)[0]).name.startswith(".a.")
        remove_unfinished(tmp_path / "a")
        assert os.listdir(tmp_path) == []
        yield b"stop"
        raise OSError

    with pytest.raises(OSError):
        write_whole(tmp_path / "a", parts(), False)

    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_distinguished_from_one_that_refuses(tmp_path):
    full = unwritten(tmp_path, OSError(errno.ENOSPC, "No space left on device"), "try again")
    refused = unwritten(tmp_path, OSError(errno.EACCES, "Permission denied"), "try again")

    assert isinstance(full, StoreFull)
    assert str(full).endswith("then try again")
    assert type(refused) is Refused
    assert str(tmp_path) in str(refused)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_the_same_is_worth_another_try(tmp_path, number):
    error = unwritten(tmp_path, OSError(number, os.strerror(number)), "try again")

    assert isinstance(error, Overloaded)
    assert error.retryable
    assert error.retry_after > 0
    assert os.strerror(number) in str(error)
    assert "ulimit -n" in str(error)


def mode(path):
    return path.stat().st_mode & 0o777


def test_files_and_folders_are_for_this_user_alone_also_those_of_an_earlier_version(tmp_path):
    folder, file = tmp_path / "datasets", tmp_path / "journal"
    for _ in range(2):
        make_private_folder(folder)
        make_private_file(file)
        assert (mode(folder), mode(file)) == (0o700, 0o600)
        folder.chmod(0o755)
        file.chmod(0o644)
        file.write_bytes(b"kept")

    assert file.read_bytes() == b"kept"
