"""The elements of one folder of a snapshot: read if they are there, else made and written.

A folder has the elements of a whole pass, or those of one split. Element k of it is the same
whoever makes it.

State of a whole pass: ``[number, errors, the input's state, save]``: how many elements and errors
there were; and while elements are made, the position of the input and the id of the saved dataset
that gets them. With these, a process can continue although the folder has changed. State of a
split: ``[number, errors]``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.element import Element, own_nest, read_only
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OpIterator, RowsIterator, State
from penstock.engine.rows import Block
from penstock.errors import ElementError, MissingFile, PenstockError, Superseded
from penstock.ops.internal.saved_rows import SavedRows
from penstock.protocol.definition import PipelineOutline
from penstock.protocol.recording import SaveStage
from penstock.runtime.interrupts import is_interrupt
from penstock.saved.chunk_reader import DamagedError
from penstock.saved.folder import SaveFolder
from penstock.saved.manifest import FOLDER, SavedVersion, SavedVersions, SaveOptions
from penstock.saved.recording import position_of
from penstock.saved.write_through import WriteThrough, nothing_yet

log = logging.getLogger("penstock")


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of a snapshot, and how its elements are made."""

    folder: SaveFolder
    outline: PipelineOutline
    options: SaveOptions
    open: Callable[[State], OpIterator]
    """Opens the input."""
    is_split: bool
    """Whether these are the elements of one split: then states of the input mean nothing to other
    tasks, and a split that was begun is made again from its start."""


