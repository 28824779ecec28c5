"""A remote file through fsspec, also of HTTP servers that have no ranges or tell no length."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

_GONE = (404, 410)
_CHUNK = 1 << 18


class RemoteFile(io.BufferedReader):
    """The bytes of *path* in the file system *fs*, read *buffer* at a time."""

    def __init__(self, fs: Any, path: str, buffer: int) -> None:
        super().__init__(_Raw(fs, path), buffer)
        self._fs = fs  # an archive is closed when its file system is dropped


class _Raw(io.RawIOBase):
    """As fsspec reads; where an HTTP server gives no part of a file, by reading up to there."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs, self._path, self._at = fs, path, 0
        self._file = fs.open(path, "rb")
        names = (fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol
        self._http = "http" in names
        self._streams = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            offset, whence = self._at + offset, io.SEEK_SET
        try:
            self._at = self._file.seek(offset, whence)
        except (ValueError, OSError):  # a stream has no places
            if not self._http or whence != io.SEEK_SET:
                raise
            self._stream(offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except ValueError:  # the server sends the whole file whatever part is asked for
            if not self._http or self._streams:
                raise
            self._stream(self._at)
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _stream(self, offset: int) -> None:
        """Begin anew, and read up to *offset*."""
        with suppress(Exception):
            self._file.close()
        self._file = self._fs.open(self._path, "rb", block_size=0)
        self._streams, self._at = True, 0
        while self._at < offset and (passed := self._file.read(min(_CHUNK, offset - self._at))):
            self._at += len(passed)

    def close(self) -> None:
        super().close()
        with suppress(Exception):
            self._file.close()


def why_unread(error: BaseException | None) -> str:
    """Return why a server did not give a file, if it did not say that there is none.

    fsspec calls every trouble of an HTTP server a file that is not found, and keeps the cause.
    """
    cause = error and (error.__cause__ or error.__context__)
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
