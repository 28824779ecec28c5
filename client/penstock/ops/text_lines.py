r"""`text_lines`: the lines of text files.

State: that of `penstock.ops.units`, counting files, and the byte in the file at which the next
line begins. Lines end with ``\n`` or ``\r\n``; bytes that are no UTF-8 become lone surrogates, from
which ``line.encode("utf-8", "surrogateescape")`` makes the same bytes again.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, ClassVar, NoReturn

from penstock import files
from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, State
from penstock.graph import UNKNOWN, FilePattern, Node
from penstock.ops.call import transform_error
from penstock.ops.units import Units

CHUNK = 1 << 18
"""How many bytes are read at a time."""


@dataclass(frozen=True, eq=False)
class TextLines(Node):
    """The lines of *files*, file after file."""

    op: ClassVar[str] = "text_lines"
    files: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", files.names("text_lines", "files", self.files))

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return UNKNOWN

    def units(self) -> FilePattern:
        """See `Node.units`."""
        return FilePattern(self.files, shuffle=False, seed=None, literal=True)

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        place, byte = (None, 0) if state is None else (state[:-1], state[-1])
        if context.draws:
            return _TextLinesIterator(Units(context, None, place), byte)
        units = Units(context, len(self.files), place, self.files)
        files.check_local("text_lines", self.files[place[0] if place else 0 :])
        return _TextLinesIterator(units, byte)


class _TextLinesIterator(OpIterator):
    def __init__(self, units: Units, byte: int) -> None:
        self._units, self._byte = units, byte
        self._file: BinaryIO | None = None
        """The file that was taken last from the units; None between files."""
        self._number, self._name = 0, ""
        self._failed: Exception | None = None
        """What is to be raised behind the lines that were read."""
        self._last: list[bytes] = []
        self._reading = self._closed = False

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`. Never crosses the end of a file."""
        self._last = []
        while self._file is not None or self._next_file():
            self._last = self._lines(n)
            if self._last:
                self._byte += sum(map(len, self._last))
                return list(map(_text, self._last))
            self._leave_file()
        return []

    def mark(self) -> Mark:
        """See `OpIterator.mark`. In a file, the place among the units is before it."""
        place, inside = self._units.mark(), int(self._file is not None)
        byte, last = self._byte, self._last

        def at(back: int) -> State:
            return [*place(inside), byte - sum(map(len, last[len(last) - back :]))]

        return at

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        # Closing a file waits for whoever reads it; then the reading thread closes it.
        if not self._reading:
            self._leave_file()

    def _next_file(self) -> bool:
        """Open the next file at the byte of the state; say False when there is none."""
        start, stop = self._units.take(1)
        if start == stop:
            return False
        self._number, (self._name,) = start, self._units.names(start, stop)
        try:
            self._file = files.open_file(self._name, CHUNK)
            self._file.seek(self._byte)
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            self._fail(exc)
        return True

    def _lines(self, n: int) -> list[bytes]:
        if self._failed is not None:
            self._fail(self._failed)
        lines: list[bytes] = []
        self._reading = True
        try:  # what was read before an error stays in the list
            lines.extend(islice(self._file or (), n))
        except Exception as exc:  # noqa: BLE001  each file system has its own errors
            if not lines:
                self._fail(exc)
            self._failed = exc
        finally:
            self._reading = False
            if self._closed:
                self._leave_file()
        return lines

    def _fail(self, exc: Exception) -> NoReturn:
        """Give the file up: what follows is the next one."""
        self._leave_file()
        if isinstance(exc, FileNotFoundError):
            raise files.missing("text_lines", self._name) from exc
        raise transform_error(f"text_lines({self._name})", self._number, exc) from exc

    def _leave_file(self) -> None:
        file, self._file, self._byte = self._file, None, 0
        self._failed = None
        if file is not None:
            file.close()


def _text(line: bytes) -> str:
    if line.endswith(b"\n"):
        line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
    return line.decode("utf-8", "surrogateescape")
