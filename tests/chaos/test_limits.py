"""What a process lacks while it runs, and has again."""

import os
import subprocess
import sys

import pytest

from chaos import limits

CHILD = """
import os, sys, threading
folder = sys.argv[1]
files = []
def tries(word):
    if word == "open":
        files.append(open(folder + "/small"))
    elif word == "write":
        with open(folder + "/long", "ab") as file:
            file.write(bytes(1 << 16))
    else:
        thread = threading.Thread(target=event.wait, daemon=True)
        thread.start()
event = threading.Event()
open(folder + "/small", "w").close()
print("ready", flush=True)
for line in sys.stdin:
    try:
        tries(line.strip())
        print("done", flush=True)
    except (OSError, RuntimeError) as exc:
        print(type(exc).__name__, getattr(exc, "errno", None) or exc, flush=True)
"""


@pytest.fixture
def child(tmp_path):
    """A process that does as it is told, and says how that went."""
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "ready\n"

        def ask(word):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        ask.pid = process.pid
        yield ask
        process.stdin.close()


def test_a_process_opens_no_more_files_until_it_may_again(child):
    restore = limits.limit_files(child.pid, 1)

    assert [child("open"), child("open")] == ["done", "OSError 24"]
    restore()
    assert child("open") == "done"


def test_a_process_makes_no_longer_file_until_it_may_again(child, tmp_path):
    assert child("write") == "done"
    restore = limits.limit_file_size(child.pid, tmp_path)

    assert child("write") == "OSError 27"
    restore()
    assert child("write") == "done"


def test_a_process_starts_no_more_threads_until_it_may_again(child):
    restore = limits.limit_threads([child.pid], 1)
    if restore is None:
        pytest.skip("there is no control group of processes here that may be made")

    said = [child("thread") for _ in range(2 if not os.getuid() else 40)]
    assert said[0] == "done"
    assert "can't start new thread" in said[-1]
    restore()
    assert child("thread") == "done"


def test_a_small_disk_is_full_until_there_is_room_again(tmp_path):
    folder = tmp_path / "disk"
    with limits.small_disk(folder) as mounted:
        if not mounted:
            pytest.skip("only root may mount a disk")
        restore = limits.fill(folder)
        with pytest.raises(OSError, match="No space left"):
            (folder / "file").write_bytes(bytes(8192))
        restore()
        (folder / "file").write_bytes(bytes(8192))

    assert list(folder.iterdir()) == []


def test_who_has_just_ended_has_no_limits(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    assert limits.limit_files(process.pid, 1) is None
    assert limits.limit_file_size(process.pid, tmp_path) is None
