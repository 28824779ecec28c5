"""What a process is like that was forked, and when a server refuses or ends."""

import json
import os
import select
import socket
import subprocess
import sys
import textwrap

import pytest

from penstock.errors import Unavailable
from penstock.ipc.fork_door import ForkDoor
from tests.ipc.forks import ROOT, SERVER, WITHIN
from tests.process_tree import parent


def told(door, environment=None, **kwargs):
    """Fork a process that says what it is like; return that."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as answer:
        environment = dict(os.environb) if environment is None else environment
        files = {"ANSWER_FD": theirs}
        process = door.fork("tell", environment, files, within=WITHIN, **kwargs)
        os.close(theirs)
        said = json.load(answer)
    assert process.wait(WITHIN) == 0
    assert process.pid == said["pid"]
    return said


def test_a_fork_is_like_a_process_that_was_just_started(door, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = {**os.environb, b"PENSTOCK_TOLD": b"yes"}

    said = told(door, environment, flags=["-P"], arguments=["--worker", "7"])

    assert said["session"] == said["pid"]
    assert said["parent"] == door.server_pid
    assert said["command"] == ["-P", "-m", "tell", "--worker", "7"]
    assert said["arguments"] == ["tell", "--worker", "7"]
    assert said["directory"] == said["path"] == str(tmp_path)
    assert said["variable"] == "yes"


def test_a_fork_has_no_files_but_its_output_and_what_came_for_it(door):
    line, far = socket.socketpair()
    with line, far:
        files = {"LINE_FD": far.fileno()}
        other = door.fork("wait", dict(os.environb), files, within=WITHIN)
        assert line.recv(5) == b"here\n"

        assert len(told(door)["files"]) == 4

        other.kill()
        other.wait(WITHIN)


def test_the_output_of_a_fork_is_that_of_the_process_that_asked_for_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os
            from penstock.ipc.fork_door import ForkDoor
            door = ForkDoor.start({SERVER!r}, dict(os.environb))
            door.fork("say", dict(os.environb), {{}}, within={WITHIN}).wait()
            os.dup2(2, 1)
            door.fork("say", dict(os.environb), {{}}, within={WITHIN}).wait()
            door.close()
            """
        )
    )
    shown = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, timeout=60)

    on_stdout = [b"said on stdout", b"left in the buffer", b"said at the end"]
    assert sorted(shown.stdout.splitlines()) == sorted(on_stdout)
    on_stderr = [b"said on stderr"] * 2
    assert sorted(shown.stderr.splitlines()) == sorted([*on_stdout, *on_stderr])


@pytest.mark.parametrize("name", [b"PATH", b"SOMETHING_NEW"])
def test_a_process_that_is_to_have_another_environment_is_refused(door, name):
    environment = {**os.environb, name: b"other"}

    with pytest.raises(Unavailable, match="environment differs"):
        door.fork("tell", environment, {}, within=WITHIN)

    told(door)


def test_what_is_not_loaded_is_refused(door):
    with pytest.raises(Unavailable, match="nothing is not loaded here"):
        door.fork("nothing", dict(os.environb), {}, within=WITHIN)


def test_a_server_with_threads_refuses_to_fork(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PENSTOCK_THREAD", "1")
    door = ForkDoor.start(SERVER, dict(os.environb))

    with pytest.raises(Unavailable, match="there are 2"):
        door.fork("tell", dict(os.environb), {}, within=WITHIN)

    door.close()


CLIENT = f"""
import os, socket, time
from penstock.ipc.fork_door import ForkDoor

door = ForkDoor.start({SERVER!r}, dict(os.environb))
line = int(os.environ["LINE_FD"])
process = door.fork("wait", dict(os.environb), {{"LINE_FD": line}}, within={WITHIN})
os.close(line)
print(process.pid, flush=True)
time.sleep(60)
"""


def test_a_server_ends_behind_its_killed_client_and_its_last_fork(tmp_path):
    line, far = socket.socketpair()
    env = {**os.environ, "LINE_FD": str(far.fileno())}
    with line:
        with far:
            client = subprocess.Popen(
                [sys.executable, "-c", CLIENT],
                cwd=ROOT,
                env=env,
                pass_fds=[far.fileno()],
                stdout=subprocess.PIPE,
            )
        with client:
            fork = int(client.stdout.readline())
            assert line.recv(5) == b"here\n"
            watch = os.pidfd_open(server := parent(fork))
            client.kill()
        assert parent(fork) == server  # which waits: a fork that is told to end may take its time

    assert select.select([watch], [], [], WITHIN)[0]
    os.close(watch)
