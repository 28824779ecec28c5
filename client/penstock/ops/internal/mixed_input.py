"""One input of a mixture: the elements that some turns take, pass after pass."""

from __future__ import annotations

from dataclasses import replace

from penstock.element import Element
from penstock.engine import seeds
from penstock.engine.context import Context
from penstock.engine.iterator import ELEMENT_ERRORS, OpIterator
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.ops.internal.stretch import is_indexed, stretch_of

AHEAD = 64
"""The most elements to read at once if a turn needs one, and the caller wants that many in all."""


class MixedInput:
    """Input *number* of a mixture, *node*, whose index has *size* elements; None is without end.

    Positions go on counting in later passes. Random numbers are those of the position: all tasks
    have the same ones for an element.
    """

    def __init__(
        self, context: Context, number: int, name: str, node: Node, size: int | None
    ) -> None:
        seed = context.alike().base_seed
        self._context = replace(
            context, splits=None, providers={}, base_seed=seed, common_seed=seed
        )
        self._number, self._name, self._node, self._size = number, name, node, size
        self._exact = is_indexed(node)
        self._run: OpIterator | None = None
        self._begin = self._end = self._stop = 0
        """The positions of the stretch that is open, and that where everything ends."""
        self._read = 0
        """How many elements of the stretch were read or failed."""
        self.held: list[Element] = []
        """Elements that were read, and that no turn has taken yet."""
        self.error: Exception | None = None
        """The error of the element after these."""

    def stand(self, first: int, stop: int) -> None:
        """Stand at position *first*; position *stop* is the end."""
        self.close()
        self._end, self._stop = first, stop

    def fill(self, count: int, ahead: int) -> None:
        """Hold *count* elements, or fewer before an error or the end."""
        while len(self.held) < count and self.error is None:
            if not self._pull(max(count - len(self.held), min(ahead, AHEAD))):
                return

    def take_error(self) -> Exception | None:
        """Return the error, and continue after the element that failed."""
        found, self.error = self.error, None
        try:
            return found
        finally:
            del found  # or an error would keep this frame, and with it the iterator, forever

    def close(self) -> None:
        """Close the open stretch, and drop its elements."""
        run, self._run = self._run, None
        self.held, self.error = [], None
        if run is not None:
            run.close()

    def _pull(self, n: int) -> bool:
        """Read up to *n* elements; return False at the end."""
        if self._run is None:
            if self._end >= self._stop:
                return False
            self._run = self._opened()
        try:
            block = self._run.block(n)
        except ELEMENT_ERRORS as exc:
            self.error = exc
            self._read += 1
            return True
        self.held += block
        self._read += len(block)
        if not block:
            self._check_end()
            self._run.close()
            self._run = None
        return True

    def _opened(self) -> OpIterator:
        self._begin, self._read = self._end, 0
        number, start = (0, self._begin) if self._size is None else divmod(self._begin, self._size)
        stop = start + self._stop - self._begin
        stop = stop if self._size is None else min(stop, self._size)
        self._end = self._begin + stop - start
        context = self._context
        if not self._exact:  # operators after the index count the elements of a stretch
            seed = seeds.derive(context.base_seed, "stretch", self._begin)
            context = replace(context, base_seed=seed)
        # By depth, not by path: a `take` after the mixture is in the path in one process only.
        level = f"mixture {len(context.passes)}"
        key, passes = seeds.pass_key(context.pass_key, level, number), (context.path, number)
        context = replace(context, pass_key=key, passes=(*context.passes, passes))
        return context.open(stretch_of(self._node, start, stop), branch=self._number)

    def _check_end(self) -> None:
        if self._exact and self._begin + self._read != self._end:
            raise DatasetError(
                f"mixture: the dataset {self._name!r} was to have {self._size} elements in a pass, "
                f"and ended after {self._begin + self._read} in all: make the mixture again"
            )
