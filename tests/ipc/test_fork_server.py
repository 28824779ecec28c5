"""What a process is like that was forked, and when a server refuses or ends."""

import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import textwrap
from contextlib import suppress

import pytest

from penstock.errors import Overloaded, Unavailable
from penstock.ipc.fork_client import CannotForkError, ForkClient
from tests.ipc.forks import ROOT, SERVER, WITHIN, asked
from tests.process_tree import parent


def told(server, variables=None, **kwargs):
    """Fork a process that says what it is like; return that."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as answer:
        files = {"ANSWER_FD": theirs}
        process = server.fork("tell", asked(variables), files, within=WITHIN, **kwargs)
        os.close(theirs)
        said = json.load(answer)
    assert process.wait(WITHIN) == 0
    assert process.pid == said["pid"]
    return said


def test_a_fork_is_like_a_process_that_was_just_started(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = told(server, {b"PENSTOCK_TOLD": b"yes"}, arguments=["--worker", "7"])

    assert said["session"] == said["pid"]
    assert said["parent"] == server.server_pid
    assert said["command"] == ["-m", "tell", "--worker", "7"]
    assert said["arguments"] == ["tell", "--worker", "7"]
    assert said["directory"] == said["path"] == str(tmp_path)
    assert said["variable"] == "yes"


def test_a_fork_has_no_files_but_its_output_and_what_came_for_it(server):
    line, far = socket.socketpair()
    with line, far:
        files = {"LINE_FD": far.fileno()}
        other = server.fork("wait", asked(), files, within=WITHIN)
        assert line.recv(5) == b"here\n"

        assert len(told(server)["files"]) == 4

        other.kill()
        other.wait(WITHIN)


def test_a_program_that_a_fork_starts_inherits_no_file_without_a_name(server):
    ours, theirs = os.pipe()
    with os.fdopen(ours) as answer:
        process = server.ask("tell", asked(), [theirs, theirs], names=["ANSWER_FD"])
        process.answered(WITHIN)
        os.close(theirs)
        said = json.load(answer)
    process.wait(WITHIN)

    assert len(said["files"]) == 5
    assert len(said["inherited"]) == 4


def test_the_output_of_a_fork_is_that_of_the_process_that_asked_for_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os
            from penstock.ipc.fork_client import CannotForkError, ForkClient
            from tests.ipc.forks import asked
            server = ForkClient({SERVER!r})
            server.start(os.environb)
            server.fork("say", asked(), {{}}, within={WITHIN}).wait()
            os.dup2(2, 1)
            server.fork("say", asked(), {{}}, within={WITHIN}).wait()
            server.close()
            """
        )
    )
    shown = subprocess.run(
        [sys.executable, script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ROOT},
        capture_output=True,
        timeout=60,
    )

    on_stdout = [b"said on stdout", b"left in the buffer", b"said at the end"]
    assert sorted(shown.stdout.splitlines()) == sorted(on_stdout)
    on_stderr = [b"said on stderr"] * 2
    assert sorted(shown.stderr.splitlines()) == sorted([*on_stdout, *on_stderr])


@pytest.mark.parametrize("name", [b"PATH", b"SOMETHING_NEW"])
def test_a_process_that_is_to_have_another_environment_is_refused(server, name):
    with pytest.raises(CannotForkError, match="environment differs"):
        server.fork("tell", asked({name: b"other"}), {}, within=WITHIN)

    told(server)


def test_what_is_not_loaded_is_refused(server):
    with pytest.raises(CannotForkError, match="nothing is not loaded here"):
        server.fork("nothing", asked(), {}, within=WITHIN)


