"""What a runner may do less than its worker: users' code runs in it.

The server that forks runners loads this, too: it imports nothing that is not loaded there already.
"""

from __future__ import annotations

import ctypes
import fnmatch
import logging
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from penstock.errors import ConfigError
from penstock.storage.urls import CREDENTIALS as STORES
from penstock_worker.runner import cover, landlock
from penstock_worker.runner.landlock import FileRules

if sys.platform != "win32":
    import pwd
    import resource

log = logging.getLogger("penstock.worker")

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
    *STORES,
)
"""Variables that runners get where a worker has credentials and nothing else is said."""


class Confinement(NamedTuple):
    """The resources that a runner may use.

    Attributes:
        memory: bytes of memory of its own (``RLIMIT_DATA``), without the arena; 0 is no bound.
        uid: the user that it becomes; -1 is the worker's own.
        gid: the group that it becomes, with no others.
        home: that user's folder.
        variables: patterns of the variables that it gets; None is all but `DROPPED`.
        files: what of the file system is left to it.
        niceness: how much more it is nice (`os.nice`) than its worker.
        added: variables that it gets besides, with their values.
    """

    memory: int = 0
    uid: int = -1
    gid: int = -1
    home: str = ""
    variables: tuple[str, ...] | None = None
    files: FileRules = FileRules()
    niceness: int = 0
    added: tuple[tuple[str, str], ...] = ()

    def passed_on(self, environment: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return the variables that a runner gets: some of *environment*, and the added ones."""
        kept = {name: value for name, value in environment.items() if self._passes(name)}
        if self.home:
            kept[b"HOME"] = os.fsencode(self.home)
        return kept | {os.fsencode(name): os.fsencode(value) for name, value in self.added}

    def _passes(self, name: bytes) -> bool:
        text = os.fsdecode(name)
        if any(fnmatch.fnmatchcase(text, pattern) for pattern in DROPPED):
            return False
        wanted = self.variables
        return wanted is None or any(fnmatch.fnmatchcase(text, pattern) for pattern in wanted)


FREE = Confinement()
"""No less than the worker, but for what no runner gets."""

RUNNER, RECORDER = "penstock_worker.runner", "penstock_worker.recorder"
"""The programs that a fork server forks. A recorder runs no user's code, and is not confined."""


class RunnerSetup(msgspec.Struct, frozen=True, array_like=True):
    """The details of a fork: *budget* and *largest* of the runner's `Arena`; its confinement."""

    budget: int
    largest: int
    confinement: Confinement

    def to_bytes(self) -> bytes:
        """Return this as it travels to the fork server."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> RunnerSetup:
        """Return what `to_bytes` made."""
        return msgspec.msgpack.decode(data, type=cls)


def confinement_of(
    memory: int | None,
    user: str | None,
    variables: tuple[str, ...] | None,
    *,
    credentials: str | None,
    read_only: bool = False,
    writable: tuple[str, ...] = (),
    niceness: int = 0,
) -> Confinement:
    """Return what settings ask for.

    Args:
        memory: bytes, or None for no bound.
        user: a name, or None for the worker's own user.
        variables: patterns; None is `USUAL` with *credentials*, and else all.
        credentials: the worker's folder of them, if it has one.
        read_only: whether runners may change no files, but for those that are *writable*.
        writable: paths below which they may even so.
        niceness: how much nicer than the worker they are.

    Raises:
        ConfigError: when there is no such user, this process may not become it, or files cannot
            be kept from runners as is asked for.
    """
    if variables is None and credentials:
        variables = USUAL
    made = _of_user(Confinement(memory or 0, variables=variables), user)
    hidden = _hidden(credentials) if made.uid < 0 else ()
    files = FileRules(hidden, read_only, writable)
    if files:
        landlock.check(files)
    if hidden:
        files = files._replace(covered=_can_cover(hidden))
    return made._replace(files=files, niceness=niceness)


def _hidden(credentials: str | None) -> tuple[str, ...]:
    """Return the folder that runners of the worker's own user are not to see, if there is one."""
    if credentials is None:
        return ()
    folder = Path(credentials).resolve()
    if (folder.parent / "authority").exists():  # those of all roles are there
        folder = folder.parent
    shared = next((one for one in folder.parents if _is_everybodys(one)), None)
    why = f"it is below {shared}, which is everybody's" if shared else ""
    if landlock.version() < landlock.LEAST:
        why = "this kernel has no Landlock (Linux 6.2)"
    if not why:
        return (str(folder),)
    log.warning(
        "users' code can read this worker's credentials in %s: %s; have runners of another user "
        "(--runner-user), or move them",
        folder,
        why,
    )
    return ()


def _can_cover(hidden: tuple[str, ...]) -> bool:
    """Return whether runners can get covers on *hidden*; the log says what follows if not."""
    if cover.possible(hidden):
        return True
    log.warning(
        "users' code cannot read this worker's credentials in %s, but can change the modes of "
        "these files: this host lets this user make no mount namespace; have runners of another "
        "user (--runner-user), or allow user namespaces",
        ", ".join(hidden),
    )
    return False


def _is_everybodys(folder: Path) -> bool:
    """Return whether everybody makes files in *folder*, as in ``/tmp``: runners have to, too."""
    return bool(folder.stat().st_mode & stat.S_IWOTH)


def _of_user(made: Confinement, user: str | None) -> Confinement:
    if user is None:
        return made
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
        return made
    return made._replace(uid=found.pw_uid, gid=found.pw_gid, home=found.pw_dir)


_rules = FileRules()


def confine(confinement: Confinement) -> None:
    """Confine this process, and all that it starts, for good.

    Raises:
        OSError: when the system does not allow it: no user's code may run then.
    """
    global _rules  # noqa: PLW0603  of this process, for good
    memory, files = confinement.memory, confinement.files
    ruleset = landlock.made(files) if files else None  # with the worker's rights to look
    if files.covered:
        cover.put(files.hidden)
    if confinement.uid >= 0:
        os.setgroups([])
        os.setgid(confinement.gid)
        os.setuid(confinement.uid)
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot give up new privileges")
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    if ruleset is not None:
        landlock.enter(ruleset)
        _rules = files


def why_denied(error: PermissionError) -> str:
    """Return which rule of this process's forbids what *error* says, if one may."""
    if _rules.read_only:
        below = ", ".join((*_rules.writable, landlock.ALWAYS_WRITABLE))
        return (
            f"runners of this worker may change files below {below} and nowhere else: name other "
            "folders in runner_writable there"
        )
    for secret in _rules.hidden:
        for path in _paths(error):
            above = landlock.is_below(secret, str(Path(path).parent))
            if above or landlock.is_below(path, secret):
                return (
                    f"runners of this worker may not touch its credentials in {secret}, nor make "
                    "or remove anything right in the folders above that: use another folder, or "
                    "move the credentials, as to /etc/penstock"
                )
    return ""


def _paths(error: PermissionError) -> list[str]:
    """Return the files that *error* is about."""
    names = (error.filename, error.filename2)
    return [os.path.realpath(os.fsdecode(one)) for one in names if isinstance(one, str | bytes)]


def memory_bound() -> int | None:
    """Return how many bytes of memory of its own this process may have; None is no bound."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft
