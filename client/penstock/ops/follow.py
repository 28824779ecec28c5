"""`follow`: the elements of a saved dataset while it is written, up to its end.

Elements have numbers, so it does not matter if other files have them in a newer version. Workers
divide the numbers without an end. One that draws numbers from the end of the save on is done.

State: that of `penstock.ops.internal.unit_cursor`, and the id of the save.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from penstock.element import Element
from penstock.engine.context import Context
from penstock.engine.iterator import ByNumber, Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block, elements_of
from penstock.errors import MissingFile, SaveIncomplete, WaitedTooLong
from penstock.executors.function import transform_error
from penstock.file_parts import FilePart
from penstock.files import missing
from penstock.graph.node import UNKNOWN, Node
from penstock.ops.internal.unit_cursor import Units
from penstock.ops.load import ChunkReader
from penstock.protocol.definition import ENDLESS
from penstock.protocol.recording import SaveStage
from penstock.runtime.interrupts import interruptible
from penstock.saved.chunk_reader import ChunkFile, replaced
from penstock.saved.chunks import ChunkContents
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersion, SavedVersions
from penstock.stored_file import is_url

_LOOK, _LOOK_AT_STORE = 0.05, 0.5
"""Seconds between two looks for a new version; a store charges for each one."""


@dataclass(frozen=True, eq=False)
class Follow(Node):
    """The elements of the saved dataset at *path*; it waits up to *timeout* seconds for more.

    With *count*, it is those of the save *save_id* up to that number, which are all committed.
    """

    op: ClassVar[str] = "follow"
    path: str
    timeout: float | None
    count: int | None = None
    save_id: str = ""

    @property
    def cardinality(self) -> int:
        """See `Node.cardinality`."""
        return UNKNOWN if self.count is None else self.count

    def units(self) -> int:
        """See `Node.units`."""
        return ENDLESS if self.count is None else self.count

    def by_number(self) -> ByNumber | None:
        """See `Node.by_number`."""
        return None if self.count is None else _FollowIterator(self, Context.local(0), None).fetch

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _FollowIterator(self, context, state)


class _FollowIterator(RowsIterator):
    def __init__(self, node: Follow, context: Context, state: State) -> None:
        self._node = node
        self._folder = folder_of("load", node.path)
        self._versions = SavedVersions("load", self._folder)
        self._version: SavedVersion | None = None
        *units, save_id = state or (node.save_id,)
        self._units = Units(context, node.units(), units or None)
        self._save_id: str = save_id
        """Of the save that is followed; empty until there is one."""
        self._ends: NDArray[np.int64] = np.empty(0, np.int64)
        """For each file of the version, the number after its last element."""
        self._contents: tuple[ChunkContents, ...] = ()
        """What each file of the version has."""
        self._reader: ChunkReader | None = None
        self._next = 0
        """The number of the element that the reader gives next."""
        self._closed = False

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        start, stop = self._units.take(n)
        taken = 0
        try:
            block = self._at(start, stop - start) if start < stop else []
            taken = len(block)
        except _ChunkError as exc:
            taken = exc.end - start
            raise exc.error from exc.__cause__
        finally:
            self._units.put_back(stop - start)
            if taken:
                self._units.take(taken)
        return block

    def fetch(self, numbers: NDArray[np.int64]) -> tuple[list[Element], Any]:
        """See `penstock.engine.iterator.ByNumber`."""
        found: list[Element] = []
        for number in numbers.tolist():
            try:
                found += elements_of(self._at(number, 1))
            except _ChunkError as exc:
                return found, exc.error
        return found, None

    def _at(self, start: int, n: int) -> Block:
        """Return up to *n* elements from number *start* on, as soon as there are some."""
        if self._next != start:
            self._leave()
        while self._reader is not None or self._is_there(start):
            number = self._file_of(start)
            try:
                if self._reader is None:
                    self._reader = interruptible(self._opened, number, start)
                block = interruptible(self._reader.rows, n)
            except Exception as exc:  # noqa: BLE001  each store has its own errors
                self._fail(exc, number, start)
            else:
                if len(block):
                    self._next = start + len(block)
                    return block
                self._leave()
        return []

    def _fail(self, exc: Exception, number: int, start: int) -> None:
        """Raise the error of a file, unless the elements from *start* on are in another one now."""
        name, reader = self._file(number)[0], self._reader
        where = f" ({reader.describe()})" if reader else ""
        self._leave()
        newest = self._versions.latest(self._version)
        if newest is not None and newest is not self._version:
            self._use(newest)
            if start < self._ends[-1] and self._file(self._file_of(start))[0] != name:
                return
        end = int(self._ends[number])
        if isinstance(exc, FileNotFoundError):
            raise _ChunkError(missing("load", name), end) from exc
        error = transform_error(f"follow({name})", start, exc)
        raise _ChunkError(error.but(detail=f"{error.detail}{where}"), end) from exc

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        below, save_id = self._units.mark(), self._save_id
        return lambda back: [*below(back), save_id]

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        self._leave()

    def _leave(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _is_there(self, start: int) -> bool:
        """Wait for the element *start*; return False if the save has ended before it."""
        began = time.monotonic()
        while not self._closed:
            version = self._version
            if version is not None:
                if start < version.manifest.elements:
                    return True
                if version.manifest.stage is SaveStage.COMPLETE:
                    return False
            newer = self._newer(began)
            if newer is not None and newer is not version:
                self._use(newer)
                began = time.monotonic()  # something new was written, though not this element
        return False

    def _use(self, version: SavedVersion) -> None:
        """Read *version* from now on, if it is of the save that is followed."""
        self._check_same(version)
        self._version, self._contents = version, version.contents
        self._ends = np.cumsum([one.count for one in self._contents], dtype=np.int64)

    def _newer(self, began: float) -> SavedVersion | None:
        """Return a newer version; or, after a pause, the same, if its save goes on."""
        newest = self._versions.latest(self._version)
        if newest is self._version:
            if newest is not None:
                check_goes_on(self._node.path, newest)
            waited, limit = time.monotonic() - began, self._node.timeout
            if limit is not None and waited > limit:
                what = "nothing new was" if newest else "there is no saved dataset that was"
                raise WaitedTooLong(
                    f"load: {what} written to {self._node.path} for {waited:.1f} s: see whether "
                    "its save still runs, or give a longer timeout"
                )
            time.sleep(_LOOK_AT_STORE if is_url(self._node.path) else _LOOK)
        return newest

    def _check_same(self, newest: SavedVersion) -> None:
        """Check that *newest* is a version of the save that is followed."""
        found = newest.manifest.save_id
        if self._save_id and found != self._save_id:
            raise replaced(self._node.path)
        self._save_id = found

    def _opened(self, number: int, start: int) -> ChunkReader:
        """Return a reader of file *number*, at the element *start*."""
        name, contents = self._file(number)
        row, group = start - int(self._ends[number]) + contents.count, 0
        while row >= contents.groups[group].count:
            row, group = row - contents.groups[group].count, group + 1
        part: Any = FilePart(name)
        file = ChunkFile(part, contents, cast("SavedVersion", self._version))
        return ChunkReader(file, part, contents, (group, row))

    def _file_of(self, start: int) -> int:
        """Return which file of the version has the element *start*."""
        return int(np.searchsorted(self._ends, start, side="right"))

    def _file(self, number: int) -> tuple[str, ChunkContents]:
        version = cast("SavedVersion", self._version)
        return self._folder.file(version.name(number)), self._contents[number]


class _ChunkError(Exception):
    """The *error* of a file whose last element has the number before *end*."""

    def __init__(self, error: Exception, end: int) -> None:
        self.error, self.end = error, end


def check_goes_on(path: str, version: SavedVersion) -> None:
    """Check that the save that wrote *version* has not ended before all elements were written.

    Raises:
        SaveIncomplete: when it has.
        MissingFile: when its elements were removed.
    """
    manifest = version.manifest
    if manifest.stage is SaveStage.FAILED:
        raise SaveIncomplete(
            f"load: the save to {path} failed after {manifest.elements:,} elements: "
            f"{manifest.error}. The same save continues it; at={manifest.version} reads what there "
            "is"
        )
    if manifest.stage is SaveStage.CANCELLED:
        raise SaveIncomplete(
            f"load: the save to {path} was cancelled after {manifest.elements:,} elements: the "
            f"same save continues it; at={manifest.version} reads what there is"
        )
    if manifest.stage is SaveStage.REMOVED:
        raise MissingFile(
            f"load: `penstock saves gc` removed the elements of {path}: run the pipeline that made "
            "them, which writes them again"
        )
