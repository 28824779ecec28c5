"""Files by name and by pattern, local and remote, through fsspec.

A name without ``://`` is a local path. Names are made absolute where a dataset is built, so that
they mean the same wherever they are read.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import DatasetError, MissingFile
from penstock.forward_file import ForwardFile
from penstock.protocol.splits import FilePattern
from penstock.remote_file import RemoteFile, patience, why_unread
from penstock.runtime.interrupts import interruptible, is_interrupt

if TYPE_CHECKING:
    import numpy as np

Order: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"
"""The numbers of names, in the order in which the names are read."""


def names(op: str, parameter: str, value: Any, *, patterns: bool = False) -> tuple[str, ...]:
    """Return the names or *patterns* that a user gave, one or a sequence, made absolute.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    many = [value] if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(many, Sequence) or isinstance(many, (bytes, bytearray)) or not many:
        raise _no_names(op, parameter, value)
    paths = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in many]
    if not all(isinstance(path, str) and path for path in paths):
        raise _no_names(op, parameter, value)
    made = _absolute_pattern if patterns else _absolute
    return tuple(path if is_url(path) else made(path) for path in paths)


def listing(op: str, pattern: FilePattern) -> tuple[str, ...]:
    """Return the names of the files of *pattern*, sorted; or as they stand there, if literal.

    Raises:
        MissingFile: for a pattern that matches nothing.
    """
    if pattern.literal:
        return pattern.patterns
    found: dict[str, None] = {}  # in the order found, which is nearly that wanted
    for one in pattern.patterns:
        matches = _glob(op, one)
        if not matches:
            raise MissingFile(f"{op}: no file matches {one!r}; {_remedy(one)}")
        found.update(dict.fromkeys(matches))
    return tuple(sorted(found))


def _remedy(pattern: str) -> str:
    if is_url(pattern):
        return "check the pattern and the directory"
    if Path(pattern).exists():
        return "there is a file of this name: glob.escape(name) is the pattern for it"
    for folder in Path(pattern).parents:
        if glob.has_magic(str(folder)) and folder.is_dir():
            return (
                f"there is a folder {str(folder)!r}: give glob.escape(folder) + '/...' as the "
                "pattern, so that the characters of its name are not taken for a pattern"
            )
    return "check the pattern and the directory"


def count(pattern: FilePattern) -> int:
    """Return how many files *pattern* leaves.

    Raises:
        MissingFile: for a pattern that matches nothing.
    """
    return len(pattern.cut(listing("list_files", pattern)))


def shuffled(found: Iterable[str], seed: int) -> tuple[str, ...]:
    """Return names in the order that *seed* makes; it needs nothing else, on any machine."""
    names = tuple(found)
    return tuple(names[i] for i in order(names, seed).tolist())


def order(found: Sequence[str], seed: int) -> Order:
    """Return the order that *seed* makes of names, as their numbers."""
    key = seed.to_bytes(16, "little", signed=True)
    # As bytes, in one piece: while a million objects are sorted at once, or looked through for
    # garbage, all other threads of the process stand still.
    places = bytearray()
    for name in found:
        text = name.encode("utf-8", "surrogateescape")
        places += hashlib.blake2b(text, digest_size=16, key=key).digest()
    import numpy as np  # noqa: PLC0415  a dispatcher starts without

    high, low = np.frombuffer(places, ">u8").astype(np.uint64).reshape(-1, 2).T
    return np.lexsort((low, high)).astype(np.uint32)


def digest(found: Iterable[str]) -> str:
    """Return what tells one listing from another."""
    text = "\0".join(found).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(text, digest_size=6).hexdigest()


def check_local(op: str, paths: Iterable[str]) -> None:
    """Check that those of *paths* that are local exist; others are found missing when read.

    Raises:
        MissingFile: naming the first that does not.
    """
    for path in paths:
        if not is_url(path) and not Path(path).exists():
            raise missing(op, path)


def missing(op: str, path: str) -> MissingFile:
    """Return the error that says that *path* does not exist."""
    return MissingFile(f"{op}: there is no file {path!r}")


def open_file(path: str, buffer: int) -> io.BufferedReader[Any]:
    """Open *path* for reading bytes and lines, so many bytes at a time."""
    if not is_url(path):
        file = io.FileIO(path)
        return io.BufferedReader(file if file.seekable() else _Pipe(file), buffer)
    from fsspec.core import url_to_fs  # noqa: PLC0415  as in _glob

    fs, inner = url_to_fs(path, **patience(path))
    return RemoteFile(fs, inner, buffer)


class _Pipe(ForwardFile[io.FileIO]):
    """A file that has no places, such as a named pipe."""

    def fill(self, buffer: Any) -> int:
        """See `ForwardFile.fill`."""
        return self._inner.readinto(buffer)


def _glob(op: str, pattern: str) -> list[str]:
    # Imported late: only reading files by pattern waits 80 ms for it.
    from fsspec.core import url_to_fs  # noqa: PLC0415

    try:
        fs, inner = url_to_fs(pattern)
    except (ImportError, ValueError) as exc:
        raise DatasetError(f"{op}: cannot read {pattern!r}: {exc}") from exc
    try:
        found = interruptible(partial(fs.glob, inner, detail=True))
    except Exception as exc:
        why = why_unread(exc) if is_url(pattern) and not is_interrupt(exc) else ""
        if not why:
            raise
        raise DatasetError(f"{op}: cannot list the files of {pattern!r}: {why}") from exc
    files = [name for name, info in found.items() if info["type"] != "directory"]
    if not is_url(pattern):
        return files
    _, chain, rest = pattern.partition("::")
    return [f"{fs.unstrip_protocol(name)}{chain}{rest}" for name in files]


def is_url(path: str) -> bool:
    """Return whether *path* is for fsspec, and not the name of a local file."""
    return "://" in path or "::" in path


def _absolute(path: str) -> str:
    # Not Path.resolve, which would follow links: the name is the user's.
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


def _absolute_pattern(pattern: str) -> str:
    """Return *pattern* made absolute: what it is put behind is a name, and no pattern."""
    home = os.path.expanduser(pattern)  # noqa: PTH111
    if home != pattern:
        rest = pattern.partition("/")[2]
        named = home[: len(home) - len(rest)] if rest else home
        return os.path.normpath(glob.escape(named) + rest)
    return os.path.normpath(os.path.join(glob.escape(os.getcwd()), pattern))  # noqa: PTH109, PTH118


def _no_names(op: str, parameter: str, value: Any) -> DatasetError:
    return DatasetError(
        f"{op}: {parameter} must be a path, or a list of paths that is not empty, not {value!r}"
    )
