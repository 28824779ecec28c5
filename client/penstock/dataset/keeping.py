"""Elements that are kept for later passes, jobs and processes."""

from __future__ import annotations

import os
from typing import Any, Self

from penstock.analysis.freezing import why_not_stored
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.files import names
from penstock.graph.node import Node
from penstock.graph.traversal import DatasetBase
from penstock.ops.snapshot import Snapshot
from penstock.options import check_count
from penstock.saved.folder import folder_of
from penstock.saved.formats import FORMATS


class Keeping(DatasetBase):
    """The method that keeps elements below a path."""

    __slots__ = ()

    def snapshot(
        self,
        path: str | os.PathLike[str],
        compression: str | None = "zstd",
        *,
        chunk_bytes: int = 64 << 20,
    ) -> Self:
        """Keep the elements below *path*: the first pass writes them, and later ones read them.

        Later passes, jobs and processes call no function before the snapshot. A changed function,
        operator or input file gets a new folder below *path*, and a warning says what has changed.
        If a pass ends early, the next one continues what it wrote. If storage fails or a file is
        damaged, the elements are made again, and a warning says so.

        Put `snapshot` before `distribute`, and random operators after `snapshot`. Workers keep
        their elements split by split, so *path* must be on storage that all of them share.

        Args:
            path: a folder, local or in an object store, for any number of snapshots.
            compression: ``"zstd"``, ``"lz4"`` or None.
            chunk_bytes: about how many bytes of elements, before compression, a file has.

        Raises:
            DatasetError: when an argument is malformed, or the dataset is infinite, random, or read
                from workers; during reading, when *path* cannot be written.

        >>> squares = Dataset.range(4).map(lambda x: x * x).snapshot("snapshots")
        >>> for _ in range(2):  # the second pass calls no function
        ...     print(list(squares.batch(4)))
        [array([0, 1, 4, 9])]
        [array([0, 1, 4, 9])]
        """
        return type(self)(kept_below(self.node, path, compression, chunk_bytes))


def kept_below(
    node: Node, path: Any, compression: Any = "zstd", chunk_bytes: Any = 64 << 20
) -> Snapshot:
    """Return *node* with its elements kept below *path*.

    Raises:
        DatasetError: see `Keeping.snapshot`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise DatasetError(f"snapshot: path must be a folder, not {path!r}")
    if compression not in FORMATS["arrow"].compressions:
        raise DatasetError(
            f"snapshot: compression must be 'zstd', 'lz4' or None, not {compression!r}"
        )
    nbytes = check_count("snapshot", "chunk_bytes", chunk_bytes)
    if why := why_not_stored(node):
        raise DatasetError(f"snapshot: {why}")
    needed("pyarrow", "Dataset.snapshot")
    (folder,) = names("snapshot", "path", path)
    folder_of("snapshot", folder)  # a store that has no atomic creation is an error now
    return Snapshot(node, folder.rstrip("/") or folder, compression, nbytes)
