"""Chunks as tar archives of WebDataset: neighbouring files of one key are an element.

A part of an element is a file ``KEY.NAME``. `bytes` are its data. Otherwise the end of the name
tells how WebDataset decodes it: ``.txt`` is text, ``.cls`` an integer, and ``.npy`` all the rest.
https://github.com/webdataset/webdataset has the format.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from penstock.errors import DatasetError
from penstock.frames.columns import Alike, Scalars, Text, TextArrays
from penstock.frames.nest import Column
from penstock.saved.layout import SavedLayout
from penstock.saved.row_format import RowCodec, RowFormat, text_bytes
from penstock.storage.tar import BLOCK, BadTarError, members

_KEY = "__key__"
_FIT = re.compile(r"(?!__|\./)(?:[^/\0\ud800-\udfff]+/)*[^./\0\ud800-\udfff]+")
"""A key that readers find again in the names of files."""
_PLAIN: np.dtype[Any] = np.dtype(object)
_TEXTS, _INTEGERS = ("txt", "text", "json"), ("cls", "id", "index")
"""Ends of names that are decoded as text, and as integers."""


class WebDatasetFormat(RowFormat):
    """Tar archives of WebDataset."""

    name, suffix = "webdataset", "tar"
    cure = "bytes"

    def holds(self, kind: Alike) -> bool:
        """See `RowFormat.holds`."""
        return not isinstance(kind, TextArrays) and getattr(kind, "dtype", _PLAIN).names is None

    def check(self, layout: SavedLayout) -> None:
        """See `ChunkFormat.check`."""
        super().check(layout)
        fields: dict[str, str] = {}
        for name, kind in zip(layout.names, layout.kinds, strict=True):
            if _is_key(name, kind):
                continue
            field = _field(name, kind).lower()
            if not name or "/" in name or "\0" in name or name.startswith("__"):
                raise DatasetError(
                    f"save: the format 'webdataset' cannot have a file for {name!r}: give this "
                    "part a name without '/' that does not begin with '__'"
                )
            if field in fields:
                raise DatasetError(
                    f"save: in the format 'webdataset', {fields[field]!r} and {name!r} would both "
                    f"be the file {field!r}: give one of them another name"
                )
            fields[field] = name
        if not fields:
            raise DatasetError(
                f"save: the format 'webdataset' needs a part beside {_KEY!r}: map the elements to "
                "dicts that have one"
            )

    def codec(self, layout: SavedLayout) -> RowCodec:
        """See `RowFormat.codec`."""
        return _SampleCodec(layout)


class _SampleCodec(RowCodec):
    def __init__(self, layout: SavedLayout) -> None:
        super().__init__(layout)
        parts = list(enumerate(zip(layout.names, layout.kinds, strict=True)))
        keys = [at for at, (name, kind) in parts if _is_key(name, kind)]
        self._key = keys[0] if keys else None
        """Which part is the key; if None, the number of the element is."""
        self._files = [
            (at, name, kind, _field(name, kind)) for at, (name, kind) in parts if at != self._key
        ]
        self._last = ""
        """The key of the element before."""

    def encoded(self, columns: list[Column], first: int) -> list[bytes]:
        """See `RowCodec.encoded`."""
        if self._key is None:
            count = len(columns[0])
            keys: Column = [f"{number:08}" for number in range(first, first + count)]
        else:
            keys = columns[self._key]
        contents = [
            [_encoded(name, kind, value) for value in columns[at]]
            for at, name, kind, _ in self._files
        ]
        fields = [field for _, _, _, field in self._files]
        return [
            b"".join(
                _member(f"{key}.{field}", data) for field, data in zip(fields, row, strict=True)
            )
            for key, row in zip(map(self._checked, keys), zip(*contents, strict=True), strict=True)
        ]

    def _checked(self, key: str) -> str:
        if not _FIT.fullmatch(key):
            raise ValueError(
                f"{_KEY!r} {key!r} is no key: a key has no dot after its last '/', and does not "
                "begin with '__'; map it to another one, or leave it out"
            )
        if key == self._last:
            raise ValueError(
                f"{_KEY!r} {key!r} is that of the element before, so that both would be one "
                "sample: map it to another key"
            )
        self._last = key
        return key

    def file(self, rows: list[bytes]) -> tuple[bytes, bytes]:  # noqa: ARG002
        """See `RowCodec.file`."""
        return b"", bytes(2 * BLOCK)

    def rows(self, data: memoryview, count: int) -> list[tuple[str, list[memoryview]]]:
        """See `RowCodec.rows`."""
        try:
            found = list(members(io.BytesIO(data), 0))
        except BadTarError as exc:
            raise ValueError(str(exc)) from exc
        size = len(self._files)
        samples = [found[at : at + size] for at in range(0, count * size, size)]
        return [
            (
                one[0].name.removesuffix(f".{self._files[0][3]}"),
                [data[file.data : file.data + file.size] for file in one],
            )
            for one in samples
        ]

    def columns(self, rows: list[tuple[str, list[memoryview]]]) -> Sequence[Column]:
        """See `RowCodec.columns`."""
        found: list[Column] = [
            [_decoded(kind, files[number]) for _, files in rows]
            for number, (_, _, kind, _) in enumerate(self._files)
        ]
        if self._key is not None:
            found.insert(self._key, [key for key, _ in rows])
        return found


def _is_key(name: str, kind: Alike) -> bool:
    return name == _KEY and kind == Text(str)


def _is_integer(kind: Alike) -> bool:
    return isinstance(kind, Scalars) and kind.dtype.kind in "iu"


def _field(name: str, kind: Alike) -> str:
    """Return the end of the names of the files of a part."""
    if kind == Text(bytes):
        return name
    ends: tuple[str, ...] = _INTEGERS if _is_integer(kind) else ("npy",)
    if isinstance(kind, Text):
        ends = _TEXTS
    return name if name.rpartition(".")[2] in ends else f"{name}.{ends[0]}"


def _member(name: str, data: bytes) -> bytes:
    return b"".join([_header(name, len(data)), data, bytes(-len(data) % BLOCK)])


_OWNER = b"0000644\0" + 2 * b"0000000\0"
"""What anyone may do with a file, and to whom it belongs."""
_TIME = b"\0" + b"00000000000\0"
"""The end of the size, and the time of the last change."""
_REST = (b"\0 0" + bytes(100) + b"ustar\x0000").ljust(BLOCK - 154, b"\0")
"""The end of the checksum, and all after it."""
_SUM = sum(_OWNER + _TIME + b" " * 7 + _REST)
"""What these bytes add up to, with blanks for the checksum."""


def _header(name: str, size: int) -> bytes:
    """Return the header of a file. In the usual case, this is many times as fast as the library."""
    if not name.isascii() or len(name) > 100 or size >= 8 << 30:
        about = tarfile.TarInfo(name)
        about.size = size
        return about.tobuf(tarfile.PAX_FORMAT)
    text, digits = name.encode(), b"%011o" % size
    check = b"%06o" % (_SUM + sum(text) + sum(digits))
    return b"".join([text.ljust(100, b"\0"), _OWNER, digits, _TIME, check, _REST])


def _encoded(name: str, kind: Alike, value: Any) -> bytes:
    if isinstance(kind, Text):
        return text_bytes(name, value)
    if _is_integer(kind):
        return b"%d" % int(value)
    return _npy_header(value.dtype, value.shape) + bytes(value.tobytes())


def _decoded(kind: Any, data: memoryview) -> Any:
    if isinstance(kind, Text):
        return str(data, "utf-8") if kind.kind is str else bytes(data)
    if _is_integer(kind):
        return kind.dtype.type(int(bytes(data)))
    begin = 10 + int.from_bytes(data[8:10], "little")
    array = np.ndarray(_shape(bytes(data[8:begin])), kind.dtype, buffer=data, offset=begin)
    return array[()] if isinstance(kind, Scalars) else array


@lru_cache(maxsize=256)
def _npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    about = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, about)
    return out.getvalue()


@lru_cache(maxsize=256)
def _shape(header: bytes) -> tuple[int, ...]:
    """Return the shape that the header of an array tells."""
    return np.lib.format.read_array_header_1_0(io.BytesIO(header))[0]
