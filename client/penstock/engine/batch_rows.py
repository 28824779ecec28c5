"""The rows of a batch that a pipeline made: as elements, and as `Rows`."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.element import Element, is_namedtuple, map_leaves
from penstock.engine.rows import Numbers, Table, gathered, index_of
from penstock.normalise import normalise_scalar


def rows(batch: Element, start: int, stop: int) -> list[Element]:
    """Return rows *start* to *stop* of *batch*, none of which keeps the batch in memory."""
    if isinstance(batch, tuple):
        if not batch:
            return [()] * (stop - start)
        parts = zip(*(rows(part, start, stop) for part in batch), strict=True)
        return [type(batch)(*row) for row in parts] if is_namedtuple(batch) else list(parts)
    if isinstance(batch, dict):
        if not batch:
            return [{} for _ in range(start, stop)]
        parts = zip(*(rows(part, start, stop) for part in batch.values()), strict=True)
        return [dict(zip(batch, row, strict=True)) for row in parts]
    return _array_rows(batch[start:stop])


def _array_rows(part: np.ndarray[Any, Any]) -> list[Any]:
    if part.ndim > 1 or part.dtype.kind == "V":
        return [row.copy() for row in part]
    if part.dtype.hasobject:
        return [normalise_scalar(value) for value in part]
    return list(part)


class BatchTable(Table):
    """The rows of *batch*, which none of them keeps in memory."""

    def __init__(self, batch: Element) -> None:
        self._batch = batch

    def elements(self, which: Numbers) -> list[Element]:
        """See `Table.elements`."""
        if isinstance(which, range) and which.step == 1:
            return rows(self._batch, which.start, which.stop)
        return rows(self.stacked(which), 0, len(which))

    def stacked(self, which: Numbers) -> Element:
        """See `Table.stacked`."""
        at = index_of(which)
        return map_leaves(lambda column: gathered(column, at), self._batch)
