r"""`text_lines`: the lines of text files.

Lines end with ``\n`` or ``\r\n``; bytes that are no UTF-8 become what *errors* says: by
default lone surrogates, from which ``line.encode("utf-8", "surrogateescape")`` makes the same bytes
again. State: see `penstock.ops.internal.file_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from penstock import files
from penstock.element import Element
from penstock.errors import DatasetError
from penstock.file_parts import FilePart
from penstock.graph.node import added
from penstock.ops.internal.file_index import starts_of_lines
from penstock.ops.internal.file_parts import BadRecordError, NamedFiles, PartReader, Place
from penstock.ops.internal.line_parts import LineReader

_ERRORS = ("surrogateescape", "strict", "replace", "ignore")
_SHOWN = 100


@dataclass(frozen=True, eq=False)
class TextLines(NamedFiles):
    """The lines of *files*, file after file."""

    op: ClassVar[str] = "text_lines"
    errors: str = added("surrogateescape")

    def __post_init__(self) -> None:
        if self.errors not in _ERRORS:
            raise DatasetError(
                f"text_lines: errors must be one of {', '.join(map(repr, _ERRORS))}, not "
                f"{self.errors!r}"
            )
        object.__setattr__(self, "files", files.names("text_lines", "files", self.files))

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return True

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        return starts_of_lines(self.op, part)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `FileSource.open_part`."""
        return _TextReader(self, part, place)


class _TextReader(LineReader):
    def __init__(self, node: TextLines, part: FilePart, place: Place) -> None:
        super().__init__(node.op, part, place)
        self._errors = node.errors

    def elements(self, lines: list[bytes], out: list[Element]) -> None:
        """See `LineReader.elements`."""
        errors = self._errors
        if errors != "strict":
            out += [_text(line, errors) for line in lines]
            return
        for line in lines:
            _check(line)
            out.append(_text(line, errors))


def _check(line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as exc:
        raise BadRecordError(
            f"the line is not UTF-8 ({exc.reason} at byte {exc.start}): {line[:_SHOWN]!r}; convert "
            'the file, or choose how to decode, as with errors="replace"',
            len(line),
        ) from None


def _text(line: bytes, errors: str) -> str:
    if line.endswith(b"\n"):
        line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    return line.decode("utf-8", errors)
