"""Files that can only go forward, in the form in which Python buffers them."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import IO, Any, Generic, TypeVar

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
