"""The records of elements that `ignore_errors` left out: files with one JSON object a line.

Each process appends to its own file, so any number of processes, on any hosts, may share a folder.
A record is written before any later element is made. If elements are replayed after a restore or a
crash, their records are written again. Records of one failure have the same *id*, and a process
does not repeat a record that it remembers.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock import files, stored_file
from penstock.engine import seeds
from penstock.errors import DatasetError, TransformError
from penstock.runtime.tracebacks import shortened, told

PART_CHARS = 1 << 16
"""Characters in a file, if files cannot be appended to; then another file is begun."""

REMEMBERED = 1 << 16
"""How many records a process remembers."""

LONGEST = 1 << 16
"""The most characters of a traceback; the middle of a longer one is left out."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The record of an element that was left out."""

    id: str
    """Equal for records of the same failure of the same element in the same pass."""
    time: str
    """When it was left out, in UTC, in ISO 8601 format."""
    source: str
    """The stage that failed, as error messages name it; with the file, if it reads files."""
    element: int
    """The number of the element, from 0, among the elements that *source* reads."""
    error: str
    """The name of the class of the exception."""
    message: str
    traceback: str
    """Where the user's code raised it."""
    input: str
    """The input of the function, as text that is cut short."""
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class ElementOrigin:
    """The stream that the elements belong to: see `penstock.engine.context.Context`."""

    base_seed: int
    path: str
    pass_key: int

    def key(self, number: int) -> str:
        """Return an id that only element *number* has."""
        return f"{seeds.derive(self.base_seed, self.path, self.pass_key, 'left out', number):016x}"


class DeadLetters:
    """The records of one run of `ignore_errors`, whose input is *stage*."""

    def __init__(self, folder: str, stage: str, stream: ElementOrigin) -> None:
        self._folder, self._stage, self._origin = folder, stage, stream
        self._unwritten: list[DeadLetter] = []

    def add(self, number: int, error: Exception) -> None:
        """Add a record of element *number* of the input; `write` writes it to the folder."""
        self._unwritten.append(letter_of(self._origin.key(number), self._stage, number, error))

    def write(self) -> None:
        """Write the records that were added and are not written yet.

        Raises:
            DatasetError: when a record cannot be written; it names the folder. Another call tries
                again.
        """
        while self._unwritten:
            _file_in(self._folder).write(self._unwritten[0])
            del self._unwritten[0]


def folder_of(op: str, given: Any) -> str:
    """Return the name of the folder that a user gave, made absolute.

    Raises:
        DatasetError: when it is not the name of a folder, or is that of a file.
    """
    if not isinstance(given, (str, os.PathLike)):
        raise DatasetError(f"{op}: log must be the path of a folder, not {given!r}")
    (name,) = files.names(op, "log", given)
    if not stored_file.is_url(name) and Path(name).is_file():
        raise DatasetError(
            f"{op}: log must be a folder, in which each process writes a file, and {name!r} is a "
            "file: give another name"
        )
    return name


def letter_of(
    key: str, stage: str, number: int, error: Exception, longest: int = LONGEST
) -> DeadLetter:
    """Return the record of element *number* of *stage*, with *key* as its id.

    Its texts have at most about *longest* characters.
    """
    source, raised, message, trace, given = stage, error, str(error), "", ""
    if isinstance(error, TransformError):
        source, number, message, _, trace, given = error.fields()
        raised = error.__cause__ if isinstance(error.__cause__, Exception) else error
    trace, message = shortened(trace or told(error), longest), shortened(message, longest)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    what = (source, number, type(raised).__name__, message, trace, given)
    return DeadLetter(key, now, *what, platform.node(), os.getpid())


class _File:
    """The file of one process in a folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        host = "".join(c if c.isalnum() or c in ".-" else "_" for c in platform.node())
        self._name = f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._written: dict[str, None] = {}
        self._part, self._text = 0, ""

    def write(self, letter: DeadLetter) -> None:
        """Write *letter*, unless it was already written."""
        line = json.dumps(asdict(letter)) + "\n"
        with self._lock:
            if letter.id in self._written:
                return
            try:
                if stored_file.is_url(self._folder):
                    self._put(line)
                else:
                    self._append(line)
            except Exception as exc:
                raise DatasetError(
                    f"ignore_errors: a record cannot be written into the folder "
                    f"{self._folder!r} ({type(exc).__name__}: {exc}): make room for it there, or "
                    "give another log; the next call tries again"
                ) from exc
            self._written[letter.id] = None
            if len(self._written) > REMEMBERED:
                del self._written[next(iter(self._written))]

    def _append(self, line: str) -> None:
        folder = Path(self._folder)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self._name}.jsonl").open("ab", buffering=0) as file:
            at, data = file.tell(), line.encode()
            if (count := file.write(data)) < len(data):
                file.truncate(at)  # or the next record would begin within this one
                raise OSError(f"{count} of {len(data)} bytes could be written")

    def _put(self, line: str) -> None:
        """Write the whole file again with *line* added; few file systems behind URLs can append."""
        from fsspec.core import url_to_fs  # noqa: PLC0415  slow to import, and rarely needed

        text = self._text + line
        fs, folder = url_to_fs(self._folder)
        fs.makedirs(folder, exist_ok=True)
        fs.pipe_file(f"{folder}/{self._name}-{self._part:04}.jsonl", text.encode())
        self._text = text
        if len(text) > PART_CHARS:
            self._part, self._text = self._part + 1, ""


_files: dict[tuple[int, str], _File] = {}
_finding = threading.Lock()


def _file_in(folder: str) -> _File:
    """Return this process's file in *folder*; a forked child has its own."""
    with _finding:
        return _files.setdefault((os.getpid(), folder), _File(folder))
