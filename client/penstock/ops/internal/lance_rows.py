"""The rows of a version of a Lance dataset, as elements: their columns in Arrow's memory.

Lance finds a row by its number, and does not change a version. So the rows are an index, and not
parts of files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.element import Element
from penstock.engine.rows import Block, elements_of
from penstock.errors import DatasetError, FileChanged, MissingFile
from penstock.extras import needed
from penstock.ops.internal.arrow_blocks import Nulls, block_of, check_columns, chosen, filled
from penstock.ops.internal.file_parts import RefusalError
from penstock.ops.sequence import ItemReader, Items

_AHEAD = {"batch_size": 1 << 12, "batch_size_bytes": 16 << 20, "batch_readahead": 2}
"""How much Lance reads ahead where rows are read one after another."""


@dataclass(frozen=True, eq=False)
class LanceRows(Items):
    """The rows of *version* of the dataset at *uri*, with *columns*."""

    uri: str
    version: int
    columns: tuple[str, ...]
    nulls: Nulls
    size: int
    content: str
    """A digest of what the version is made of: one dataset may replace another at its place."""

    @property
    def label(self) -> str:
        """See `Items.label`."""
        return f"lance({self.uri})"

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> Element:
        return elements_of(self.open().block([number]))[0]

    def open(self) -> ItemReader:
        """See `Items.open`.

        Raises:
            MissingFile: when the version is gone.
            FileChanged: when it is another.
        """
        table = _opened(self.uri, self.version)
        if _content(table) != self.content:
            raise FileChanged(
                f"lance: version {self.version} of {self.uri} is not the one that this dataset "
                "was defined with: a run must not mix both. Restore it, or begin a new run"
            )
        return _LanceReader(table, self)


class _LanceReader(ItemReader):
    def __init__(self, table: Any, rows: LanceRows) -> None:
        self._table, self._columns, self._nulls = table, list(rows.columns), rows.nulls
        self._batches: Iterator[Any] | None = None
        """The rows from `_next` on: `_held`, and what follows."""
        self._held: list[Any] = []
        self._next = 0

    def block(self, numbers: Sequence[int]) -> Block:
        """See `ItemReader.block`. Rows in a row are read ahead."""
        if isinstance(numbers, range) and numbers.step == 1:
            table = self._run(numbers.start, len(numbers))
        else:
            table = self._table.take(list(numbers), columns=self._columns)
        (batch,) = table.combine_chunks().to_batches()
        return block_of(batch, self._nulls, numbers[0])

    def _run(self, start: int, count: int) -> Any:
        pa = needed("pyarrow", "Dataset.lance")
        if self._batches is None or start != self._next:
            self._held = []
            self._batches = self._table.scanner(
                self._columns, offset=start, scan_in_order=True, **_AHEAD
            ).to_batches()
        while sum(batch.num_rows for batch in self._held) < count:
            self._held.append(next(self._batches))
        table = pa.Table.from_batches(self._held)
        self._held, self._next = table.slice(count).to_batches(), start + count
        return table.slice(0, count)

    def close(self) -> None:
        """See `ItemReader.close`."""
        self._batches, self._held = None, []


def lance_rows(uri: str, version: Any, columns: Any, nulls: Any) -> LanceRows:
    """Return the rows of the dataset at *uri*; None is the newest *version*, and all *columns*.

    Raises:
        DatasetError: naming the column or the version that is not there, and those that are.
        MissingFile: when there is no dataset.
    """
    needed("lance", "Dataset.lance")
    if version is not None and (isinstance(version, bool) or not isinstance(version, (int, str))):
        raise DatasetError(f"lance: version must be a number or the name of a tag, not {version!r}")
    wanted = chosen("lance", columns, nulls)
    table = _opened(uri, version)
    try:
        check_columns("lance", uri, wanted, table.schema.names)
        for name in wanted or table.schema.names:
            _check(table.schema.field(name), nulls)
    except RefusalError as exc:
        raise DatasetError(str(exc)) from exc.__cause__
    names = wanted or tuple(table.schema.names)
    return LanceRows(uri, table.version, names, nulls, table.count_rows(), _content(table))


def _check(column: Any, nulls: Nulls) -> None:
    pa = needed("pyarrow", "Dataset.lance")
    if "lance.blob" in str(column.type) or b"lance-encoding:blob" in (column.metadata or {}):
        raise RefusalError(
            f"lance: column {column.name!r} holds blobs, which are not read: choose other columns "
            "(columns=)"
        )
    if column.name in nulls:
        filled(pa.nulls(1, column.type), column.name, nulls, 0)


def _opened(uri: str, version: int | str | None) -> Any:
    lance = needed("lance", "Dataset.lance")
    try:
        return lance.dataset(uri, version=version)
    except (OSError, ValueError) as exc:
        why = re.sub(r", /\S+\.rs:\d+:\d+", "", str(exc))  # where Lance's own code says it
        if "not found" not in why.lower():
            raise DatasetError(f"lance: cannot read {uri!r}: {why}") from exc
        if version is None:
            raise MissingFile(f"lance: there is no dataset {uri!r}") from exc
        there = [each["version"] for each in _opened(uri, None).versions()]
        raise DatasetError(
            f"lance: {uri!r} has no version {version!r}; its versions are "
            f"{', '.join(map(str, there[-20:]))}"
        ) from exc


def _content(table: Any) -> str:
    """Return what tells a version from that of another dataset: the files' names are random."""
    told = [fragment.metadata.to_json() for fragment in table.get_fragments()]
    return hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest()
