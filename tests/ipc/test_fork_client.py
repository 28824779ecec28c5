"""How processes that were forked end, and what is told of it."""

import os
import signal
import socket
import subprocess
import threading

import pytest

from penstock.errors import Unavailable
from penstock.ipc import fork_client
from penstock.ipc.fork_client import UNKNOWN
from tests.ipc.forks import WITHIN, asked


@pytest.fixture
def waiting(server):
    """Forks processes that wait until this end of a line is closed."""
    lines = []

    def fork():
        line, far = socket.socketpair()
        lines.append(line)
        with far:
            files = {"LINE_FD": far.fileno()}
            process = server.fork("wait", asked(), files, within=WITHIN)
        assert line.recv(5) == b"here\n"
        return process, line

    yield fork
    for line in lines:
        line.close()


@pytest.mark.parametrize(("module", "code"), [("leave", 3), ("fail", 1)])
def test_the_exit_code_of_a_fork_is_told(server, module, code):
    process = server.fork(module, asked(), {}, within=WITHIN)

    assert process.wait(WITHIN) == code
    assert process.poll() == process.returncode == code


def test_a_fork_that_is_killed_takes_no_other_along(waiting):
    (one, _), (two, line) = waiting(), waiting()

    one.kill()

    assert one.wait(WITHIN) == -signal.SIGKILL
    assert two.poll() is None
    line.close()
    assert two.wait(WITHIN) == 0
    one.kill()  # there is nobody any more, and nobody else with its number is meant
    two.terminate()


def test_a_fork_is_told_to_end(waiting):
    process, _ = waiting()

    process.terminate()

    assert process.wait(WITHIN) == -signal.SIGTERM


def test_a_wait_ends_at_its_time_limit(waiting):
    process, _ = waiting()

    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)


def test_several_threads_wait_for_one_fork(waiting):
    process, line = waiting()
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(process.wait())) for _ in range(5)]
    for thread in threads:
        thread.start()

    line.close()

    for thread in threads:
        thread.join(WITHIN)
    assert codes == [0] * 5


def test_a_fork_outlives_its_server_and_can_be_ended_even_so(server, waiting):
    (one, _), (two, line) = waiting(), waiting()

    os.kill(server.server_pid, signal.SIGKILL)

    with pytest.raises(Unavailable, match="fork server"):
        server.fork("leave", asked(), {}, within=WITHIN)
    assert one.poll() is None
    one.kill()
    line.close()
    assert [one.wait(WITHIN), two.wait(WITHIN)] == [UNKNOWN] * 2


def test_a_fork_that_was_not_waited_for_is_none(server, waiting):
    waiting()
    line, far = socket.socketpair()
    os.kill(server.server_pid, signal.SIGSTOP)
    with far, pytest.raises(Unavailable, match="does not answer"):
        server.fork("wait", asked(), {"LINE_FD": far.fileno()}, within=0.05)
    os.kill(server.server_pid, signal.SIGCONT)

    with line:
        line.settimeout(WITHIN)
        while line.recv(5):  # it may have been there for a moment
            pass


def test_a_process_inherits_no_watch_of_a_fork(waiting):
    process, _ = waiting()

    assert not os.get_inheritable(process._watch)


def test_a_server_is_lost_also_if_there_is_another_one_by_now(server):
    first = server.server_pid
    assert not server.lost(first)
    os.kill(first, signal.SIGKILL)
    assert server.lost(first)

    server.start(os.environb)

    assert server.lost(first)
    assert not server.lost(server.server_pid)
    server.close()
    assert not server.lost(first)


def test_a_long_environment_waits_for_a_server_that_still_loads(server, monkeypatch):
    monkeypatch.setattr(fork_client, "PATIENCE", 0.05)
    variables = {b"PENSTOCK_%d" % i: b"x" * 100_000 for i in range(8)}
    os.kill(server.server_pid, signal.SIGSTOP)
    later = threading.Timer(0.3, os.kill, (server.server_pid, signal.SIGCONT))
    later.start()

    process = server.fork("leave", asked(variables), {}, within=WITHIN)

    assert process.wait(WITHIN) == 3
    later.join()
