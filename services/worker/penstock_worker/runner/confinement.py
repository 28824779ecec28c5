"""What a runner may do less than its worker: users' code runs in it.

The zygote loads this, too: it imports nothing that is not loaded there already.
"""

from __future__ import annotations

import ctypes
import fnmatch
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

from penstock.errors import ConfigError

if sys.platform != "win32":
    import pwd
    import resource

_SET_NO_NEW_PRIVS = 38

DROPPED = ("PENSTOCK_CREDENTIALS",)
"""Variables that no runner gets: they say where credentials are."""

USUAL = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "PYTHON*",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "SSL_CERT_*",
    "*_NUM_THREADS",
    "CUDA_*",
    "NVIDIA_*",
    "MALLOC_*",
    "PENSTOCK_*",
)
"""Variables that runners get where a worker has credentials and nothing else is said."""


class Confinement(NamedTuple):
    """What a runner may use.

    Attributes:
        memory: bytes of memory of its own (``RLIMIT_DATA``), without the arena; 0 is no bound.
        uid: the user that it becomes; -1 is the worker's own.
        gid: the group that it becomes, with no others.
        home: that user's folder.
        variables: patterns of the variables that it gets; None is all but `DROPPED`.
    """

    memory: int = 0
    uid: int = -1
    gid: int = -1
    home: str = ""
    variables: tuple[str, ...] | None = None

    def passed_on(self, environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return those variables of *environment* that a runner gets."""
        kept = {name: value for name, value in environment.items() if self._passes(name)}
        if self.home:
            kept[b"HOME"] = os.fsencode(self.home)
        return kept

    def _passes(self, name: bytes) -> bool:
        text = os.fsdecode(name)
        if any(fnmatch.fnmatchcase(text, pattern) for pattern in DROPPED):
            return False
        wanted = self.variables
        return wanted is None or any(fnmatch.fnmatchcase(text, pattern) for pattern in wanted)


FREE = Confinement()
"""No less than the worker, but for what no runner gets."""


def confinement_of(
    memory: int | None, user: str | None, variables: tuple[str, ...] | None, *, credentials: bool
) -> Confinement:
    """Return what settings ask for.

    Args:
        memory: bytes, or None for no bound.
        user: a name, or None for the worker's own user.
        variables: patterns; None is `USUAL` with *credentials*, and else all.
        credentials: whether the worker has some.

    Raises:
        ConfigError: when there is no such user, or this process may not become it.
    """
    if variables is None and credentials:
        variables = USUAL
    if user is None:
        return Confinement(memory or 0, variables=variables)
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        raise ConfigError(f"runner_user={user!r}: there is no such user on this host") from None
    if os.getuid() not in (0, found.pw_uid):
        raise ConfigError(
            f"runner_user={user!r}: only a worker that root started can have runners of another "
            f"user, and this one is of user {os.getuid()}; start it as root, or leave it out"
        )
    if found.pw_uid == os.getuid():
        return Confinement(memory or 0, variables=variables)
    return Confinement(memory or 0, found.pw_uid, found.pw_gid, found.pw_dir, variables)


def confine(memory: int, uid: int, gid: int) -> None:
    """Confine this process, and all that it starts, for good; see `Confinement`.

    Raises:
        OSError: when the system does not allow it: no user's code may run then.
    """
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot give up new privileges")
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def memory_bound() -> int | None:
    """Return how many bytes of memory of its own this process may have; None is no bound."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft
