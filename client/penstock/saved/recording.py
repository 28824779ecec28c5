"""Makes versions of a saved dataset of the receipts that `write_chunks` gives.

A version is committed together with the position after its last receipt. So after any crash,
saving goes on after the elements that are committed. The others are made and written again.

If the elements have an order, the chunks depend on them alone (see `penstock.saved.pieces`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from itertools import chain
from typing import Any, Protocol

import msgspec

from penstock.element import Element
from penstock.engine.rows import Block
from penstock.errors import DatasetError, ElementError, Superseded, describe
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
from penstock.saved.pieces import Piece, as_one, finished
from penstock.saved.receipts import ChunkTold, begins_split, new_chunk, new_name, told_name
from penstock.saved.taken import RowRun, TakenRows, runs_of
from penstock.saved.tensor_file import TensorFormat
from penstock.saved.tensorflow_folder import publish
from penstock.saved.upkeep import leftovers, lost

log = logging.getLogger("penstock")

_AT_FIRST, _SHARE = 0.2, 0.05
"""The seconds that commits may take at first, and their share of the time."""
_PAUSE, _MOST = 0.001, 10.0
"""The share of the time that passes between two commits, and the most seconds."""


_LOOKS, _LOOK = 5, 0.02
"""After so many looks, so many seconds apart, without receipts, there is time for a commit."""


class Receipts(Protocol):
    """What gives receipts, block by block."""

    @property
    def waits(self) -> bool:
        """Whether `block` would wait for other processes."""

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
        going_on = position_of(version).going_on
        self._ordered = version.manifest.options.order == "split"
        self._taken = TakenRows(ordered=self._ordered, going_on=going_on)
        self._count = version.manifest.elements + sum(run.stop - run.start for run in going_on)
        """How many receipts were taken, of all elements."""
        self._began = self._committed = clock()
        self._published = 0
        """How many chunks TensorFlow's readers know of, if they are for them."""
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
            while not is_cancelled() and len(block := self._next(receipts)):
                for run in runs_of(block):
                    self._taken.take(run)
                if self._taken.has_ended and (self._is_due() or self._is_idle(receipts)):
                    self._commit(receipts)
            if not is_cancelled():
                self._complete(receipts)
        except Exception as exc:
            if not is_cancelled():
                self._commit_failure(exc)
                raise
        if is_cancelled() and self.version.manifest.stage is not SaveStage.COMPLETE:
            self._add((), stage=SaveStage.CANCELLED)

    def _next(self, receipts: Receipts) -> Block:
        """Return the next block of receipts; the error of an element says its number."""
        try:
            block = receipts.block()
        except ElementError as exc:
            if not self._ordered:
                raise
            raise type(exc)(f"save: element {self._count:,}: {exc}") from exc
        self._count += len(block)
        return block

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

    def _is_idle(self, receipts: Receipts) -> bool:
        """Return whether no receipts come for a moment, so that a commit delays none."""
        for _ in range(_LOOKS):
            if not receipts.waits:
                return False
            time.sleep(_LOOK)
        return receipts.waits

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
        layout, runs = self.version.manifest.layout, self._taken.ended()
        pieces = list(self.version.manifest.pieces)
        for run in runs:
            piece, its = self._piece(run)
            if layout and its != layout:
                old = len(self.version.manifest.pieces)
                before = sum(one.contents.count for one in pieces[old:])
                number = self.version.manifest.elements + before
                raise DatasetError(_unlike(layout, its, number))
            layout = its
            pieces.append(piece)
        done, *left = self._finished(pieces, is_over=stage is SaveStage.COMPLETE)
        first = len(self.version.chunks)
        chunks = tuple(self._chunk(first + i, its, layout) for i, its in enumerate(done))
        left = [self._as_few(its, layout, ended=i == 0) for i, its in enumerate(left)]
        kept = tuple(chain.from_iterable(left))
        position = None
        if stage is not SaveStage.COMPLETE:
            position = msgspec.to_builtins(Position(receipts.state(), self._taken.going_on()))
        changes = {"layout": layout, "position": position, "pieces": kept, "error": ""}
        self._add(chunks, stage=stage, **changes)
        # Until now, a crash would have made the version before need them.
        gone = {piece.number for piece in pieces} - {piece.number for piece in kept}
        self._delete([name(number) for number in gone for name in (new_name, told_name)])
        self._spent += self._committed - began

    def _finished(
        self, pieces: list[Piece], *, is_over: bool
    ) -> tuple[list[list[Piece]], list[Piece], list[Piece]]:
        options = self.version.manifest.options
        if options.order == "split":
            return finished(pieces, options.chunk_bytes, is_over=is_over)
        return [[piece] for piece in pieces], [], []

    def _as_few(self, pieces: list[Piece], layout: str, *, ended: bool) -> list[Piece]:
        """Return *pieces* with one in place of all that are new: versions list each of them."""
        known = {piece.number for piece in self.version.manifest.pieces}
        new = [piece for piece in pieces if piece.number not in known]
        if len(new) < 2:
            return pieces
        number = new_chunk(begins_split=begins_split(new[0].number))
        data, contents = self._merged(new, layout)
        name = new_name(number)
        with self._folder.writing(name):
            self._folder.write(name, data)
        return [*pieces[: -len(new)], as_one(number, contents, new, ended=ended)]

    def _add(self, chunks: tuple[ChunkContents, ...], **changes: Any) -> None:
        following = self.version.following(chunks, **changes)
        if not self._versions.commit(following):
            raise self._superseded()
        self.version, self._committed = following, self._clock()
        self._publish()

    def _publish(self) -> None:
        if self.version.manifest.options.format == TensorFormat.name:
            publish(self._folder, self.version, self._published)
        self._published = len(self.version.chunks)

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

    def _piece(self, run: RowRun) -> tuple[Piece, str]:
        """Return the piece that has the rows of *run*, and their layout."""
        told_text = run.told or self._new_file(told_name(run.chunk))
        told = msgspec.json.decode(told_text, type=ChunkTold)
        if run.is_whole:
            return Piece(run.chunk, told.contents, told.nbytes, told.ends), told.layout
        number = new_chunk(begins_split=begins_split(run.chunk) and not run.start)
        rows = self._rows(run.chunk, told.contents, told.layout, range(run.start, run.stop))
        data, contents = self._encoded(rows, told.layout)
        name = new_name(number)
        with self._folder.writing(name):
            self._folder.write(name, data)
        return Piece(number, contents, told.nbytes, told.ends and bool(run.told)), told.layout

    def _chunk(self, number: int, pieces: list[Piece], layout: str) -> ChunkContents:
        """Make *pieces* the chunk *number*; return what it has."""
        suffix = self.version.manifest.options.chunk_format.suffix
        if len(pieces) == 1:
            (piece,) = pieces
            name = chunk_name(number, piece.contents, suffix)
            with self._folder.writing(name):
                self._folder.copy(piece.name, name)
            return piece.contents
        data, contents = self._merged(pieces, layout)
        name = chunk_name(number, contents, suffix)
        with self._folder.writing(name):
            self._folder.write(name, data)
        return contents

    def _merged(self, pieces: list[Piece], layout: str) -> tuple[Any, ChunkContents]:
        """Return the bytes of the file that has the elements of *pieces*."""
        elements: list[Element] = []
        for piece in pieces:
            rows = range(piece.contents.count)
            elements += self._rows(piece.number, piece.contents, layout, rows)
        return self._encoded(elements, layout)

    def _encoded(self, elements: list[Element], layout: str) -> tuple[Any, ChunkContents]:
        """Return the bytes of the file that a worker would have written of *elements*."""
        options = self.version.manifest.options
        its = SavedLayout.from_text(layout)
        writer = ChunkWriter(options.chunk_format, its, options.compression)
        writer.add(elements, 1 << 62)
        return writer.finish()

    def _rows(
        self, number: int, contents: ChunkContents, layout: str, rows: range
    ) -> list[Element]:
        """Return *rows* of the new chunk *number*, which has *contents*."""
        chunk_format = self.version.manifest.options.chunk_format
        data = self._new_file(new_name(number))
        return rows_of(chunk_format, SavedLayout.from_text(layout), contents, data, rows)

    def _new_file(self, name: str) -> bytes:
        """Return what the file *name* of a new chunk has."""
        with self._folder.reading("save", name):
            data = self._folder.read(name)
        if data is None:
            raise DatasetError(f"save: {self._folder.file(name)} is gone")
        return data

    def clean(self) -> None:
        """Do for a complete dataset what crashes have left undone, and delete what they left.

        Write the index that other readers of its format need, if they need one.
        """
        self._publish()
        try:
            self._write_index()
            self._delete(leftovers(self._folder, self.version))
        except (OSError, DatasetError) as exc:
            log.warning("save: %s could not be tidied: %s", self._folder.path, exc)

    def _write_index(self) -> None:
        now, names = self.version.manifest, self.version.names
        chunk_format = now.options.chunk_format
        if not chunk_format.index_name or not names:
            return
        if self._versions.latest(self.version) is self.version:
            chunks = zip(
                (name.removeprefix(f"{DATA}/") for name in names), self.version.chunks, strict=True
            )
            index = chunk_format.index_file(SavedLayout.from_text(now.layout), chunks)
            self._folder.write(f"{DATA}/{chunk_format.index_name}", index)

    def _delete(self, names: list[str]) -> None:
        """Delete files that no version needs. If one cannot be deleted, the elements are there."""
        for name in names:
            try:
                self._folder.delete(name)
            except OSError as exc:
                log.warning("save: %s could not be deleted: %s", self._folder.file(name), exc)


def _unlike(layout: str, other: str, number: int) -> str:
    first, second = (SavedLayout.from_text(text) for text in (layout, other))
    kinds = zip(first.names, first.kinds, second.kinds, strict=False)
    differ = [f"{name} is {_told(b)}, and was {_told(a)}" for name, a, b in kinds if a != b]
    return (
        f"save: element {number:,} is not like those before it: "
        + (differ[0] if differ else "it has another structure")
        + "; map all elements to one structure and dtype"
    )


def _told(kind: Alike) -> str:
    return " ".join(map(str, kind.plain()))
