"""Sources that read files of tables, whose columns pyarrow reads."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from penstock import files as file_names
from penstock.extras import needed
from penstock.graph.traversal import DatasetBase
from penstock.ops.arrow import Arrow
from penstock.ops.parquet import Parquet


class TableSources(DatasetBase):
    """Class methods that return a new dataset of the rows of tables."""

    __slots__ = ()

    @classmethod
    def parquet(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        columns: Sequence[str] | None = None,
        filters: Any = None,
        batch_rows: int | None = None,
        *,
        nulls: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a dataset of the rows of Parquet files, each a dict by column. pyarrow reads them.

        A `batch` right after it gathers rows without making Python objects of them. Workers share a
        large file by its row groups.

        Args:
            files: as for `json_lines`.
            columns: the columns to read; by default all.
            filters: which rows to read: pyarrow's tuples, as ``[("age", ">", 3)]``, or an
                expression of `pyarrow.compute`. Row groups without such rows are not read.
            batch_rows: make elements of this many rows, dicts of arrays. The last one of a row
                group has fewer.
            nulls: what to put in the place of missing values, by column.

        Raises:
            DatasetError: when an argument is malformed; during reading, for a column that a file
                does not have, or when two files have different columns or types.
            MissingExtra: when pyarrow is not installed.
            MissingFile, FileChanged: as for `json_lines`.
            TransformError: in the place of a row with a missing value, and for a damaged file.

        >>> import pyarrow as pa, pyarrow.parquet as pq
        >>> pq.write_table(pa.table({"x": [1, 2, 3], "name": ["a", "b", "c"]}), "a.parquet")
        >>> list(Dataset.parquet("a.parquet", columns=["x"], filters=[("x", ">", 1)]).batch(2))
        [{'x': array([2, 3])}]
        """
        needed("pyarrow", "Dataset.parquet")
        pattern = file_names.wanted("parquet", "files", files)
        chosen: Any = columns
        return cls(Parquet(pattern, chosen, {} if nulls is None else nulls, filters, batch_rows))

    @classmethod
    def arrow(
        cls,
        files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        columns: Sequence[str] | None = None,
        *,
        nulls: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return a dataset of the rows of Arrow IPC files (Feather version 2), each a dict.

        Local files are mapped into memory. Workers share a large file by its record batches.

        Args:
            files: as for `json_lines`.
            columns: the columns to read; by default all.
            nulls: what to put in the place of missing values, by column.

        Raises:
            DatasetError, MissingExtra, MissingFile, FileChanged, TransformError: as for `parquet`.

        >>> import pyarrow as pa, pyarrow.feather
        >>> pa.feather.write_feather(pa.table({"x": [1, 2, 3]}), "a.arrow")
        >>> list(Dataset.arrow("a.arrow").batch(2))
        [{'x': array([1, 2])}, {'x': array([3])}]
        """
        needed("pyarrow", "Dataset.arrow")
        pattern = file_names.wanted("arrow", "files", files)
        chosen: Any = columns
        return cls(Arrow(pattern, chosen, {} if nulls is None else nulls))
