"""`json_lines`: the values of files that have one JSON value in each line.

State: see `penstock.ops.internal.file_parts`.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from penstock.element import Element
from penstock.errors import ElementError
from penstock.file_parts import FilePart
from penstock.normalise import normalise
from penstock.ops.internal.file_parts import PartReader, PartsSource, Place
from penstock.ops.internal.file_records import BadRecordError
from penstock.ops.internal.line_parts import LineReader

_SHOWN = 100


@dataclass(frozen=True, eq=False)
class JsonRecords(PartsSource):
    """The values of the lines of files."""

    op: ClassVar[str] = "json_lines"

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _JsonReader(self.op, part, place)


_BEYOND = re.compile(rb"NaN|Infinity")
_decode = msgspec.json.Decoder().decode


class _JsonReader(LineReader):
    def element(self, line: bytes) -> Element:
        """See `LineReader.element`."""
        try:
            return normalise(_value(line))
        except (ValueError, RecursionError, ElementError) as exc:
            shown = line[:_SHOWN].rstrip(b"\r\n")
            raise BadRecordError(f"{exc}: {shown!r}{_remedy(exc)}", len(line)) from None


def _remedy(error: Exception) -> str:
    malformed = isinstance(error, msgspec.DecodeError)
    return "; each line must be one whole JSON value" if malformed else ""


def _value(line: bytes) -> Any:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        if line.startswith(BOM_UTF8):  # of Windows, at the start of a file
            return _value(line.removeprefix(BOM_UTF8))
        if not _BEYOND.search(line):
            raise
        return json.loads(line)  # Python writes NaN and Infinity, which are not JSON
