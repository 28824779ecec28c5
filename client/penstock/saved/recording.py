"""Makes versions of a saved dataset of the receipts that `write_chunks` gives.

A version is committed together with the position after its last receipt. So after any crash,
saving goes on after the elements that are committed. The others are made and written again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from penstock.engine.rows import Block
from penstock.errors import DatasetError, Superseded, describe
from penstock.frames.columns import Alike
from penstock.protocol.recording import SaveStage
from penstock.saved.chunk_format import ChunkWriter, rows_of
from penstock.saved.chunks import ChunkContents
from penstock.saved.folder import SaveFolder
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import (
    DATA,
    SavedVersion,
    SavedVersions,
    chunk_name,
)
from penstock.saved.receipts import ChunkTold, new_name, told_name
from penstock.saved.taken import RowRun, TakenRows, runs_of
from penstock.saved.upkeep import leftovers, lost

log = logging.getLogger("penstock")

_AT_FIRST, _SHARE = 0.2, 0.05
"""The seconds that commits may take at first, and their share of the time."""
_PAUSE, _MOST = 0.001, 10.0
"""The share of the time that passes between two commits, and the most seconds."""


class Receipts(Protocol):
    """What gives receipts, block by block."""

    def block(self) -> Block:
        """Return the next receipts; none at the end."""

    def state(self) -> Any:
        """Return the position after the last one."""


class Position(msgspec.Struct):
    """Where saving goes on."""

    state: Any = None
    """Of the iterator over receipts."""
    going_on: list[RowRun] = []
    """Rows that were taken, of chunks of which more rows may follow."""


def position_of(version: SavedVersion) -> Position:
    """Return where saving goes on after *version*."""
    return msgspec.convert(version.manifest.position or {}, Position)


class Recording:
    """Adds versions after *version*, until the receipts end."""

    def __init__(
        self, folder: SaveFolder, version: SavedVersion, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.version = version
        """The last one that is committed."""
        self._folder, self._clock = folder, clock
        self._versions = SavedVersions("save", folder)
        ordered = version.manifest.options.order == "split"
        self._taken = TakenRows(ordered=ordered, going_on=position_of(version).going_on)
        self._began = self._committed = clock()
        self._spent = 0.0
        """Seconds that commits have taken."""

    def run(self, receipts: Receipts, is_cancelled: Callable[[], bool]) -> None:
        """Take all receipts, and commit the last version.

        Raises:
            Superseded: when another process commits versions of this dataset.
            PenstockError: each error of the receipts; it is in the last version, too.
        """
        try:
            # A call that cancels may come before there are receipts that it could close.
            while not is_cancelled() and len(block := receipts.block()):
                for run in runs_of(block):
                    self._taken.take(run)
                if self._taken.has_ended and self._is_due():
                    self._commit(receipts)
            if not is_cancelled():
                self._complete(receipts)
        except Exception as exc:
            if not is_cancelled():
                self._commit_failure(exc)
                raise
        if is_cancelled() and self.version.manifest.stage is not SaveStage.COMPLETE:
            self._add((), stage=SaveStage.CANCELLED)

    def _complete(self, receipts: Receipts) -> None:
        with self._folder.reading("save", DATA):
            gone = lost(self._folder, self.version)
        if gone:
            raise DatasetError(
                f"save: {self._folder.file(gone[0])} is gone: someone deleted {len(gone):,} files "
                "while elements were written; delete the folder, and save again"
            )
        self._taken.end_all()
        self._commit(receipts, SaveStage.COMPLETE)
        self.clean()

    def _is_due(self) -> bool:
        """Return whether to commit now: commits may take a small part of the time."""
        now = self._clock()
        taken = now - self._began
        pause = min(_MOST, _PAUSE * taken)
        return now - self._committed >= pause and self._spent <= _AT_FIRST + _SHARE * taken

    def _commit(self, receipts: Receipts, stage: SaveStage = SaveStage.OPEN) -> None:
        began = self._clock()
        if self._versions.latest(self.version) is not self.version:
            raise self._superseded()
        chunks: list[ChunkContents] = []
        layout, runs = self.version.manifest.layout, self._taken.ended()
        for run in runs:
            contents, its = self._placed(run, len(self.version.chunks) + len(chunks))
            if layout and its != layout:
                raise DatasetError(_unlike(layout, its))
            layout = its
            chunks.append(contents)
        position = None
        if stage is not SaveStage.COMPLETE:
            position = msgspec.to_builtins(Position(receipts.state(), self._taken.going_on()))
        self._add(tuple(chunks), stage=stage, layout=layout, position=position, error="")
        # Until now, a crash would have made the version before need them.
        whole = [run.chunk for run in runs if run.is_whole]
        self._delete([name(chunk) for chunk in whole for name in (new_name, told_name)])
        self._spent += self._committed - began

    def _add(self, chunks: tuple[ChunkContents, ...], **changes: Any) -> None:
        following = self.version.following(chunks, **changes)
        if not self._versions.commit(following):
            raise self._superseded()
        self.version, self._committed = following, self._clock()

    def _superseded(self) -> Superseded:
        return Superseded(
            f"save: another process writes {self._folder.path}: it continues this save"
        )

    def _commit_failure(self, exc: Exception) -> None:
        """Commit a version that has the error, with the position of the version before."""
        if isinstance(exc, Superseded):
            return
        try:
            self._add((), stage=SaveStage.FAILED, error=describe(exc))
        except Superseded as newer:  # who completes a save deletes files that others still need
            raise newer from exc
        except Exception:
            log.exception("save: the error could not be written to %s", self._folder.path)

    def _placed(self, run: RowRun, number: int) -> tuple[ChunkContents, str]:
        """Give the rows of *run* their place as chunk *number*; return what it has."""
        options = self.version.manifest.options
        suffix = options.chunk_format.suffix
        if run.is_whole:
            told = msgspec.json.decode(run.told, type=ChunkTold)
            name = chunk_name(number, told.contents, suffix)
            with self._folder.writing(name):
                self._folder.copy(new_name(run.chunk), name)
            return told.contents, told.layout
        told = msgspec.json.decode(self._new_file(told_name(run.chunk)), type=ChunkTold)
        data, layout = self._new_file(new_name(run.chunk)), SavedLayout.from_text(told.layout)
        writer = ChunkWriter(options.chunk_format, layout, options.compression)
        rows = range(run.start, run.stop)
        taken = rows_of(options.chunk_format, layout, told.contents, data, rows)
        writer.add(taken, 1 << 62)
        cut, contents = writer.finish()
        name = chunk_name(number, contents, suffix)
        with self._folder.writing(name):
            self._folder.write(name, cut)
        return contents, told.layout

    def _new_file(self, name: str) -> bytes:
        """Return what the file *name* of a new chunk has."""
        with self._folder.reading("save", name):
            data = self._folder.read(name)
        if data is None:
            raise DatasetError(f"save: {self._folder.file(name)} is gone")
        return data

    def clean(self) -> None:
        """Delete what crashes have left in the folder of a complete dataset."""
        try:
            self._delete(leftovers(self._folder, self.version))
        except (OSError, DatasetError) as exc:
            log.warning("save: %s could not be tidied: %s", self._folder.path, exc)

    def _delete(self, names: list[str]) -> None:
        """Delete files that no version needs. If one cannot be deleted, the elements are there."""
        for name in names:
            try:
                self._folder.delete(name)
            except OSError as exc:
                log.warning("save: %s could not be deleted: %s", self._folder.file(name), exc)


def _unlike(layout: str, other: str) -> str:
    first, second = (SavedLayout.from_text(text) for text in (layout, other))
    kinds = zip(first.names, first.kinds, second.kinds, strict=False)
    differ = [
        f"{name} is {_told(a)} in one and {_told(b)} in the other" for name, a, b in kinds if a != b
    ]
    return (
        "save: elements of two chunks are not alike: "
        + (differ[0] if differ else "they have other structures")
        + "; map all elements to one structure and dtype"
    )


def _told(kind: Alike) -> str:
    return " ".join(map(str, kind.plain()))
