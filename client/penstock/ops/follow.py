"""`follow`: the elements of a saved dataset while it is written, up to its end.

State: ``[chunk, group, row, save]``: where the next element is, and the id of the save.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, cast

from penstock.engine.context import Context
from penstock.engine.iterator import Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.errors import MissingFile, SaveIncomplete, WaitedTooLong
from penstock.executors.function import transform_error
from penstock.file_parts import FilePart
from penstock.files import missing
from penstock.graph.node import Node
from penstock.ops.internal.file_parts import START, Place
from penstock.ops.load import ChunkReader
from penstock.protocol.recording import SaveStage
from penstock.runtime.interrupts import interruptible
from penstock.saved.chunk_reader import ChunkFile, replaced
from penstock.saved.folder import folder_of
from penstock.saved.manifest import SavedVersion, SavedVersions
from penstock.stored_file import is_url

_LOOK, _LOOK_AT_STORE = 0.05, 0.5
"""Seconds between two looks for a new version; a store charges for each one."""


@dataclass(frozen=True, eq=False)
class Follow(Node):
    """The elements of the saved dataset at *path*; it waits up to *timeout* seconds for more."""

    op: ClassVar[str] = "follow"
    path: str
    timeout: float | None

    def open(self, context: Context, state: State) -> OpIterator:  # noqa: ARG002  it reads one place
        """See `Node.open`."""
        return _FollowIterator(self, state)


class _FollowIterator(RowsIterator):
    def __init__(self, node: Follow, state: State) -> None:
        self._node = node
        self._folder = folder_of("load", node.path)
        self._versions = SavedVersions("load", self._folder)
        self._version: SavedVersion | None = None
        chunk, group, row, save_id = state or (0, *START, "")
        self._chunk: int = chunk
        self._save_id: str = save_id
        """Of the save that is followed; empty until there is one."""
        self._place: Place = (group, row)
        self._reader: ChunkReader | None = None
        self._closed = False

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        while self._reader is not None or self._open():
            try:
                block = interruptible(self._reader.rows, n) if self._reader else []
            except Exception as exc:  # noqa: BLE001  each store has its own errors
                self._fail(exc, self._reader)
            if len(block):
                return block
            self._next()
        return []

    def _fail(self, exc: Exception, reader: ChunkReader | None) -> NoReturn:
        """Raise the error of a chunk; the element after it is the first one of the next chunk."""
        number, where = self._chunk, f" ({reader.describe()})" if reader else ""
        name = self._name(number)
        self._next()
        if isinstance(exc, FileNotFoundError):
            self._check_same(self._versions.latest())
            raise missing("load", name) from exc
        error = transform_error(f"follow({name})", number, exc)
        raise error.but(detail=f"{error.detail}{where}") from exc

    def _next(self) -> None:
        self._leave()
        self._chunk, self._place = self._chunk + 1, START

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        chunk, before, save_id = self._chunk, self._place, self._save_id
        if self._reader is None:
            return lambda _: [chunk, *before, save_id]
        place = self._reader.place()
        return lambda back: [chunk, *place(back), save_id]

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._closed = True
        self._leave()

    def _leave(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _open(self) -> bool:
        """Open the next chunk, once it is there; return whether there is one."""
        began = time.monotonic()
        while not self._closed:
            version = self._version
            if version is not None and self._chunk < len(version.chunks):
                try:
                    self._reader = interruptible(self._opened, version)
                except Exception as exc:  # noqa: BLE001  each store has its own errors
                    self._fail(exc, None)
                return True
            if version is not None and version.manifest.stage is SaveStage.COMPLETE:
                return False
            self._version = self._newer(began)
        return False

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
        elif newest is not None:
            self._check_same(newest)
        return newest

    def _check_same(self, newest: SavedVersion | None) -> None:
        """Check that *newest* is a version of the save that is followed."""
        found = newest.manifest.save_id if newest else ""
        if self._save_id and found != self._save_id:
            raise replaced(self._node.path)
        self._save_id = found

    def _opened(self, version: SavedVersion) -> ChunkReader:
        contents = version.chunks[self._chunk]
        part: Any = FilePart(self._name(self._chunk))
        file = ChunkFile(part, contents, version)
        return ChunkReader(file, part, contents, self._place)

    def _name(self, number: int) -> str:
        """Return the name of the file of chunk *number* of the version that was seen."""
        return self._folder.file(cast("SavedVersion", self._version).name(number))


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
