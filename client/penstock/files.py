"""Files by name and by pattern, local and remote, through fsspec; files that only go forward.

A name without ``://`` is a local path. Names are made absolute where a dataset is built, so that
they mean the same wherever they are read.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import DatasetError, MissingFile
from penstock.file_parts import PART_BYTES, Info, braces, parted
from penstock.protocol.splits import FilePattern
from penstock.runtime.interrupts import interruptible, is_interrupt
from penstock.storage import listing as listing_of_store
from penstock.storage.fetching import file_info
from penstock.storage.urls import OBJECT_STORES, shown
from penstock.stored_file import is_url, why_unread

if TYPE_CHECKING:
    import numpy as np

Order: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"
"""The numbers of names, in the order in which the names are read."""


_URL_OF_PATHLIB = re.compile(r"([a-z][a-z0-9+.-]+):/([^/].*)")
"""``Path("s3://bucket/name")`` has one slash."""


def names(op: str, parameter: str, value: Any, *, patterns: bool = False) -> tuple[str, ...]:
    """Return the names or *patterns* that a user gave, one or a sequence, made absolute.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    many = [value] if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(many, Sequence) or isinstance(many, (bytes, bytearray)) or not many:
        raise _no_names(op, parameter, value)
    paths = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in many]
    if not all(isinstance(path, str) and path and "\0" not in path for path in paths):
        raise _no_names(op, parameter, value)
    for path in paths:
        if (found := _URL_OF_PATHLIB.match(path)) and not _is_there(path):
            raise DatasetError(
                f"{op}: {path!r} is a URL that pathlib has changed: give it as text, "
                f"'{found[1]}://{found[2]}'"
            )
    made = _absolute_pattern if patterns else _absolute
    return tuple(path if is_url(path) else made(path) for path in paths)


def listing(op: str, pattern: FilePattern) -> tuple[str, ...]:
    """Return the names of the files of *pattern*, sorted; or as they stand there, if literal.

    Raises:
        MissingFile: for a pattern that matches nothing.
    """
    found: dict[str, Any] = {}  # in the order found, which is nearly that wanted
    if pattern.literal:
        if not pattern.part_bytes:
            return pattern.patterns
        return _parts(op, [(name, None) for name in pattern.patterns], pattern.part_bytes)
    for one in pattern.patterns:
        matches = _glob(op, one)
        if not matches:
            raise MissingFile(f"{op}: no file matches {one!r}; {_remedy(one)}")
        found.update(matches)
    names = sorted(found)
    if not pattern.part_bytes:
        return tuple(names)
    return _parts(op, [(name, found[name]) for name in names], pattern.part_bytes)


def _parts(op: str, found: Collection[tuple[str, Info]], nbytes: int) -> tuple[str, ...]:
    return parted(found, nbytes, partial(_remote_info, op))


def _remote_info(op: str, name: str) -> Info:
    """Return what its store tells of a remote file; None if it is missing, as its reader says."""
    try:
        return file_info(name)
    except (OSError, ValueError, ImportError) as exc:
        raise unread(op, name, exc) from exc


def unread(op: str, url: str, error: Exception) -> DatasetError:
    """Return the error that says why *url* cannot be read; a missing package has its extra."""
    extra = OBJECT_STORES.get(url.partition("://")[0])
    why = str(error)
    if isinstance(error, ImportError) and extra is not None:
        why = f'on the dispatcher and workers, pip install "penstock[{extra}]"'
    return DatasetError(f"{op}: cannot read {shown(url)!r}: {why}")


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
    cure = "check bucket and name" if is_url(path) else "check its name, also on the workers' hosts"
    if glob.has_magic(path):
        cure += "; if it is a pattern, give the names that match it, such as those of Path.glob"
    return MissingFile(f"{op}: there is no file {path!r}: {cure}")


def wanted(op: str, parameter: str, value: Any) -> FilePattern:
    """Return the pattern of files that a user gave: names, or patterns with ``*``, ``?``, ``{}``.

    A local name that exists is taken as it is, whatever characters it has.

    Raises:
        DatasetError: naming the operator, the parameter and the value.
    """
    given = names(op, parameter, value)
    for one in given:
        if _is_folder(one):
            raise DatasetError(
                f"{op}: {one!r} is a folder: give names or a pattern, such as "
                f"{one.rstrip('/') + '/*'!r}"
            )
    expanded = [name for one in given for name in ((one,) if _is_there(one) else braces(op, one))]
    literal = not any(glob.has_magic(one) and not _is_there(one) for one in expanded)
    if not literal:
        expanded = [glob.escape(one) if _is_there(one) else one for one in expanded]
    return FilePattern(
        tuple(expanded), shuffle=False, seed=None, literal=literal, part_bytes=PART_BYTES
    )


def literally(found: tuple[str, ...]) -> FilePattern:
    """Return the pattern of files with exactly these names, in this order."""
    return FilePattern(found, shuffle=False, seed=None, literal=True, part_bytes=PART_BYTES)


def _is_folder(name: str) -> bool:
    if not is_url(name):
        return os.path.isdir(name)  # noqa: PTH112  many names
    scheme, _, rest = name.partition("://")
    return scheme in OBJECT_STORES and ("/" not in rest or rest.endswith("/"))


def _is_there(name: str) -> bool:
    return not is_url(name) and os.path.exists(name)  # noqa: PTH110  many names


def _glob(op: str, pattern: str) -> dict[str, Any]:
    """Return the files that match, with what fsspec tells of remote ones."""
    if is_url(pattern) and listing_of_store.lists(pattern):
        try:
            return dict(interruptible(partial(listing_of_store.objects, pattern)))
        except OSError as exc:
            raise DatasetError(f"{op}: cannot list the files of {pattern!r}: {exc}") from exc
    # Imported late: only reading files by pattern waits 80 ms for it.
    from fsspec.core import url_to_fs  # noqa: PLC0415

    folder, _, last = pattern.rpartition("/")
    if not is_url(pattern) and not glob.has_magic(folder) and "**" not in last:
        return dict.fromkeys(interruptible(partial(_in_folder, folder, pattern)))

    try:
        fs, inner = url_to_fs(pattern)
    except (ImportError, ValueError) as exc:
        raise unread(op, pattern, exc) from exc
    try:
        found = interruptible(partial(fs.glob, inner, detail=True))
    except Exception as exc:
        why = why_unread(exc) if is_url(pattern) and not is_interrupt(exc) else ""
        if not why:
            raise
        raise DatasetError(f"{op}: cannot list the files of {pattern!r}: {why}") from exc
    files = {name: info for name, info in found.items() if info["type"] != "directory"}
    if not is_url(pattern):
        return dict.fromkeys(files)
    _, chain, rest = pattern.partition("::")
    return {f"{fs.unstrip_protocol(name)}{chain}{rest}": info for name, info in files.items()}


def _in_folder(folder: str, pattern: str) -> list[str]:
    """Return the files of one local folder that match, as fsspec does; it asks about each file."""
    from fsspec.utils import glob_translate  # noqa: PLC0415  as in _glob

    wanted = re.compile(glob_translate(pattern))
    try:
        with os.scandir(folder or "/") as entries:
            found = [e.name for e in entries if not e.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # as fsspec: such a folder has no files
    return [path for name in found if wanted.match(path := f"{folder}/{name}")]


def _absolute(path: str) -> str:
    # Not Path.resolve, which would follow links: the name is the user's.
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


def _absolute_pattern(pattern: str) -> str:
    """Return *pattern* made absolute: the folder before it is a name, and no pattern."""
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
