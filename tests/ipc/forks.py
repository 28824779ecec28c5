"""A few small programs for a fork server, for tests."""

import atexit
import json
import os
import subprocess
import sys
import threading
import time

from penstock.ipc.child import ProcessEnvironment
from penstock.ipc.fork_server import ForkPlan, Program

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
SERVER = "tests.ipc.forks"
WITHIN = 30.0
"""Seconds for what takes a moment."""


def is_given(fd):
    """Return whether a file is open yet, and no library's: newer ones of libffi hold their own."""
    path = f"/proc/self/fd/{fd}"
    return os.path.lexists(path) and "/lib" not in os.readlink(path)


def tell():
    """Write to the file that came what this process is like."""
    with open("/proc/self/cmdline", "rb") as file:
        command = file.read().rstrip(b"\0").decode().split("\0")
    with os.fdopen(int(os.environ["ANSWER_FD"]), "w") as out:
        files = sorted(map(int, os.listdir("/proc/self/fd")))
        told = {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "session": os.getsid(0),
            "arguments": sys.argv,
            "command": command[1:],
            "directory": os.getcwd(),
            "variable": os.environ.get("PENSTOCK_TOLD"),
            "path": sys.path[0],
            "files": [fd for fd in files if is_given(fd)],
            "inherited": [fd for fd in files if is_given(fd) and os.get_inheritable(fd)],
        }
        json.dump(told, out)


def say():
    """Print, and register what is to be called at the end."""
    print("said on stdout", flush=True)
    print("said on stderr", file=sys.stderr)
    atexit.register(os.write, 1, b"said at the end\n")
    sys.stdout.write("left in the buffer\n")


def leave():
    """Exit with a code."""
    raise SystemExit(3)


def fail():
    """Raise what nobody catches."""
    raise ValueError("nobody catches this")


def wait():
    """Say that this process is there, and wait until the other end of the file is gone."""
    line = int(os.environ["LINE_FD"])
    os.write(line, b"here\n")
    os.read(line, 1)


def spin():
    """Start a process, say which, and never return."""
    line = int(os.environ["LINE_FD"])
    other = subprocess.Popen(["sleep", "1000"])
    os.write(line, f"{other.pid}\n".encode())
    while True:
        pass


def fork_plan():
    """Return all of them; `spin` and `anew` are bound."""
    if os.environ.get("PENSTOCK_THREAD"):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    free = {
        each.__name__: Program(lambda *_, it=each: it) for each in (tell, say, leave, fail, wait)
    }
    full = Program(lambda *_: open("/there/is/none"))
    unfit = Program(lambda *_: {}["nothing"])
    spinning = Program(lambda *_: spin, b"test-spin")
    anew = Program(lambda *_: spin, b"test-anew", ("-m", SERVER), session=False)
    return ForkPlan({**free, "full": full, "unfit": unfit, "spin": spinning, "anew": anew})


def asked(variables=None):
    """Return what a process gets: this one's directory and environment, and more variables."""
    directory = ProcessEnvironment.here().directory
    return ProcessEnvironment(directory, [], {**os.environb, **(variables or {})})


def main():
    """Tell the parent of this process that it was started, not forked."""
    _, line = map(int, sys.argv[1:])
    os.write(line, f"{os.environ.get('SOMETHING_NEW')}\n".encode())
    os.read(line, 1)


if __name__ == "__main__":
    main()
