"""Compressed files, read as the bytes that are packed in them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from typing import Any, BinaryIO, Protocol, cast

from penstock.errors import DatasetError
from penstock.frames.compression import zstd_module
from penstock.stored_file import CHUNK, ForwardFile, begun

GUESSED = "AUTO"
"""As the first bytes of each file say: no text begins as a compressed file does."""

_MAGIC = {
    b"\x1f\x8b\x08": "GZIP",
    b"\x28\xb5\x2f\xfd": "ZSTD",
    b"\xfd7zXZ\x00": "XZ",
    **{b"BZh%d1AY&SY" % level: "BZIP2" for level in range(1, 10)},
    **{b"BZh%d\x17rE8P\x90" % level: "BZIP2" for level in range(1, 10)},  # of nothing
    # Tools that pack in parallel begin with a frame that says how long the next one is.
    **{b"%c\x2a\x4d\x18" % first: "ZSTD" for first in range(0x50, 0x60)},
}
_REFUSED = {
    b"PK\x03\x04": "a ZIP archive: name a file in it, as 'zip://NAME.txt::ARCHIVE.zip'",
    b"\x1f\x9d": "packed by compress (.Z): pack it by gzip, bzip2, xz or zstd",
    b"\x04\x22\x4d\x18": "packed by lz4: pack it by gzip, bzip2, xz or zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive: unpack it first",
}
_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
_LONGEST = max(map(len, _MAGIC))
_PADDING = b"\0"
"""Padding that may follow each stream: tapes and xz fill blocks with it."""


def compression_of(op: str, given: Any) -> str:
    """Return the name of a compression that a user gave: none, ``"GZIP"`` or ``"ZLIB"``.

    Raises:
        DatasetError: naming the operator and the value.
    """
    if given in (None, "", "GZIP", "ZLIB"):
        return given or ""
    raise DatasetError(f"{op}: compression_type must be None, 'GZIP' or 'ZLIB', not {given!r}")


def by_suffix(name: str) -> str:
    """Return how to read the file *name* of records in any bytes: `GUESSED` if its name says so."""
    return GUESSED if name.endswith(_SUFFIXES) else ""


def is_zstd(file: io.BufferedReader[Any]) -> bool:
    """Return whether *file*, which is at its start, is a file of Zstandard."""
    return _MAGIC.get(file.peek(4)[:4]) == "ZSTD"


def content_end(file: BinaryIO) -> int | None:
    """Return where in the content the first stream after *stop* begins; None: not reached yet.

    *file* and *stop* are those of `decompressed`.
    """
    raw = file.raw if isinstance(file, io.BufferedReader) else None
    return raw.end if isinstance(raw, _Unpacked) else None


def decompressed(
    file: io.BufferedReader[Any], compression: str, stop: int | None = None
) -> BinaryIO:
    """Return the unpacked content of *file* as another file; closing that closes *file*.

    *stop* is a byte of *file*, counted from where it stands: see `content_end`.
    """
    if compression == GUESSED:
        try:
            file = _with_whole_head(file)
            compression = _guess(file)
        except BaseException:
            file.close()
            raise
    stream: _Stream
    match compression:
        case "GZIP":
            return cast("BinaryIO", _GzipFile(file))
        case "ZLIB":
            stream = _Zlib()
        case "BZIP2":
            stream = _Members(bz2.BZ2Decompressor)
        case "XZ":
            stream = _Members(lzma.LZMADecompressor)
        case "ZSTD":
            stream = _Members(zstd_module().ZstdDecompressor, stop)
        case _:
            return file
    return io.BufferedReader(_Unpacked(file, stream), CHUNK)


def _with_whole_head(file: io.BufferedReader[Any]) -> io.BufferedReader[Any]:
    """Return *file*, or the same from its first byte on with all that tells its kind buffered.

    Of a pipe or a server, the first bytes may come in pieces.
    """
    head = file.peek(_LONGEST)
    if len(head) >= _LONGEST or not any(m.startswith(head) for m in (*_MAGIC, *_REFUSED)):
        return file
    return begun(file.read(_LONGEST), file)


def _guess(file: io.BufferedReader[Any]) -> str:
    head = file.peek(_LONGEST)
    for magic, why in _REFUSED.items():
        if head.startswith(magic):
            raise DatasetError(f"the file is {why}")
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), "")


class _GzipFile(gzip.GzipFile):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._inner = file

    def close(self) -> None:
        super().close()
        self._inner.close()


class _Stream(Protocol):
    """Unpacks a file, `CHUNK` bytes at a time at the most: a small file may hold a large one."""

    over: bool
    """Whether the stream is unpacked to its end; the file may have more bytes after it."""
    end: int | None
    """See `content_end`."""

    def piece(self, file: BinaryIO) -> bytes:
        """Return the next bytes; none at the end, and none if more must be read first.

        Raises:
            EOFError: when the file ends before the stream in it does.
        """
        ...


class _Zlib:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj()
        self.over = False
        self.end: int | None = None

    def piece(self, file: BinaryIO) -> bytes:
        packed = self._stream.unconsumed_tail or file.read(CHUNK)
        if not packed:
            raise EOFError("the file ended before the end of its zlib stream")
        out = self._stream.decompress(packed, CHUNK)
        self.over = self._stream.eof
        return out


class _Members:
    """Streams one after another, as tools make them that pack in parallel. *make* begins one."""

    def __init__(self, make: Any, stop: int | None = None) -> None:
        self._make, self._stream = make, make()
        self._stop, self._packed, self._content = stop, 0, 0
        """The bytes that were read of the file, and those that came out."""
        self.over = False
        self.end: int | None = None

    def piece(self, file: BinaryIO) -> bytes:
        stream, packed = self._stream, b""
        if stream.eof:
            packed = stream.unused_data.lstrip(_PADDING)
            begin = self._packed - len(packed)
            if self._stop is not None and self.end is None and begin >= self._stop:
                self.end = self._content
            while not packed and (read := self._read(file)):
                packed = read.lstrip(_PADDING)
            if not packed:
                self.over = True
                return b""
            self._stream = stream = self._make()
        elif stream.needs_input:
            packed = self._read(file)
            if not packed:
                raise EOFError("the file ended before the end of its compressed stream")
        out: bytes = stream.decompress(packed, CHUNK)
        self._content += len(out)
        return out

    def _read(self, file: BinaryIO) -> bytes:
        packed = file.read(CHUNK)
        self._packed += len(packed)
        return packed


class _Unpacked(ForwardFile[BinaryIO]):
    """The bytes that *stream* makes of *file*."""

    def __init__(self, file: BinaryIO, stream: _Stream) -> None:
        super().__init__(file)
        self._stream = stream
        self._held = memoryview(b"")

    @property
    def end(self) -> int | None:
        """See `content_end`."""
        return self._stream.end

    def fill(self, buffer: Any) -> int:
        """See `ForwardFile.fill`."""
        while not self._held and not self._stream.over:
            self._held = memoryview(self._stream.piece(self._inner))
        count = min(len(buffer), len(self._held))
        buffer[:count], self._held = self._held[:count], self._held[count:]
        return count
