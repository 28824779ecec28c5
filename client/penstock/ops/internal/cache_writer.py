"""How the file of a `cache` is written: under another name, renamed when it is whole."""

from __future__ import annotations

import os
import secrets
import tempfile
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from penstock import stored_file
from penstock.element import Element
from penstock.errors import DatasetError, ElementError
from penstock.frames.frame import FrameBuilder
from penstock.ops.internal import cache_file
from penstock.ops.internal.cache_file import Header, Index, LocalCacheFile, read_block

BLOCK_NBYTES, BLOCK_COUNT = 1 << 20, 8192


class CacheWriter:
    """Elements on their way into the cache file *name*; those that were added can be read.

    With a *header* the file gets its name when it is whole; else it never has one, and goes with
    this object. Any thread.
    """

    def __init__(self, name: str, header: Header | None) -> None:
        self._name, self._header = name, header
        self._path = ""
        self._lock = threading.Lock()
        self._builder = FrameBuilder(BLOCK_NBYTES, BLOCK_COUNT)
        self._index = Index([], [])
        self._written = 0
        """How many elements are in blocks."""
        self._tail: list[Element] = []
        """The elements that are in no block yet."""
        self._file: LocalCacheFile | None = None
        self._remove: weakref.finalize[Any, Any] | None = None

    def __len__(self) -> int:
        return self._written + len(self._tail)

    def add(self, elements: Sequence[Element]) -> None:
        """Take in the next elements.

        Raises:
            DatasetError: naming the file, when they cannot be written. Then nothing of it is left.
        """
        try:
            while elements:
                count = self._builder.add(elements)
                self._tail += elements[:count]
                elements = elements[count:]
                if self._builder.ready():
                    self._write_block()
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            self._fail(exc)

    def run(self, number: int) -> tuple[int, Sequence[Element]]:
        """Do as `CacheFile.run`. Element *number* was added."""
        if number >= self._written:
            return self._written, self._tail
        first, start, stop = self._index.find(number)
        return first, read_block(self._path, cast("LocalCacheFile", self._file), start, stop)

    def seal(self) -> None:
        """Mark the elements complete.

        Raises:
            DatasetError: as `add`.
        """
        try:
            if len(self._builder):
                self._write_block()
            if self._header is not None:
                if self._file is None:
                    self._begin()
                self._write(cache_file.end(self._index, self._written))
                os.fsync(self._opened.fileno())
                self._publish()
        except Exception as exc:  # noqa: BLE001  as in `add`
            self._fail(exc)

    def close(self) -> None:
        """Close the file. Idempotent."""
        remove, self._remove = self._remove, None
        if remove is not None:
            remove()

    def _write_block(self) -> None:
        layout, elements = self._builder.take()
        if self._file is None:
            self._begin()
        offset = self._index.offsets[-1]
        nbytes = self._write(*cache_file.block(layout, elements))
        self._index.offsets.append(offset + nbytes)
        self._index.firsts.append(self._written)
        self._tail, self._written = [], self._written + layout.count

    def _write(self, *parts: bytes | bytearray) -> int:
        file = self._opened
        with self._lock:
            file.seek(0, os.SEEK_END)
            for part in parts:
                file.write(part)
            file.flush()
        return sum(map(len, parts))

    @property
    def _opened(self) -> BinaryIO:
        return cast("LocalCacheFile", self._file).file

    def _begin(self) -> None:
        folder = Path(tempfile.gettempdir())
        if not stored_file.is_url(self._name):
            folder = Path(self._name).parent
            folder.mkdir(parents=True, exist_ok=True)
        self._path = str(folder / f"{Path(self._name).name}.{secrets.token_hex(6)}.part")
        file = open(self._path, "x+b")  # noqa: PTH123, SIM115  `close` closes it
        self._file = LocalCacheFile(file, self._lock)
        self._remove = weakref.finalize(self, _remove, file, self._path, os.getpid())
        if self._header is None:
            with suppress(OSError):  # where an open file must have a name
                Path(self._path).unlink()
        start = 0 if self._header is None else self._write(cache_file.head(self._header))
        self._index.offsets.append(start)

    def _publish(self) -> None:
        """Give the file its name. If others publish one too, this object reads its own file."""
        if not stored_file.is_url(self._name):
            try:
                Path(self._path).replace(self._name)
            except PermissionError:
                self._rename_closed()
            return
        from fsspec.core import url_to_fs  # noqa: PLC0415  only who needs it waits for it

        fs, path = url_to_fs(self._name)
        part = f"{path}.{secrets.token_hex(6)}.part"
        fs.put_file(self._path, part)
        fs.mv(part, path)

    def _rename_closed(self) -> None:
        """Give the file its name where one that is open must keep its own, as on Windows."""
        source = cast("LocalCacheFile", self._file)
        with self._lock:  # others read through the same source meanwhile
            source.file.close()
            Path(self._path).replace(self._name)
            source.file = open(self._name, "rb")  # noqa: PTH123, SIM115  as in `_begin`
        if self._remove is not None:
            self._remove.detach()
        self._remove = weakref.finalize(self, source.file.close)

    def _fail(self, exc: Exception) -> NoReturn:
        self.close()
        if isinstance(exc, ElementError):
            raise DatasetError(
                f"cache: an element cannot be written into {self._name!r}: {exc}; use cache() "
                "without a filename, which keeps elements in memory"
            ) from exc
        raise DatasetError(
            f"cache: {self._name!r} cannot be written ({type(exc).__name__}: {exc}): make room for "
            "it, or give another filename. The unfinished file is removed; the elements "
            "still come, and a later pass tries again"
        ) from exc


def _remove(file: BinaryIO, path: str, process: int) -> None:
    with suppress(OSError):  # a full disk, again
        file.close()
    if os.getpid() == process:  # and not in a fork of it
        with suppress(OSError):
            Path(path).unlink()
