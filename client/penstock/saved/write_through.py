"""Writes elements into a saved dataset while they pass on to their reader.

Element k is the same whoever makes it, so it does not matter which process writes a version. If
several write at once, the first manifest of a version counts, and the others stop writing.

A thread stores a chunk while the elements of the next one pass.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from penstock.element import Element
from penstock.errors import ElementError, Superseded
from penstock.protocol.definition import PipelineOutline
from penstock.protocol.recording import SaveStage
from penstock.saved.chunk_format import ChunkWriter
from penstock.saved.chunks import ChunkContents
from penstock.saved.folder import SaveFolder
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import (
    Manifest,
    SavedVersion,
    SavedVersions,
    SaveOptions,
    chunk_name,
)
from penstock.saved.upkeep import leftovers

_CHUNK_SECONDS = 10.0
"""A chunk ends after this time, so that a process that dies loses little."""


def nothing_yet(outline: PipelineOutline, options: SaveOptions) -> SavedVersion:
    """Return version 0 of a new saved dataset: it has no elements, and no file."""
    made = Manifest(
        version=0, save_id=secrets.token_hex(8), outline=outline, options=options, is_cache=True
    )
    return SavedVersion(made, ())


class WriteThrough:
    """Adds elements after *version*.

    With *in_steps*, a version is committed after each chunk, with the position of the input, so
    that another process can continue. Otherwise, one version has all elements.
    """

    def __init__(
        self,
        folder: SaveFolder,
        version: SavedVersion,
        *,
        in_steps: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.version = version
        """The last one that is committed."""
        self._folder, self._in_steps, self._clock = folder, in_steps, clock
        self._versions = SavedVersions("snapshot", folder)
        self._options = version.manifest.options
        text = version.manifest.layout
        self._layout = SavedLayout.from_text(text) if text else None
        self._writer: ChunkWriter | None = None
        self._began = 0.0
        """When the chunk began."""
        self._written: list[ChunkContents] = []
        """Chunks that no version has."""
        self._position: Callable[[], Any] = lambda: version.manifest.position
        """Of the input, after the last element."""
        self._storing: threading.Thread | None = None
        self._failure: Exception | None = None
        """The error of that thread."""

    def add(self, elements: Sequence[Element], mark: Callable[[int], Any]) -> None:
        """Add *elements*; *mark* is that of the input after them.

        Raises:
            ElementError: when an element is not like those before it, which are added.
            Superseded: when another process has committed the version of an earlier chunk.
            DatasetError: when an earlier chunk cannot be written.
        """
        while elements:
            if self._writer is None:
                self._layout = self._layout or SavedLayout.of(elements[0])
                options = self._options
                self._writer = ChunkWriter(options.chunk_format, self._layout, options.compression)
                self._began = self._clock()
            added = self._fitting(self._writer, elements)
            elements = elements[added:]
            self._position = partial(mark, len(elements))
            full = self._writer.nbytes >= self._options.chunk_bytes
            if full or self._clock() - self._began >= _CHUNK_SECONDS:
                self._end_chunk()

    def _fitting(self, writer: ChunkWriter, elements: Sequence[Element]) -> int:
        """Add the first of *elements*, up to one that is not like them; return how many."""
        size = len(elements)
        while True:
            try:
                return writer.add(elements[:size], self._options.chunk_bytes)
            except ElementError:
                if size == 1:
                    raise
                size //= 2

    def pause(self) -> None:
        """Commit what was added, so that it can be continued. Nothing runs after that.

        Raises:
            PenstockError: as `add`.
        """
        if self._in_steps and self._writer is not None:
            self._end_chunk()
        self._settle()

    def complete(self) -> None:
        """Commit the version that has all elements.

        Raises:
            PenstockError: as `add`.
        """
        self._settle()
        if self._writer is not None:
            self._write(self._writer)
        self._commit(SaveStage.COMPLETE, None)
        if self._in_steps:
            for name in leftovers(self._folder, self.version):
                self._folder.delete(name)

    def _end_chunk(self) -> None:
        """Store the chunk in a thread, once that of the chunk before has ended."""
        self._settle()
        given = self._writer, self._position() if self._in_steps else None
        self._writer = None
        self._storing = threading.Thread(
            target=self._store, args=given, name="penstock-snapshot", daemon=True
        )
        self._storing.start()

    def _settle(self) -> None:
        """Wait until all chunks that have ended are stored."""
        if self._storing is not None:
            self._storing.join()
            self._storing = None
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _store(self, writer: ChunkWriter, position: Any) -> None:
        try:
            self._write(writer)
            if self._in_steps:
                self._commit(SaveStage.OPEN, position)
        except Exception as exc:  # noqa: BLE001  it is raised in the thread that adds
            self._failure = exc

    def _write(self, writer: ChunkWriter) -> None:
        data, contents = writer.finish()
        name = self._name(contents)
        with self._folder.writing(name):
            self._folder.write(name, data)
        self._written.append(contents)

    def _name(self, contents: ChunkContents) -> str:
        number = len(self.version.chunks) + len(self._written)
        return chunk_name(number, contents, self._options.chunk_format.suffix)

    def _commit(self, stage: SaveStage, position: Any) -> None:
        layout = self._layout.to_text() if self._layout else ""
        following = self.version.following(
            tuple(self._written), stage=stage, layout=layout, position=_plain(position)
        )
        if not self._is_there() or not self._versions.commit(following):
            self._drop(following)
            raise Superseded(f"snapshot: another process writes or deletes {self._folder.path}")
        self.version, self._written = following, []

    def _is_there(self) -> bool:
        """Return whether nobody has deleted the last version, on which the next one builds."""
        now = self.version.manifest
        return now.version == 0 or self._folder.read(now.name) is not None

    def _drop(self, lost: SavedVersion) -> None:
        """Delete those chunks of the *lost* version that the winner does not have."""
        winner = self._versions.latest()
        its = set(winner.names if winner else ())
        for name in lost.names[len(self.version.chunks) :]:
            if name not in its:
                self._folder.delete(name)


def _plain(position: Any) -> Any:
    """Return a position of the writer's input in the form that `Recording` gives it."""
    return None if position is None else {"state": msgspec.to_builtins(position)}
