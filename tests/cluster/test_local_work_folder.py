"""Where a cluster keeps its dispatcher's files, and what it says when it can be nowhere."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock_cluster import LocalCluster
from penstock_cluster.local import given_folder, remove_temporary, temporary_folder


@pytest.fixture
def no_temporary_folder(monkeypatch):
    def refuse(**_):
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)


def test_a_given_folder_is_made_with_those_above_it(tmp_path):
    assert given_folder(tmp_path / "a" / "b").is_dir()


def test_a_given_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match=r"work_dir '.*/file/below' cannot be made .*Not a dir"):
        given_folder(tmp_path / "file" / "below")


@pytest.mark.usefixtures("no_temporary_folder")
def test_without_a_folder_for_temporary_files_the_error_says_what_to_give():
    with pytest.raises(ConfigError, match=r"No usable .*give work_dir.*TMPDIR"):
        temporary_folder()


@pytest.mark.usefixtures("no_temporary_folder")
def test_a_cluster_that_has_no_folder_raises_that_and_can_be_closed():
    with pytest.raises(ConfigError, match="give work_dir"), LocalCluster(workers=1):
        pass


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def abandoned(folder, *, lock=True):
    """A folder of a process that was killed."""
    left = folder / "penstock-left"
    left.mkdir()
    (left / "owner").touch()
    if lock:
        (left / "lock").touch()
    return left


@pytest.mark.parametrize("lock", [True, False])
def test_the_folder_of_a_process_that_was_killed_is_removed_when_another_is_made(temporary, lock):
    left = abandoned(temporary, lock=lock)

    made = temporary_folder()

    assert not left.exists()
    assert made.stat().st_mode & 0o777 == 0o700
    remove_temporary(made)
    assert not made.exists()


@pytest.mark.parametrize("held", ["owner", "lock"])
def test_a_folder_whose_owner_or_dispatcher_lives_stays(temporary, held):
    left = abandoned(temporary)
    with (left / held).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_temporary(temporary_folder())

        assert left.exists()


def test_two_folders_of_one_process_stay_and_so_does_what_is_not_ours(temporary):
    (temporary / "penstock-other").mkdir()
    first, second = temporary_folder(), temporary_folder()

    assert first.exists()
    assert second.exists()
    assert (temporary / "penstock-other").exists()
    remove_temporary(first)
    remove_temporary(second)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_penstock_up_leaves_when_it_is_killed_the_next_cluster_removes(tmp_path):
    env = {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "500"}  # lines are whole
    command = [sys.executable, "-m", "penstock_cluster.cli.app", "up", "--workers", "1"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as up:
        folder = None
        for line in up.stdout:
            if line.startswith("work directory:"):
                folder = Path(line.split(":", 1)[1].strip())
            if "Ctrl-C" in line:
                break
        up.send_signal(signal.SIGKILL)
    assert folder.exists()
    for pid in processes_with(f"TMPDIR={tmp_path}"):  # its members end by themselves
        wait_until_gone(pid)

    program = "from penstock_cluster import LocalCluster\nwith LocalCluster(workers=0): pass"
    subprocess.run([sys.executable, "-c", program], env=env, check=True, timeout=120)

    assert not folder.exists()


def processes_with(variable):
    """Return the processes that have *variable* in their environment."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            environment = Path("/proc", name, "environ").read_bytes()
        except OSError:
            continue
        if variable.encode() in environment.split(b"\0"):
            found.append(int(name))
    return found


def wait_until_gone(pid):
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        assert poll.poll(120_000)
    finally:
        os.close(watch)
