"""Formats whose files have one element after another: TFRecord, tar and MDS."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from penstock.element import Element, read_only
from penstock.engine.rows import Block
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.frames.columns import Alike, Scalars, TextArrays, Unequal
from penstock.frames.nest import Column
from penstock.saved.chunk_format import ChunkFormat, GroupDecoder, GroupEncoder
from penstock.saved.chunks import Group
from penstock.saved.layout import SavedLayout


class RowCodec(ABC):
    """Encodes and decodes the elements of one file, one by one."""

    def __init__(self, layout: SavedLayout) -> None:
        self.layout = layout

    @abstractmethod
    def encoded(self, columns: list[Column], first: int) -> list[bytes]:
        """Return the bytes of each of the elements that have these *columns*.

        The first one is number *first* of its file.

        Raises:
            ValueError: when the format cannot hold a value, naming its part.
        """

    def file(self, rows: list[bytes]) -> tuple[bytes, bytes]:  # noqa: ARG002  most need none
        """Return what is before and after all *rows*.

        Raises:
            ValueError: when a file cannot hold so many.
        """
        return b"", b""

    @abstractmethod
    def rows(self, data: memoryview, count: int) -> list[Any]:
        """Return each of the *count* elements that have the bytes *data*, not yet decoded."""

    @abstractmethod
    def columns(self, rows: list[Any]) -> Sequence[Column]:
        """Return the columns of one or more elements; arrays may be views of their bytes."""


class RowFormat(ChunkFormat):
    """A format whose files have one element after another, without compression."""

    compressions = (None,)
    cure: ClassVar[str]
    """What to map a part to that the format cannot hold."""

    @abstractmethod
    def holds(self, kind: Alike) -> bool:
        """Return whether it can hold parts of this *kind*."""

    @abstractmethod
    def codec(self, layout: SavedLayout) -> RowCodec:
        """Return what encodes and decodes elements of this *layout*."""

    def check(self, layout: SavedLayout) -> None:
        """See `ChunkFormat.check`."""
        for name, kind in zip(layout.names, layout.kinds, strict=True):
            if not self.holds(kind):
                raise DatasetError(
                    f"save: the format {self.name!r} cannot hold {name!r}, which is {_told(kind)}: "
                    f"map it to {self.cure}, or save in the format 'arrow'"
                )

    def encoder(self, layout: SavedLayout, compression: str | None) -> GroupEncoder:  # noqa: ARG002
        """See `ChunkFormat.encoder`."""
        return _RowEncoder(self.codec(layout))

    def decoder(self, layout: SavedLayout, about: Any) -> GroupDecoder:  # noqa: ARG002
        """See `ChunkFormat.decoder`."""
        return _RowDecoder(self.codec(layout))


def text_bytes(name: str, text: str | bytes) -> bytes:
    """Return a *text* of the part *name* as bytes.

    Raises:
        ValueError: when it is no Unicode.
    """
    try:
        return text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError as exc:
        raise ValueError(
            f"{name!r} has a text that cannot be written: {exc}; map it to bytes"
        ) from exc


def _told(kind: Alike) -> str:
    match kind:
        case Scalars():
            return str(kind.dtype)
        case Unequal():
            return f"an array of {kind.dtype}"
        case TextArrays():
            return "an array of text"
    return kind.kind.__name__


class _RowEncoder:
    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec
        self._rows: list[bytes] = []
        self._ends = [0]
        """How many elements there are up to the end of each group."""

    def add(self, columns: list[Column]) -> None:
        """See `GroupEncoder.add`."""
        try:
            self._rows += self._codec.encoded(columns, len(self._rows))
        except ValueError as exc:
            raise DatasetError(f"save: {exc}") from exc
        self._ends.append(len(self._rows))

    def finish(self) -> tuple[Any, list[int]]:
        """See `GroupEncoder.finish`."""
        try:
            before, after = self._codec.file(self._rows)
        except ValueError as exc:
            raise DatasetError(f"save: {exc}") from exc
        starts = np.cumsum([len(before), *map(len, self._rows)])
        data = b"".join([before, *self._rows, after])
        return needed("pyarrow", "save").py_buffer(data), starts[self._ends].tolist()


@dataclass(frozen=True, slots=True)
class _EncodedRows:
    """Elements that are not decoded."""

    rows: list[Any]
    nbytes: int


class _RowDecoder:
    def __init__(self, codec: RowCodec) -> None:
        self._codec = codec

    def table(self, data: Any, group: Group) -> _EncodedRows:
        """See `GroupDecoder.table`."""
        return _EncodedRows(self._codec.rows(memoryview(data).cast("B"), group.count), group.nbytes)

    def block(self, table: _EncodedRows) -> Block:
        """See `GroupDecoder.block`."""
        return self._elements(table.rows)

    def picked(self, table: _EncodedRows, rows: Sequence[int]) -> list[Element]:
        """See `GroupDecoder.picked`."""
        return self._elements([table.rows[row] for row in rows])

    def _elements(self, rows: list[Any]) -> list[Element]:
        columns = [list(map(read_only, column)) for column in self._codec.columns(rows)]
        return self._codec.layout.join(columns, len(rows))
