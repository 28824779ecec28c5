"""The environment that a child process shares with its parent: directory, modules, variables."""

from __future__ import annotations

import ctypes
import importlib
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
