"""Lines of a part of a text file.

A part has the lines that begin after its first byte and up to its end: the first part of a file has
the first line too, and a line that begins just where a part ends is that part's. So each line is in
one part, and no part needs the byte before it (the rule of Hadoop's `LineRecordReader`). Nobody can
read a compressed file from its middle, so its first part has all lines, and the others have none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from itertools import islice
from typing import BinaryIO

from penstock import stored_file
from penstock.element import Element
from penstock.engine.rows import Block
from penstock.file_parts import FilePart
from penstock.ops.internal.compressed import GUESSED, decompressed
from penstock.ops.internal.file_parts import START, PartReader, Place
from penstock.ops.internal.file_records import BadRecordError
from penstock.runtime.interrupts import is_interrupt
from penstock.stored_file import CHUNK


class LineReader(PartReader):
    """The lines of *part*. A place is the byte where a line begins, and its number in the part."""

    def __init__(self, op: str, part: FilePart, place: Place) -> None:
        self._byte, self._number = place
        raw = stored_file.open_part(op, part, CHUNK)
        try:
            self._file: BinaryIO = decompressed(raw, GUESSED)
            self._is_packed = self._file is not raw
            self._stop = part.stop if not self._is_packed else None
            self._is_over = self._is_packed and part.start > 0
            if not self._is_over:
                self._start(part, place)
        except BaseException:
            raw.close()
            raise
        self._last: list[int] = []
        """How many bytes each line of the last block has."""
        self._waiting: list[bytes] = []
        """Lines that were read, from a bad one on: a compressed file only goes forward."""
        self._due: Exception | None = None
        """The error to raise after the lines that were read."""

    def _start(self, part: FilePart, place: Place) -> None:
        if place != START:
            self._file.seek(self._byte)
        elif part.start:
            self._file.seek(part.start)
            self._byte = part.start + len(self._file.readline())

    @abstractmethod
    def element(self, line: bytes) -> Element:
        """Return the element that *line* holds.

        Raises:
            BadRecordError: when it is malformed.
        """

    def rows(self, n: int) -> Block:
        """See `PartReader.rows`."""
        self._last = []
        lines, self._waiting = self._waiting[:n], self._waiting[n:]
        if not lines and not self._is_over:
            lines = self._lines(n)
        out: list[Element] = []
        for line in lines:
            try:
                out.append(self.element(line))
            except BadRecordError:
                self._waiting = lines[len(out) :] + self._waiting
                if not out:
                    raise
                break
        self._last = [len(line) for line in lines[: len(out)]]
        self._byte += sum(self._last)
        self._number += len(out)
        return out

    def _lines(self, n: int) -> list[bytes]:
        if self._due is not None:
            raise self._due
        lines: list[bytes] = []
        try:
            lines.extend(islice(self._file, n))
        except Exception as exc:
            if not lines or is_interrupt(exc):
                raise
            self._due = exc
        if self._stop is None or self._byte + sum(map(len, lines)) <= self._stop:
            return lines
        at, kept = self._byte, list[bytes]()
        for line in lines:
            if at > self._stop:
                self._is_over = True
                break
            kept.append(line)
            at += len(line)
        return kept

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        self._byte, self._number = place
        self._waiting, self._due, self._is_over = [], None, False
        self._file.seek(self._byte)

    def place(self) -> Callable[[int], Place]:
        """See `PartReader.place`."""
        byte, number, last = self._byte, self._number, self._last
        return lambda back: (byte - sum(last[len(last) - back :]), number - back)

    def describe(self) -> str:
        """See `PartReader.describe`."""
        return f"line {self._number} from the start of its part, at byte {self._byte}"

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        self._byte, self._number = self._byte + size, self._number + 1
        self._waiting = self._waiting[1:]

    def close(self) -> None:
        """See `PartReader.close`."""
        self._file.close()
