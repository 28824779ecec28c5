"""A remote file through fsspec, also of HTTP servers that have no ranges or tell no length."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

from penstock.forward_file import ForwardFile

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
        """Begin anew, and read up to *offset*."""
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
