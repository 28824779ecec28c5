"""Files by name and by pattern, local and remote, through fsspec; files that only go forward.

A name without ``://`` is a local path. Names are made absolute where a dataset is built, so that
they mean the same wherever they are read.
"""

from __future__ import annotations

import glob
import hashlib
import io
import os
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Generic, TypeAlias, TypeVar

from penstock.errors import DatasetError, MissingFile
from penstock.protocol.splits import FilePattern
from penstock.runtime.interrupts import interruptible, is_interrupt

if TYPE_CHECKING:
    import numpy as np

Order: TypeAlias = "np.ndarray[Any, np.dtype[np.uint32]]"
"""The numbers of names, in the order in which the names are read."""

CHUNK = 1 << 18
"""How many bytes are read at a time."""

F = TypeVar("F", bound="io.IOBase | IO[bytes]")


class ForwardFile(io.RawIOBase, Generic[F]):
    """The bytes that a subclass makes of *inner*. A later place is reached by reading up to it."""

    def __init__(self, inner: F) -> None:
        self._inner, self._at = inner, 0

    @abstractmethod
    def fill(self, buffer: Any) -> int:
        """Put the next bytes into *buffer*; return how many, which is 0 at the end."""

    def readable(self) -> bool:
        """See `io.RawIOBase.readable`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase.seekable`."""
        return True

    def tell(self) -> int:
        """See `io.RawIOBase.tell`."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.RawIOBase.seek`."""
        if whence == io.SEEK_CUR:
            offset += self._at
        if whence == io.SEEK_END or offset < self._at:
            raise io.UnsupportedOperation("this file only goes forward, and its end is not known")
        while self._at < offset and self.read(min(CHUNK, offset - self._at)):
            pass
        return self._at

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase.readinto`."""
        count = self.fill(buffer)
        self._at += count
        return count

    def close(self) -> None:
        """See `io.RawIOBase.close`."""
        super().close()
        self._inner.close()


class _Begun(ForwardFile[Any]):
    """The bytes *head*, which were read of *file*, and then the rest of that."""

    def __init__(self, head: bytes, file: Any) -> None:
        super().__init__(file)
        self._head = head

    def fill(self, buffer: Any) -> int:
        """See `ForwardFile.fill`."""
        head, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        if not head:
            return int(self._inner.readinto1(buffer))
        buffer[: len(head)] = head
        return len(head)


def begun(head: bytes, file: BinaryIO) -> io.BufferedReader[Any]:
    """Return *file* from its first byte on again, although *head* was read: it may be a pipe."""
    return io.BufferedReader(_Begun(head, file), CHUNK)


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
    """Open *path* for reading bytes and lines, *buffer* bytes at a time."""
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


_GONE = (404, 410)
_SILENCE = 300.0
"""Seconds for which a server may send nothing."""


class RemoteFile(io.BufferedReader):
    """The bytes of *path* in the file system *fs*, read *buffer* at a time."""

    def __init__(self, fs: Any, path: str, buffer: int) -> None:
        super().__init__(_Raw(fs, path), buffer)
        self._fs = fs  # an archive is closed when its file system is dropped


class _Raw(ForwardFile[Any]):
    """As fsspec reads. If an HTTP server gives no part of a file, the file is read up to there."""

    def __init__(self, fs: Any, path: str) -> None:
        super().__init__(fs.open(path, "rb"))
        self._fs, self._path = fs, path
        names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        self._http = "http" in names
        self._streams = self._over = False

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset, whence = self._at + offset, io.SEEK_SET
        self._over = False
        try:
            self._at = self._inner.seek(offset, whence)
        except (ValueError, OSError):  # a stream has no places
            if not self._http or whence != io.SEEK_SET:
                raise
            self._stream(offset)
        return self._at

    def fill(self, buffer: Any) -> int:
        """See `ForwardFile.fill`."""
        if self._over:
            return 0
        try:
            data = self._inner.read(len(buffer))
        except Exception as exc:
            if not self._http or self._streams or not _is_without_parts(exc):
                raise
            self._stream(self._at)
            data = self._inner.read(len(buffer))
        self._over = self._http and not data  # aiohttp warns of who asks a stream again
        buffer[: len(data)] = data
        return len(data)

    def _stream(self, offset: int) -> None:
        """Read again from the beginning, up to *offset*."""
        with suppress(Exception):
            self._inner.close()
        self._inner = self._fs.open(self._path, "rb", block_size=0)
        self._streams, self._at = True, 0
        if super().seek(offset) < offset:
            raise OSError(f"the server sent {self._at} bytes, and byte {offset} was asked for")

    def close(self) -> None:
        with suppress(Exception):  # of the connection
            super().close()


def patience(url: str) -> dict[str, Any]:
    """Return what to tell fsspec of how long to wait for a server, if the user did not say.

    aiohttp gives a file up after five minutes, though the loop that reads it takes hours.
    """
    from fsspec.config import conf  # noqa: PLC0415  as where files are opened

    servers = [name for name in ("http", "https") if f"{name}://" in url]
    servers = [name for name in servers if "client_kwargs" not in conf.get(name, {})]
    if not servers:
        return {}
    from aiohttp import ClientTimeout  # noqa: PLC0415  other files are read without

    timeout = ClientTimeout(total=None, sock_connect=30, sock_read=_SILENCE)
    return {name: {"client_kwargs": {"timeout": timeout}} for name in servers}


def _is_without_parts(error: Exception) -> bool:
    """Return whether a server sent another part than that asked for: the whole, or less."""
    return isinstance(error, ValueError) or type(error).__name__ == "ClientPayloadError"


def why_unread(error: BaseException | None) -> str:
    """Return why a server did not give a file, if it did not say that there is none.

    fsspec calls every trouble of an HTTP server a file that is not found, and keeps the cause.
    """
    cause = error
    while cause is not None:
        status = getattr(cause, "status", None)
        if isinstance(status, int):
            reason = getattr(cause, "message", "")
            return "" if status in _GONE else f"the server answered {status} {reason}".rstrip()
        if isinstance(cause, TimeoutError):
            return "the server did not answer in time"
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            return f"the server cannot be reached: {cause}"
        cause = cause.__cause__ or cause.__context__
    return ""