def test_a_server_with_threads_refuses_to_fork(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PENSTOCK_THREAD", "1")
    server = ForkClient(SERVER)
    server.start(os.environb)

    with pytest.raises(CannotForkError, match="it has 2"):
        server.fork("tell", asked(), {}, within=WITHIN)

    server.close()


CLIENT = f"""
import os, socket, time
from penstock.ipc.fork_client import CannotForkError, ForkClient
from tests.ipc.forks import asked

server = ForkClient({SERVER!r})
server.start(os.environb)
line = int(os.environ["LINE_FD"])
process = server.fork("wait", asked(), {{"LINE_FD": line}}, within={WITHIN})
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


def test_a_system_without_room_says_so(server):
    with pytest.raises(Overloaded, match="/there/is/none"):
        server.fork("full", asked(), {}, within=WITHIN)


def test_a_server_that_may_open_no_more_files_says_so(server):
    told(server)
    used = set(map(int, os.listdir(f"/proc/{server.server_pid}/fd")))
    free = [number for number in range(64) if number not in used]
    _, most = resource.prlimit(server.server_pid, resource.RLIMIT_NOFILE)
    line = socket.socketpair()
    given = {str(i): end.fileno() for i, end in enumerate(line)}
    for more in range(1, 7):  # for the line, for its output, for its files, for a look at threads
        resource.prlimit(server.server_pid, resource.RLIMIT_NOFILE, (free[more], most))
        with suppress(Overloaded):
            server.fork("leave", asked(), given, within=WITHIN).wait(WITHIN)
    for end in line:
        end.close()

    resource.prlimit(server.server_pid, resource.RLIMIT_NOFILE, (most, most))
    told(server)


DAMAGED = {
    "other": struct.pack("<Q", 4) + b"abcd",
    "long": struct.pack("<Q", 1 << 62),
    "longer": struct.pack("<Q", (1 << 64) - 1),
    "short": b"abc",
}


@pytest.mark.parametrize("request_", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_request_leaves_the_other_processes_alone(server, request_):
    process, line = bound(server)
    ours, theirs = socket.socketpair()
    with ours, line:
        with theirs:
            socket.send_fds(server._sock, [b"f"], [theirs.fileno(), 1, 2])
        ours.sendall(request_)
        ours.shutdown(socket.SHUT_WR)
        ours.settimeout(WITHIN)

        assert ours.recv(1) == b""
        told(server)
        assert process.poll() is None


def test_a_program_that_cannot_be_prepared_leaves_the_other_processes_alone(server):
    process, line = bound(server)

    with line:
        with pytest.raises(Unavailable):
            server.fork("unfit", asked(), {}, within=WITHIN)

        told(server)
        assert process.poll() is None


def test_a_fork_that_cannot_settle_ends_and_forks_nothing_itself(server):
    process = server.fork("tell", asked({b"PENSTOCK_=": b""}), {}, within=WITHIN)

    assert process.wait(WITHIN) == 1


def bound(server, program="spin", variables=None):
    """Return a bound process, and the end of a line to it."""
    line, far = socket.socketpair()
    with far:
        files = [far.fileno()]
        process = server.ask(program, asked(variables), files, names=["LINE_FD"])
        process.answered(WITHIN)
    line.settimeout(WITHIN)
    return process, line


def ended(*pids):
    """Return whether all these processes end."""
    for pid in pids:
        try:
            watch = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with open(watch, "rb"):
            if not select.select([watch], [], [], WITHIN)[0]:
                return False
    return True


@pytest.mark.parametrize("end", ["kill", "drop", "server"])
def test_a_bound_process_and_what_it_started_end(server, end):
    process, line = bound(server)
    with line:
        other = int(line.recv(100))
    pid = process.pid
    assert os.getpgid(pid) == pid

    if end == "kill":
        process.kill()
        assert process.wait(WITHIN) == -signal.SIGKILL
    elif end == "drop":
        del process
    else:
        os.kill(server.server_pid, signal.SIGKILL)
        assert process.wait(WITHIN) == -signal.SIGKILL
        os.kill(other, signal.SIGKILL)  # nobody is left to do it

    assert ended(pid, other)


BOUND = f"""
import os, signal, socket
from penstock.ipc.fork_client import CannotForkError, ForkClient
from tests.ipc.forks import asked
server = ForkClient({SERVER!r})
server.start(os.environb)
files = [int(os.environ["LINE_FD"])]
process = server.ask("spin", asked(), files, names=["LINE_FD"])
process.answered({WITHIN})
if os.fork() == 0:
    signal.pause()
print(process.pid, server.server_pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("pidfds", [True, False])
def test_bound_processes_end_with_a_client_though_a_fork_of_it_lives(tmp_path, pidfds):
    line, far = socket.socketpair()
    env = {**os.environ, "LINE_FD": str(far.fileno())}
    if not pidfds:  # as in a Python that was built on an old system
        (tmp_path / "sitecustomize.py").write_text("import os\ndel os.pidfd_open\n")
        env["PYTHONPATH"] = str(tmp_path)
    command = [sys.executable, "-c", BOUND]
    with line:
        client = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            pass_fds=[far.fileno()],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        far.close()
        pids = list(map(int, client.stdout.readline().split()))
        client.kill()
        client.wait()

    assert ended(*pids)
    os.killpg(client.pid, signal.SIGKILL)
    client.stdout.close()


@pytest.mark.parametrize("variables", [None, {b"SOMETHING_NEW": b"1"}])
def test_a_program_with_a_command_is_started_where_its_environment_is_another(server, variables):
    process, line = bound(server, "anew", variables)

    with line:
        assert line.recv(100) == b"1\n" if variables else line.recv(100).strip().isdigit()
        assert parent(process.pid) == server.server_pid
        assert os.getpgid(process.pid) == os.getpgid(server.server_pid)
    process.kill()
    assert process.wait(WITHIN) == -signal.SIGKILL or variables


def test_a_started_process_is_told_of_as_a_forked_one(server):
    process, line = bound(server, "anew", {b"SOMETHING_NEW": b"1"})
    with line:
        line.recv(100)

    assert process.wait(WITHIN) == 0