class KeptStream(RowsIterator):
    """The elements of *kept*, from *state* on."""

    def __init__(self, kept: Kept, state: State) -> None:
        self._kept = kept
        self._versions = SavedVersions("snapshot", kept.folder)
        self._stored: SavedRows | None = None
        """Set while elements are read."""
        self._input: OpIterator | None = None
        """Set while elements are made."""
        self._writer: WriteThrough | None = None
        """Set while they are written, too."""
        self._lock = threading.Lock()
        """Held while the writer works."""
        self._known = 0
        """How many elements are made first that the caller has."""
        self._known_errors = 0
        self._end: State = None
        """The input's state at the end, once it has been made up to there."""
        number, errors, *rest = state or [0, 0]
        self._number: int = number
        """Of the next element."""
        self._errors: int = errors
        """How many elements have failed: these have no number."""
        self._begin(*rest)

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        while self._stored is not None:
            if len(block := self._read(self._stored, n)):
                self._number += len(block)
                return block
        while self._input is not None:
            if made := self._make(self._input, n):
                return made
        return []

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, errors, end = self._number, self._errors, self._end
        if self._kept.is_split:
            return lambda back: [number - back, errors]
        if self._input is None:
            return lambda back: [number - back, errors, end, ""]
        below = self._input.mark()
        save_id = self._writer.version.manifest.save_id if self._writer else ""
        return lambda back: [number - back, errors, below(back), save_id]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Elements that are not stored are made and written."""
        if self._stored is None:
            return super().skip(n)
        version = self._stored.version
        left = min(n, version.manifest.elements - self._number)
        self._number += left
        self._read_from(version)
        return left + (super().skip(n - left) if n > left else 0)

    def close(self) -> None:
        """See `OpIterator.close`. The next pass can continue after the written elements."""
        if self._lock.acquire(blocking=False):  # else another thread is in `rows`
            try:
                self._pause()
            finally:
                self._lock.release()
        if self._stored is not None:
            self._stored.close()
        if self._input is not None:
            self._input.close()

    def _begin(self, below: State = None, save_id: str = "") -> None:
        latest, number = self._latest(), self._number
        stored = latest.manifest.elements if latest else 0
        is_complete = latest is not None and latest.manifest.stage is SaveStage.COMPLETE
        if latest and not self._errors and (is_complete or number < stored):
            self._read_from(latest)
        elif self._kept.is_split:
            self._write_after(None if is_complete else latest)
        elif not self._errors and (number == stored or _id(latest) == (save_id or None)):
            self._write_after(latest)
        else:
            self._only_make(below)

    def _latest(self) -> SavedVersion | None:
        """Return the newest version; None if there is none, or one that it needs is gone."""
        folder = self._kept.folder
        try:
            return self._versions.latest()
        except MissingFile as exc:
            log.warning("%s. It is written again", exc)
        for name in reversed(folder.names(FOLDER)):
            folder.delete(f"{FOLDER}/{name}")
        return None

    def _read_from(self, version: SavedVersion) -> None:
        if self._stored is not None:
            self._stored.close()
        self._stored = SavedRows(self._kept.folder, version, self._number)

    def _write_after(self, version: SavedVersion | None) -> None:
        """Make the elements after those of *version*, and write them."""
        kept = self._kept
        version = version or nothing_yet(kept.outline, kept.options)
        self._known = self._number - version.manifest.elements
        self._known_errors = self._errors
        self._input = kept.open(position_of(version).state)
        self._writer = WriteThrough(kept.folder, version, in_steps=not kept.is_split)

    def _only_make(self, below: State) -> None:
        self._input = self._kept.open(below)
        if below is None:
            self._input.skip(self._number)

    def _read(self, stored: SavedRows, n: int) -> Block:
        """Read elements; none if they are made from now on, or at the end."""
        try:
            block = stored.rows(n)
        except Exception as exc:
            if is_interrupt(exc):
                raise
            self._lose(stored.version, exc)
            return []
        if not len(block):
            stored.close()
            self._stored = None
            if stored.version.manifest.stage is not SaveStage.COMPLETE:
                self._begin()
        return block

    def _lose(self, version: SavedVersion, exc: Exception) -> None:
        """Make the elements again that cannot be read."""
        log.warning(
            "snapshot: what is in %s cannot be read, and is made again: %s",
            self._kept.folder.path,
            exc,
        )
        if self._stored is not None:
            self._stored.close()
        self._stored = None
        if isinstance(exc, (DamagedError, FileNotFoundError)):  # also the next time
            empty = nothing_yet(self._kept.outline, self._kept.options).manifest
            with suppress(PenstockError, OSError):  # then later passes meet it, too
                self._versions.commit(version.replaced_by(empty))
        self._only_make(None)

    def _make(self, source: OpIterator, n: int) -> list[Element]:
        """Make elements; none if all of the block come before those wanted, or at the end."""
        try:
            block = list(map(read_only, source.block(n)))
        except ELEMENT_ERRORS as exc:
            self._stop_writing(exc)
            if self._known_errors:
                self._known_errors -= 1
                return []
            self._errors += 1
            raise
        with self._lock:
            self._write(block, source)
        if not block:
            self._end, self._input = source.mark()(0), None
            source.close()
        wanted = block[self._known :]
        self._known -= len(block) - len(wanted)
        self._number += len(wanted)
        return list(map(own_nest, wanted))

    def _write(self, block: list[Element], source: OpIterator) -> None:
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            if block:
                writer.add(block, source.mark())
                self._writer = writer
            else:
                writer.complete()
        except Superseded:
            log.info("snapshot: another process writes %s", self._kept.folder.path)
        except ElementError as exc:
            self._writer = writer
            self._pause()
            self._say_unwritten(exc)
        except (PenstockError, OSError) as exc:
            self._say_unwritten(exc)

    def _pause(self) -> None:
        """Write what the writer has, and no more."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.pause()
        except Superseded:
            pass
        except (PenstockError, OSError) as exc:
            self._say_unwritten(exc)

    def _stop_writing(self, exc: Exception) -> None:
        with self._lock:
            if self._writer is not None:
                self._pause()
                self._say_unwritten(exc)

    def _say_unwritten(self, why: Any) -> None:
        log.warning(
            "snapshot: %s gets no more elements in this pass, which makes them as without a "
            "snapshot: %s",
            self._kept.folder.path,
            why,
        )


def _id(version: SavedVersion | None) -> str:
    return version.manifest.save_id if version else ""
