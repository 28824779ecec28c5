"""`json_lines`: the values of files that have one JSON value in each line.

State: see `penstock.ops.internal.file_parts`.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.errors import DatasetError, ElementError
from penstock.file_parts import FilePart
from penstock.normalise import normalise
from penstock.ops.internal.file_index import starts_of_lines
from penstock.ops.internal.file_parts import BadRecordError, PartReader, PartsSource, Place
from penstock.ops.internal.line_parts import LineReader

_SHOWN = 100


@dataclass(frozen=True, eq=False)
class JsonRecords(PartsSource):
    """The values of the lines of files."""

    op: ClassVar[str] = "json_lines"
    nulls: Mapping[str, Any]
    """What to put in the place of ``null``, by key of the dict in a line."""

    def __post_init__(self) -> None:
        if not isinstance(self.nulls, Mapping):
            raise DatasetError(f"json_lines: nulls must be a dict by key, not {self.nulls!r}")

    @property
    def has_index(self) -> bool:
        """See `FileSource.has_index`."""
        return True

    def index(self, part: FilePart) -> NDArray[np.int64]:
        """See `FileSource.index`."""
        return starts_of_lines(self.op, part)

    def open_part(self, part: FilePart, place: Place) -> PartReader:
        """See `PartsSource.open_part`."""
        return _JsonReader(self, part, place)


_BEYOND = re.compile(rb"NaN|Infinity")
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
_decode = msgspec.json.Decoder().decode


class _JsonReader(LineReader):
    def __init__(self, node: JsonRecords, part: FilePart, place: Place) -> None:
        super().__init__(node.op, part, place)
        self._nulls = node.nulls

    def elements(self, lines: list[bytes], out: list[Element]) -> None:
        """See `LineReader.elements`."""
        nulls = self._nulls
        for line in lines:
            try:
                out.append(normalise(_filled(_value(line), nulls)))
            except (ValueError, RecursionError, ElementError) as exc:
                shown = line[:_SHOWN].rstrip(b"\r\n")
                raise BadRecordError(f"{exc}: {shown!r}{_remedy(exc, line)}", len(line)) from None


def _filled(value: Any, nulls: Mapping[str, Any]) -> Any:
    """Return *value*, with what *nulls* has in the place of the nulls of a dict."""
    if isinstance(value, dict) and None in value.values():
        for key in [key for key, inner in value.items() if inner is None]:
            if key not in nulls:
                raise ElementError(
                    f"key {key!r} has no value: give one, as in nulls={{{key!r}: ...}}, leave such "
                    "lines out by ignore_errors, or read text_lines and parse them in a map"
                )
            value[key] = nulls[key]
    return value


def _remedy(error: Exception, line: bytes) -> str:
    if not isinstance(error, msgspec.DecodeError):
        return ""
    if _HALF.search(line) and "truncated" in str(error):
        return "; half of a surrogate pair, as \\ud800 without the other half, is no text"
    return "; each line must be one whole JSON value"


def _value(line: bytes) -> Any:
    try:
        return _decode(line)
    except msgspec.DecodeError:
        if line.startswith(BOM_UTF8):  # of Windows, at the start of a file
            return _value(line.removeprefix(BOM_UTF8))
        if not _BEYOND.search(line):
            raise
        return json.loads(line)  # Python writes NaN and Infinity, which are not JSON
