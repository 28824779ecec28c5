"""A view that fills the terminal: keys end it, and it leaves the terminal as it was."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, *args):
        self.fd, inner = pty.openpty()
        self.before = termios.tcgetattr(self.fd)
        command = [sys.executable, "-m", "penstock_cluster.cli.app", *args]
        env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=env, start_new_session=True
        )
        os.close(inner)
        self.seen = b""

    def read_until(self, *wanted):
        deadline = time.monotonic() + 60
        while not all(one in self.text or one.encode() in self.seen for one in wanted):
            assert time.monotonic() < deadline, (wanted, self.text[-3000:])
            ready, _, _ = select.select([self.fd], [], [], 1.0)
            if ready:
                try:
                    self.seen += os.read(self.fd, 1 << 16)
                except OSError:  # the other end is closed
                    assert all(one in self.text for one in wanted), self.text[-3000:]

    @property
    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.seen.decode(errors="replace"))

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.fd)


@pytest.fixture
def terminal():
    made = []

    def start(*args):
        made.append(Terminal(*args))
        return made[-1]

    yield start
    for one in made:
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize("command", [("status", "--watch"), ("top",)])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(cluster, terminal, command):
    view = terminal(command[0], cluster.target, *command[1:])
    view.read_until(cluster.workers[0].address)
    assert ENTERED in view.seen

    os.write(view.fd, b"\x1b[A")  # an arrow is no end
    os.write(view.fd, b"q")
    view.read_until(LEFT.decode())

    assert view.process.wait(20) == 0
    assert termios.tcgetattr(view.fd) == view.before


def test_control_c_ends_it_without_an_error(cluster, terminal):
    view = terminal("status", cluster.target, "--watch")
    view.read_until("IDLE")

    view.process.send_signal(signal.SIGINT)

    view.read_until(LEFT.decode())
    assert view.process.wait(20) == 0
    assert "Traceback" not in view.text


@pytest.mark.slow
def test_a_dispatcher_that_is_away_is_waited_for(terminal):
    view = terminal("status", "127.0.0.1:9", "--watch")

    view.read_until("asking again")

    assert view.process.poll() is None
