"""What child processes share: an environment, standard files, a name, an end with their parent."""

from __future__ import annotations

import faulthandler
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SET_PDEATHSIG, _SET_NAME = 1, 15

_START, _END = 45, 46
"""Fields of ``/proc/self/stat`` after the name: where the arguments begin and end in memory."""

_LIBRARIES = (b"OPENBLAS_NUM_THREADS", b"OMP_NUM_THREADS", b"MKL_NUM_THREADS")
ONE_THREAD = dict.fromkeys(_LIBRARIES, b"1")
"""Variables that limit numeric libraries to one thread in each process.

Without them, each of several processes starts a thread for each core. Variables that are already
in the environment win."""


@dataclass(frozen=True, slots=True)
class ProcessEnvironment:
    """A process's directory, module search path and environment variables."""

    directory: bytes
    path: list[bytes]
    environment: dict[bytes, bytes]

    @classmethod
    def here(cls) -> ProcessEnvironment:
        """Return those of this process, to give to another."""
        directory = b""
        with suppress(FileNotFoundError):
            directory = bytes(Path.cwd())
        path = [os.fsencode(entry) for entry in sys.path if isinstance(entry, str)]
        return cls(directory, path, {**ONE_THREAD, **os.environb})

    def settle(self) -> None:
        """Apply these to this process."""
        with suppress(OSError):  # if the directory is gone, stay in the present one
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
        """The value of `PYTHONPATH` with which a new interpreter finds the same modules."""
        # An empty entry means the current directory, also here.
        return os.fsencode(os.pathsep).join(entry or b"." for entry in self.path)


def die_with(parent: int, name: bytes) -> None:
    """Rename this process to *name*, and have the system kill it when *parent* ends."""
    import ctypes  # noqa: PLC0415  it opens files: standard files must be there first

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)
    prctl(_SET_NAME, name, 0, 0, 0)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C, which every process of a terminal receives; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def be_for_user_code() -> None:
    """Prepare to run users' code: show its crashes, and be the first to die without memory."""
    # If memory runs out, the system kills this process before its parent.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")
    with suppress(RuntimeError):  # the program may have no stderr, for example if it was closed
        faulthandler.enable()  # a crash in native code writes its traceback to stderr
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def show_as(command: Sequence[str]) -> None:
    """Have ``ps`` show *command* as this process's command line, cut to the room that there is.

    A forked process has no command line of its own. The room is that of the command line with
    which the process, or the one that it was forked from, was started. If the system does not say
    where the command line is, nothing changes.
    """
    import ctypes  # noqa: PLC0415  it opens files: standard files must be there first

    with suppress(OSError, IndexError, ValueError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[_START]), int(fields[_END])
        if 0 < start < end:
            text = b"\0".join(map(os.fsencode, command))
            room = end - start - 1  # a zero byte follows, or the variables are shown as well
            ctypes.memmove(start, text[:room].ljust(room + 1, b"\0"), room + 1)


def fill_standard_files() -> None:
    """Open the null device as stdin, stdout and stderr if these are closed, as in a daemon.

    Otherwise the next file or socket gets such a number. Child processes would take it for their
    output, and write into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number: all below are open
            os.set_inheritable(opened, True)


def pidfd(pid: int) -> int:
    """Return a file that can be read when process *pid* ends; -1 if the system has no such files.

    Raises:
        ProcessLookupError: when there is no such process.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (OSError, AttributeError):  # old systems, and Pythons that were built there
        return -1
