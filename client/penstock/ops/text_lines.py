r"""`text_lines`: the lines of text files.

Lines end with ``\n`` or ``\r\n``; bytes that are no UTF-8 become what *errors* says: by
default lone surrogates, from which ``line.encode("utf-8", "surrogateescape")`` makes the same bytes
again. State: see `penstock.ops.internal.file_records`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, ClassVar

from penstock import files
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import OpIterator, State
from penstock.errors import DatasetError
from penstock.graph.node import added
from penstock.ops.internal.compressed import GUESSED
from penstock.ops.internal.file_records import BadRecordError, FileRecords, FileSource

_ERRORS = ("surrogateescape", "strict", "replace", "ignore")
_SHOWN = 100


@dataclass(frozen=True, eq=False)
class TextLines(FileSource):
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

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _TextLinesIterator(self, context, state)


class _TextLinesIterator(FileRecords[bytes]):
    op = TextLines.op

    def __init__(self, node: TextLines, context: Context, state: State) -> None:
        super().__init__(context, node.files, GUESSED, state)
        self._errors = node.errors

    def read(self, file: BinaryIO, n: int, out: list[bytes]) -> None:
        """See `FileRecords.read`."""
        if self._errors != "strict":
            out.extend(islice(file, n))
            return
        for line in islice(file, n):  # lines after a bad one stay in the file
            _check(line)
            out.append(line)

    def element(self, record: bytes) -> Element:
        """See `FileRecords.element`."""
        return _text(record, self._errors)


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
