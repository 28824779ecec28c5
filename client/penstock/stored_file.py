"""Open files for reading, local ones and those of any file system that fsspec knows.

Some remote files and all pipes can only be read from start to end. An HTTP server may have no
ranges, or not tell the length of a file.
"""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from contextlib import suppress
from typing import IO, Any, BinaryIO, Generic, TypeVar

from penstock.errors import FileChanged
from penstock.file_parts import FilePart, local_version, remote_version
from penstock.storage import ranged_file
from penstock.storage.fetching import UnrangedError, file_info
from penstock.storage.ranged_file import RangedFile
from penstock.storage.stores import pins

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


def open_part(
    op: str, part: FilePart, buffer: int, *, in_order: bool = True
) -> io.BufferedReader[Any]:
    """Open the file of *part* for reading bytes, so many at a time, if it is the listed version.

    Args:
        op: the operator, for errors.
        part: its bytes are read ahead if the file is remote.
        buffer: how many bytes are read at a time.
        in_order: whether the part is read from its start to its end. If not, a remote file is not
            read ahead.

    Raises:
        FileChanged: when it is another version.
    """
    if is_url(part.name) and ranged_file.has_ranges(part.name) and part.stop is not None:
        if not pins(part.name):
            check_version(op, part)
        ahead = (part.start, part.stop) if in_order and part.in_order else (0, 0)
        return io.BufferedReader(_Remote(part.name, part.version, part.size, *ahead), buffer)
    check_version(op, part)
    return open_file(part.name, buffer)


def read_to_end(file: io.BufferedReader[Any]) -> None:
    """Read ahead up to the end of *file*, which `open_part` opened for a part of it."""
    if isinstance(file.raw, _Remote):
        file.raw.read_to_end()


def read_soon(part: FilePart) -> None:
    """Begin to read *part*, which is opened next, if it is remote."""
    if part.stop is not None and is_url(part.name) and ranged_file.has_ranges(part.name):
        ranged_file.expect(part.name, part.version, part.start, part.stop)


def may_change(name: str) -> bool:
    """Return whether the file *name* can be replaced unnoticed while it is read."""
    return not is_url(name) or (ranged_file.has_ranges(name) and not pins(name))


def check_version(op: str, part: FilePart) -> None:
    """Check that the file of *part* is the version that was listed.

    Raises:
        FileChanged: when it is another.
    """
    if not part.version:
        return
    if is_url(part.name):
        info = file_info(part.name)
        if info is None:
            raise FileNotFoundError(part.name)
        found = remote_version(info)
    else:
        found = local_version(os.stat(part.name))  # noqa: PTH116
    if found != part.version:
        raise FileChanged(
            f"{op}: {part.name} was changed since it was listed (version {part.version} then, "
            f"{found} now): a run must not mix both. Restore the file, or begin a new run"
        )


def open_file(path: str, buffer: int) -> io.BufferedReader[Any]:
    """Open *path* for reading bytes and lines, *buffer* bytes at a time."""
    if not is_url(path):
        file = io.FileIO(path)
        return io.BufferedReader(file if file.seekable() else _Pipe(file), buffer)
    if ranged_file.has_ranges(path):
        info = file_info(path)
        if info is None:
            raise FileNotFoundError(path)
        if (size := info.get("size")) is not None:
            raw = _Remote(path, remote_version(info), int(size), 0, int(size))
            return io.BufferedReader(raw, buffer)
    from fsspec.core import url_to_fs  # noqa: PLC0415  as in _glob

    fs, inner = url_to_fs(path, **patience(path))
    return RemoteFile(fs, inner, buffer)


class _Remote(io.RawIOBase):
    """A remote file in ranges; from start to end if its server sends none."""

    def __init__(self, url: str, version: str, size: int, start: int, stop: int) -> None:
        self._url = url
        self._inner: io.RawIOBase = RangedFile(url, version, size, start, stop)

    def readable(self) -> bool:
        """See `io.RawIOBase.readable`."""
        return True

    def seekable(self) -> bool:
        """See `io.RawIOBase.seekable`."""
        return True

    def tell(self) -> int:
        """See `io.RawIOBase.tell`."""
        return self._inner.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """See `io.RawIOBase.seek`."""
        return self._inner.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:
        """See `io.RawIOBase.readinto`."""
        try:
            return self._inner.readinto(buffer) or 0
        except UnrangedError:
            at = self._inner.tell()
        from fsspec.core import url_to_fs  # noqa: PLC0415  as in _glob

        fs, inner = url_to_fs(self._url, **patience(self._url))
        self._inner.close()
        self._inner = _Raw(fs, inner)
        self._inner.seek(at)
        return self._inner.readinto(buffer) or 0

    def read_to_end(self) -> None:
        """See `RangedFile.read_to_end`."""
        if isinstance(self._inner, RangedFile):
            self._inner.read_to_end()

    def close(self) -> None:
        """See `io.RawIOBase.close`."""
        super().close()
        self._inner.close()


class _Pipe(ForwardFile[io.FileIO]):
    """A file that has no places, such as a named pipe."""

    def fill(self, buffer: Any) -> int:
        """See `ForwardFile.fill`."""
        return self._inner.readinto(buffer)


def is_url(path: str) -> bool:
    """Return whether *path* is for fsspec, and not the name of a local file."""
    return "://" in path or "::" in path


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
