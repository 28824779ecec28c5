"""What each child process does at its start, and the environment that it shares with its parent."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import io
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SET_PDEATHSIG, _SET_NAME = 1, 15

_LIBRARIES = (b"OPENBLAS_NUM_THREADS", b"OMP_NUM_THREADS", b"MKL_NUM_THREADS")
ONE_THREAD = dict.fromkeys(_LIBRARIES, b"1")
"""What keeps numeric libraries from starting a thread for each core in each of several processes,
unless the environment says otherwise."""


@dataclass(frozen=True, slots=True)
class ProcessEnvironment:
    """The directory, where modules are looked for, and the environment."""

    directory: bytes
    path: list[bytes]
    environment: dict[bytes, bytes]

    @classmethod
    def here(cls) -> ProcessEnvironment:
        """Return those of this process, for another beside it."""
        directory = b""
        with suppress(FileNotFoundError):
            directory = bytes(Path.cwd())
        path = [os.fsencode(entry) for entry in sys.path if isinstance(entry, str)]
        return cls(directory, path, {**ONE_THREAD, **os.environb})

    def settle(self) -> None:
        """Make these the surroundings of this process."""
        with suppress(OSError):  # a directory that is gone: stay
            os.chdir(self.directory)
        path = list(map(os.fsdecode, self.path))
        if sys.path != path:
            sys.path[:] = path
        importlib.invalidate_caches()
        for name in os.environb.keys() - self.environment.keys():
            del os.environb[name]
        os.environb.update(self.environment)

    @property
    def first_path(self) -> bytes:
        """What `PYTHONPATH` must be for a new interpreter to find the same modules."""
        # An empty entry means the current directory, also here.
        return os.fsencode(os.pathsep).join(entry or b"." for entry in self.path)


def die_with(parent: int, name: bytes) -> None:
    """Let this process, known as *name* from now on, be killed when *parent* is gone."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)
    prctl(_SET_NAME, name, 0, 0, 0)


def ignore_interrupts() -> None:
    """Leave Ctrl-C, which goes to every process of a terminal, to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def be_for_user_code() -> None:
    """Have this process show what users' code does in it, and be the first that may be killed."""
    # When memory runs out it goes, and not the process that its parent works in.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    with suppress(RuntimeError):  # a program that has no stderr, as where it was closed
        faulthandler.enable()  # a crash in native code shows where it was, on stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
