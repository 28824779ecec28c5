"""Makes some of the elements that were kept again, and compares them.

State: ``[elements so far, 1 if they are made without the store else 0, the input's state]``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

from penstock.element import Element
from penstock.engine.context import Context, open_node
from penstock.engine.iterator import Mark, OneInputIterator, OpIterator, State
from penstock.engine.rows import Block, elements_of
from penstock.engine.tallies import Tallies
from penstock.errors import PenstockError
from penstock.graph.node import Node, function
from penstock.ops.internal.snapshot_key import key_of
from penstock.ops.internal.stretch import is_indexed, stretch_of
from penstock.ops.snapshot import Snapshot
from penstock.protocol.recording import SaveStage
from penstock.runtime.interrupts import is_interrupt
from penstock.saved.chunk_format import ChunkWriter
from penstock.saved.folder import SaveFolder, folder_of
from penstock.saved.formats import FORMATS
from penstock.saved.layout import SavedLayout
from penstock.saved.manifest import SavedVersions

EACH = 1000
"""One of this number of elements is made again."""


class Judge(Protocol):
    """Decides whether kept elements are used."""

    @property
    def is_against(self) -> bool:
        """Whether a pass that begins now should make the elements without the store."""

    def compared(self, number: int, *, same: bool) -> None:
        """Note that element *number* was made again, and whether it was the *same*."""


def kept_count(snapshot: Snapshot) -> int:
    """Return how many elements *snapshot* has in the store; -1 if not all of them are there.

    Raises:
        PenstockError: when the store cannot be read.
    """
    latest = SavedVersions("autocache", folder_below(snapshot)).latest()
    if latest is None or latest.manifest.stage is not SaveStage.COMPLETE:
        return -1
    return latest.manifest.elements


def folder_below(snapshot: Snapshot) -> SaveFolder:
    """Return the folder of the elements of *snapshot*."""
    key = key_of(snapshot.upstream, by_splits=False).fingerprint
    return folder_of("autocache", f"{snapshot.path}/{key}")


@dataclass(frozen=True, eq=False)
class Checked(Node):
    """The elements of *upstream*. If a pass reads kept ones, it makes some of them again."""

    op: ClassVar[str] = "autocache"
    one_to_one: ClassVar[bool] = True
    upstream: Snapshot
    judge: Judge = function()

    @property
    def label(self) -> str:
        """See `Node.label`."""
        return self.op

    def open(self, context: Context, state: State) -> OpIterator:
        """See `Node.open`."""
        number, plain, below = state or (0, int(self.judge.is_against), None)
        at, snapshot = (number, plain), self.upstream
        if plain:
            inside = replace(context, path=f"{context.path}.0")
            return _CheckedIterator(self, context, inside.open(snapshot.upstream, below), at, -1)
        count = kept_count(snapshot)
        return _CheckedIterator(self, context, context.open(snapshot, below), at, count)


class _CheckedIterator(OneInputIterator):
    def __init__(
        self, node: Checked, context: Context, upstream: OpIterator, at: tuple[int, int], count: int
    ) -> None:
        self._node, self._upstream = node, upstream
        number, self._plain = at
        self._number: int = number
        made = node.upstream.upstream
        self._remade = _Remade(made, replace(context, path=f"{context.path}.0.0"))
        first = context.seed() % min(EACH, count) if count > 0 else 0
        every = range(first, count, EACH)
        if not is_indexed(made):  # any other elements could only be made with all before them
            every = range(len(every)) if not number else range(0)
        self._to_check = iter([each for each in every if each >= number])
        self._next = next(self._to_check, -1)

    def block(self, n: int) -> list[Element]:
        """See `OpIterator.block`."""
        return elements_of(self.rows(n))

    def rows(self, n: int) -> Block:
        """See `OpIterator.rows`."""
        block = self._upstream.rows(n)
        end = self._number + len(block)
        while self._number <= self._next < end:
            place = self._next - self._number
            (element,) = elements_of(block[place : place + 1])
            self._compare(element)
            self._next = next(self._to_check, -1)
        self._number = end
        return block

    def _compare(self, element: Element) -> None:
        """Make *element* again, and compare both.

        If that fails, the error says nothing of the kept element: its source may be gone. Then
        nothing more is compared in this pass.
        """
        try:
            made = self._remade.element(self._next)
        except PenstockError as exc:
            if is_interrupt(exc):
                raise
            self._to_check = iter(())
            return
        same = made is not None and bytes_of(made) == bytes_of(element)
        self._node.judge.compared(self._next, same=same)

    def mark(self) -> Mark:
        """See `OpIterator.mark`."""
        number, plain, below = self._number, self._plain, self._upstream.mark()
        return lambda back: [number - back, plain, below(back)]

    def skip(self, n: int) -> int:
        """See `OpIterator.skip`."""
        skipped = self._upstream.skip(n)
        self._number += skipped
        self._next = next((each for each in self._to_check if each >= self._number), -1)
        return skipped

    def close(self) -> None:
        """See `OpIterator.close`."""
        self._remade.close()
        super().close()


class _Remade:
    """Makes elements of *node*: any of them if it is indexed, else one after the other."""

    def __init__(self, node: Node, context: Context) -> None:
        self._node = node
        self._context = replace(context, times=None, tallies=Tallies(), on_open=None, shared={})
        self._running: OpIterator | None = None

    def element(self, number: int) -> Element | None:
        """Return element *number*; None if there is none."""
        if is_indexed(self._node):
            running = open_node(stretch_of(self._node, number, number + 1), self._context)
            try:
                return _first(running)
            finally:
                running.close()
        if self._running is None:
            self._running = open_node(self._node, self._context)
        return _first(self._running)

    def close(self) -> None:
        """Close what makes the elements."""
        if self._running is not None:
            self._running.close()


def _first(running: OpIterator) -> Element | None:
    block = running.block(1)
    return block[0] if block else None


def bytes_of(element: Element) -> bytes:
    """Return the bytes of a file that has *element* alone: equal for equal elements."""
    writer = ChunkWriter(FORMATS["arrow"], SavedLayout.of(element), None)
    writer.add([element], 1 << 62)
    data, _ = writer.finish()
    return bytes(data)
