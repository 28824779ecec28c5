"""`write_chunks`: writes elements into chunks of a saved dataset; element k becomes receipt k.

A receipt ``(chunk, row, told)`` says in which chunk the element is, and in which row of it. The
last receipt of a chunk also has what the chunk's file has, as JSON; the others have nothing. All
receipts of a chunk come after its file is written. So whoever counts each receipt once has each
element once, however often chunks are written again.

State: that of the input.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import ClassVar, cast

import msgspec
import numpy as np

from penstock.element import Element, text_array
from penstock.engine.block_size import BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OneInputIterator, OpIterator, State
from penstock.engine.rows import Block, ColumnsOfBlock, Rows, elements_of
from penstock.errors import ElementError
from penstock.graph.node import Node
from penstock.saved.chunk_format import ChunkWriter
from penstock.saved.folder import folder_of
from penstock.saved.formats import FORMATS
from penstock.saved.layout import SavedLayout
from penstock.saved.receipts import ChunkTold, new_name, told_name

_MOST_AT_ONCE = 4096
"""Elements that are asked for at once."""


@dataclass(frozen=True, eq=False)
class WriteChunks(Node):
    """Receipts of the elements of *upstream*, which are written below *path*."""

    op: ClassVar[str] = "write_chunks"
    one_to_one: ClassVar[bool] = True
    upstream: Node
    path: str
    compression: str | None
    chunk_bytes: int
    chunk_seconds: float
    format: str = "arrow"

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        return _WritingIterator(self, context.open(self.upstream, state))


class _WritingIterator(OneInputIterator):
    """Writes one chunk, then gives the receipts of its elements."""

    def __init__(self, node: WriteChunks, upstream: OpIterator) -> None:
        self._node, self._upstream = node, upstream
        self._folder, self._format = folder_of("save", node.path), FORMATS[node.format]
        self._sizer = BlockSizer(most=_MOST_AT_ONCE)
        self._inputs: list[Element] = []
        """Elements of the input's last block that are in no chunk yet."""
        self._marks: list[tuple[int, Mark]] = []
        """Where the input's blocks end, in receipts of this chunk, and their marks."""
        self._receipts: Block = []
        self._given = 0
        """How many receipts of the chunk the caller has."""
        self._layout: SavedLayout | None = None
        """That of the first element."""

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        return elements_of(self.rows(n))

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        if self._given == len(self._receipts):
            self._begin()
            self._raise_due()
            self._write()
        block = self._receipts[self._given : self._given + n]
        self._given += len(block)
        return block

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        given, marks = self._given, list(self._marks)
        if not marks:
            below = self._upstream.mark()
            left = len(self._inputs)
            return lambda back: below(left + back)

        def at(back: int) -> State:
            place = given - back
            end, mark = next((end, mark) for end, mark in marks if place <= end)
            return mark(end - place)

        return at

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`. Writes nothing."""
        ready = min(n, len(self._receipts) - self._given)
        self._given += ready
        if ready == n:
            return n
        self._due = None
        held = min(n - ready, len(self._inputs))
        self._inputs = self._inputs[held:]
        self._begin()
        more = n - ready - held
        return ready + held + (self._upstream.skip(more) if more else 0)

    def _begin(self) -> None:
        """Forget the last chunk. The next one begins with what is left of the input's block."""
        left = [(len(self._inputs), self._marks[-1][1])] if self._inputs and self._marks else []
        self._receipts, self._given, self._marks = [], 0, left

    def _write(self) -> None:
        """Write the next chunk, if there are elements for it."""
        began, count = time.monotonic(), 0
        writer: ChunkWriter | None = None
        while self._due is None:
            if not self._inputs and not self._read(count):
                break
            if writer is None and (writer := self._writer()) is None:
                break
            count += self._add(writer)
            late = time.monotonic() - began >= self._node.chunk_seconds
            if late or writer.nbytes >= self._node.chunk_bytes:
                break
        if writer is not None and count:
            self._finish(writer)
        else:
            self._begin()
            self._raise_due()

    def _read(self, count: int) -> bool:
        """Read a block, after *count* elements of the chunk; return whether there was one."""
        try:
            self._inputs = self._sizer.read(self._upstream, _MOST_AT_ONCE)
        except ELEMENT_ERRORS as exc:
            self._due = exc
            return False
        if self._inputs:
            self._marks.append((count + len(self._inputs), self._upstream.mark()))
        return bool(self._inputs)

    def _writer(self) -> ChunkWriter | None:
        """Return what writes a chunk; None if the first element of all cannot be saved."""
        if self._layout is None:
            try:
                layout = SavedLayout.of(self._inputs[0])
            except ElementError as exc:
                self._due, self._inputs = exc, self._inputs[1:]
                return None
            self._format.check(layout)
            self._layout = layout
        return ChunkWriter(self._format, self._layout, self._node.compression)

    def _add(self, writer: ChunkWriter) -> int:
        """Add elements of `_inputs`; the first one that cannot be saved is an error after these."""
        size = len(self._inputs)
        while True:
            try:
                added = writer.add(self._inputs[:size], self._node.chunk_bytes)
            except ElementError as exc:
                if size > 1:
                    size //= 2
                    continue
                self._due, added = exc, 0
                self._inputs = self._inputs[1:]
            self._inputs = self._inputs[added:]
            return added

    def _finish(self, writer: ChunkWriter) -> None:
        data, contents = writer.finish()
        chunk = secrets.randbits(63)
        told = msgspec.json.encode(ChunkTold(cast("SavedLayout", self._layout).to_text(), contents))
        for name, its in ((told_name(chunk), told), (new_name(chunk), data)):
            with self._folder.writing(name):
                self._folder.write(name, its)
        count = contents.count
        columns = [
            np.full(count, chunk, np.int64),
            np.arange(count),
            text_array([*[b""] * (count - 1), told]),
        ]
        self._receipts = Rows(ColumnsOfBlock(tuple(columns), columns), range(count))
