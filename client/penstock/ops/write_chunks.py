"""`write_chunks`: writes elements into chunks of a saved dataset; element k becomes receipt k.

A receipt ``(chunk, row, told)`` says in which chunk the element is, and in which row of it. The
last receipt of a chunk also has what the chunk's file has, as JSON; the others have nothing. All
receipts of a chunk come after its file is written. So whoever counts each receipt once has each
element once, however often chunks are written again.

Within a split, a chunk ends with the element that fills it. If time is up before, the elements are
a *piece* of a chunk that the next receipts continue (see `penstock.saved.pieces`). A thread reads
the input, so time is also up while a function does not return.

State: ``[input, bytes]``: that of the input, and about how many bytes the elements take that are
already in the present chunk; None if no element of the split is in any.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import ClassVar, cast

import msgspec
import numpy as np

from penstock.element import Element, text_array
from penstock.engine.block_size import BlockSizer
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, Mark, OneInputIterator, OpIterator, State
from penstock.engine.op_times import begin_wait, waited
from penstock.engine.rows import Block, ColumnsOfBlock, Rows, elements_of
from penstock.errors import ElementError
from penstock.executors.thread_pool import A_MOMENT, ThreadPool
from penstock.graph.node import Node
from penstock.runtime.interrupts import breathe
from penstock.saved.chunk_format import ChunkWriter
from penstock.saved.folder import folder_of
from penstock.saved.formats import FORMATS
from penstock.saved.layout import SavedLayout
from penstock.saved.receipts import ChunkTold, new_chunk, new_name, told_name

_MOST_AT_ONCE = 4096
"""Elements that are asked for at once."""

_CLOSING_SECONDS = 0.2
"""How long closing waits for a thread that is inside the input; later it ends by itself."""

_NO_SIZES = np.empty(0, np.int64)


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
        below, nbytes = state or (None, None)
        return _WritingIterator(self, context.open(self.upstream, below), nbytes)


class _WritingIterator(OneInputIterator):
    """Writes one chunk, then gives the receipts of its elements."""

    def __init__(self, node: WriteChunks, upstream: OpIterator, nbytes: int | None) -> None:
        self._node, self._upstream = node, upstream
        self._folder, self._format = folder_of("save", node.path), FORMATS[node.format]
        self._sizer = BlockSizer(most=_MOST_AT_ONCE)
        self._thread = ThreadPool(1, "penstock-write-chunks")
        self._coming: Future[list[Element]] | None = None
        """The input's next block, while the thread reads it."""
        self._below = upstream.mark()
        """The mark of the input's last block."""
        self._inputs: list[Element] = []
        """Elements of the input's last block that are in no chunk yet."""
        self._marks: list[tuple[int, Mark]] = []
        """Where the input's blocks end, in receipts of this chunk, and their marks."""
        self._receipts: Block = []
        self._given = 0
        """How many receipts of the chunk the caller has."""
        self._nbytes, self._sizes = nbytes, _NO_SIZES
        """The bytes of the state: before the first receipt, and after each one."""
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
        given, marks, nbytes, sizes = self._given, list(self._marks), self._nbytes, self._sizes
        if not marks:
            below, left = self._below, len(self._inputs)
            return lambda back: [below(left + back), nbytes]

        def at(back: int) -> State:
            place = given - back
            end, mark = next((end, mark) for end, mark in marks if place <= end)
            return [mark(end - place), int(sizes[place - 1]) if place else nbytes]

        return at

    def _begin(self) -> None:
        """Forget the last chunk. The next one begins with what is left of the input's block."""
        left = [(len(self._inputs), self._below)] if self._inputs and self._marks else []
        self._receipts, self._given, self._marks = [], 0, left
        if len(self._sizes):
            self._nbytes, self._sizes = int(self._sizes[-1]), _NO_SIZES

    def _write(self) -> None:
        """Write the next piece of a chunk, if there are elements for it."""
        began, count = time.monotonic(), 0
        room = self._node.chunk_bytes - (self._nbytes or 0)
        writer: ChunkWriter | None = None
        is_late = has_ended = False
        while self._due is None and not is_late and not has_ended:
            if not self._inputs:
                if not self._has_come(inf if writer is None else began + self._node.chunk_seconds):
                    break
                if not self._read(count):
                    has_ended = self._due is None
                    break
            if writer is None and (writer := self._writer()) is None:
                break
            count += self._add(writer, room)
            has_ended = writer.nbytes >= room
            is_late = time.monotonic() - began >= self._node.chunk_seconds
        if writer is not None and count:
            self._finish(writer, has_ended=has_ended)
        else:
            self._begin()
            self._raise_due()

    def _has_come(self, until: float) -> bool:
        """Have the thread read a block; return whether it, or an error, has come by then."""
        coming = self._coming
        if coming is None:
            read = partial(self._sizer.read, self._upstream, _MOST_AT_ONCE)
            self._coming = coming = self._thread.submit(read)
        began = begin_wait()
        while not coming.done() and (left := until - time.monotonic()) > 0:
            wait((coming,), min(left, A_MOMENT))
            breathe()
        waited(began)
        return coming.done()

    def _read(self, count: int) -> bool:
        """Take the block that has come, after *count* elements; return whether there was one."""
        coming, self._coming = cast("Future[list[Element]]", self._coming), None
        try:
            self._inputs = coming.result()
        except ELEMENT_ERRORS as exc:
            self._due = exc
        finally:
            del coming  # or an error would keep this frame, and with it the iterator, forever
        self._below = self._upstream.mark()
        if self._inputs:
            self._marks.append((count + len(self._inputs), self._below))
        return bool(self._inputs)

    def close(self) -> None:
        """See `OpIterator.close`. Does not wait long for an input that does not return."""
        self._thread.close()
        self._upstream.close()
        self._thread.join(_CLOSING_SECONDS)

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

    def _add(self, writer: ChunkWriter, room: int) -> int:
        """Add elements of `_inputs`; the first one that cannot be saved is an error after these."""
        size = len(self._inputs)
        while True:
            try:
                added = writer.add(self._inputs[:size], room)
            except ElementError as exc:
                if size > 1:
                    size //= 2
                    continue
                self._due, added = exc, 0
                self._inputs = self._inputs[1:]
            self._inputs = self._inputs[added:]
            return added

    def _finish(self, writer: ChunkWriter, *, has_ended: bool) -> None:
        data, contents = writer.finish()
        chunk = new_chunk(begins_split=self._nbytes is None)
        self._sizes = np.concatenate(writer.sizes) + (self._nbytes or 0)
        layout, nbytes = cast("SavedLayout", self._layout).to_text(), int(self._sizes[-1])
        told = msgspec.json.encode(ChunkTold(layout, contents, nbytes, has_ended))
        if has_ended:
            self._sizes[-1] = 0  # the next element begins a chunk
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
