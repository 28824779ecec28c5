"""Sets the command line that ``ps`` shows for a forked process, which has none of its own."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_START, _END = 45, 46
"""Fields of ``/proc/self/stat`` behind the name: where the arguments begin and end in memory."""


def show_as(command: Sequence[str]) -> None:
    """Have this process shown as started by *command*, as far as there is room for it.

    The room is what the command line took by which the process, or the one it was forked from,
    was started. Where the system does not say where that is, all stays as it was.
    """
    with suppress(OSError, IndexError, ValueError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[_START]), int(fields[_END])
        if 0 < start < end:
            text = b"\0".join(map(os.fsencode, command))
            room = end - start - 1  # behind it a zero byte, or the variables are shown as well
            ctypes.memmove(start, text[:room].ljust(room + 1, b"\0"), room + 1)
