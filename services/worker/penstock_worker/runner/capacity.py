"""Why the system has no room for a runner, in text that name the limit and the remedy.

The server that forks runners loads this, too: it imports nothing that is not loaded there already.
"""

from __future__ import annotations

import errno
import os
import sys

if sys.platform != "win32":
    import resource


def lacking(error: OSError | MemoryError) -> str:
    """Return in text what was lacking, which limit that is, and what to do."""
    number = errno.ENOMEM if isinstance(error, MemoryError) else error.errno
    if number is None or number not in _REMEDIES:
        return str(error) or type(error).__name__
    text = f"{os.strerror(number)} ({errno.errorcode[number]})"
    limit, remedy = _REMEDIES[number]
    if limit is not None:
        soft, hard = (_shown(value) for value in resource.getrlimit(getattr(resource, limit)))
        text += f"; {limit} is {soft}, at most {hard}"
    return f"{text}; {remedy}"


def lacks_thread(error: BaseException) -> bool:
    """Return whether *error* says that the system has no room for another thread."""
    return type(error) is RuntimeError and str(error) == _NO_THREAD


def lacking_thread() -> str:
    """Return the same as `lacking` of a thread."""
    return f"{_NO_THREAD}: {lacking(OSError(errno.EAGAIN, ''))}"


def _shown(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


_NO_THREAD = "can't start new thread"
"""What CPython says, in an error that is none of the system's."""

_REMEDIES: dict[int, tuple[str | None, str]] = {
    errno.EMFILE: (
        "RLIMIT_NOFILE",
        "let the worker open more files (ulimit -n, LimitNOFILE=), or run fewer jobs at once",
    ),
    errno.ENFILE: (None, "let the system open more files (sysctl fs.file-max)"),
    errno.ENOMEM: (
        "RLIMIT_AS",
        "give the worker more memory (ulimit -v), or lower buffer_bytes and max_element_bytes",
    ),
    errno.EAGAIN: (
        "RLIMIT_NPROC",
        "let the worker have more processes (ulimit -u, TasksMax=, pids.max)",
    ),
    errno.ENOSPC: (None, "make room in /dev/shm, or lower the worker's buffer_bytes"),
}
