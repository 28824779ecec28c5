"""Lines of a part of a text file.

A part has the lines that begin after its first byte and up to its end: the first part of a file has
the first line too, and a line that begins just where a part ends is that part's. So each line is in
one part, and no part needs the byte before it (the rule of Hadoop's `LineRecordReader`).
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import islice
from typing import ClassVar

from penstock.element import Element
from penstock.errors import StateError
from penstock.file_parts import FilePart
from penstock.ops.internal.compressed import GUESSED
from penstock.ops.internal.file_parts import BadRecordError, Place
from penstock.ops.internal.record_parts import RecordReader
from penstock.runtime.interrupts import is_interrupt
from penstock.stored_file import CHUNK


class LineReader(RecordReader):
    """The lines of *part*."""

    what: ClassVar[str] = "line"
    first: ClassVar[int] = 1  # as editors count lines
    by_frames = True

    def __init__(self, op: str, part: FilePart, place: Place) -> None:
        super().__init__(op, part, place, GUESSED)
        self._waiting: list[bytes] = []
        """Lines that were read, from a bad one on: a compressed file only goes forward."""
        self._broken: Exception | None = None
        """Why the file could not be read after the lines that were."""
        self._is_past = False
        """Whether the last line of the part was read."""

    def begin(self) -> None:
        """See `RecordReader.begin`."""
        if self.part.start:
            if not self.is_packed:
                self.byte = self.file.seek(self.part.start)
            self.byte += len(self.file.readline())

    def resume(self) -> None:
        """See `RecordReader.resume`.

        Raises:
            StateError: when the place is that of an early version, which read a whole compressed
                file as its first part. The next parts would have its elements again.
        """
        if not self.by_frames or not self.is_packed:
            super().resume()
            return
        at = lines = 0
        while at < self.byte and (data := self.file.read(min(CHUNK, self.byte - at))):
            if (end := self.end) is not None:
                lines += data.count(b"\n", max(end - at, 0))
            at += len(data)
        if lines > 1:  # the part's last line may end after the part, and no other line does
            raise StateError(
                f"{self.part.name} was read as one stream when this state was saved, and is "
                "divided by its frames now, so that elements would come twice: begin the pass again"
            )

    @abstractmethod
    def elements(self, lines: list[bytes], out: list[Element]) -> None:
        """Append the elements that *lines* hold to *out*.

        Raises:
            BadRecordError: at a line that is malformed, after those before it were appended.
        """

    def read(self, n: int, out: list[Element], sizes: list[int]) -> None:
        """See `RecordReader.read`."""
        lines, self._waiting = self._waiting[:n], self._waiting[n:]
        lines = lines or ([] if self._is_past else self._lines(n))
        try:
            self.elements(lines, out)
        except BadRecordError:
            self._waiting = lines[len(out) :] + self._waiting
            lines = lines[: len(out)]
            raise
        finally:
            sizes += map(len, lines)

    def _lines(self, n: int) -> list[bytes]:
        if self._broken is not None:
            raise self._broken
        lines: list[bytes] = []
        try:
            self._take(n, lines)
        except Exception as exc:
            if not lines or is_interrupt(exc):
                raise
            self._broken = exc
        stop = self.end
        if stop is None or self.byte + sum(map(len, lines)) <= stop:
            return lines
        at, kept = self.byte, list[bytes]()
        for line in lines:
            if at > stop:
                self._is_past = True
                break
            kept.append(line)
            at += len(line)
        return kept

    def _take(self, n: int, lines: list[bytes]) -> None:
        """Append up to *n* lines to *lines*, of which few begin behind the part."""
        if (stop := self.end) is None:
            lines.extend(islice(self.file, n))
            return
        left, at = stop - self.byte, 0
        while len(lines) < n and at <= left:
            # Of lines of about this length, so many are what is left, or a chunk.
            each = at // len(lines) + 1 if lines else CHUNK
            few, known = max(1, min(left - at, CHUNK) // each), len(lines)
            lines.extend(islice(self.file, min(few, n - known)))
            if len(lines) == known:
                break
            at += sum(map(len, lines[known:]))

    def move(self, place: Place) -> None:
        """See `PartReader.move`."""
        super().move(place)
        self._waiting, self._broken, self._is_past = [], None, False

    def pass_over(self, size: int) -> None:
        """See `PartReader.pass_over`."""
        super().pass_over(size)
        self._waiting = self._waiting[1:]
