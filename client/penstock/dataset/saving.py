"""Saved datasets: made once, and read as any other source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from penstock import files as file_names
from penstock.dataset.loading import check_wanted, found_version, loaded
from penstock.dataset.local_save import LocalSave, begun
from penstock.errors import DatasetError
from penstock.extras import needed
from penstock.graph.traversal import DatasetBase, topological_order
from penstock.ops.follow import Follow
from penstock.ops.write_chunks import WriteChunks
from penstock.options import check_count, check_seconds
from penstock.reader.external_state import check_external_state
from penstock.reader.node import Distribute
from penstock.saved.chunk_format import ChunkFormat
from penstock.saved.formats import OFFERED
from penstock.saved.manifest import SaveOptions


class Saving(DatasetBase):
    """The methods that save a dataset, and read a saved one."""

    __slots__ = ()

    def save(
        self,
        path: str | os.PathLike[str],
        format: str = "arrow",  # noqa: A002  the word that others have for it
        compression: str | None = "auto",
        *,
        chunk_bytes: int = 64 << 20,
        chunk_seconds: float = 10.0,
        overwrite: bool = False,
    ) -> None:
        """Write all elements into a folder, in this process.

        `load` reads them, also while they are written, and so do other libraries: each chunk is a
        file of its own below ``data/``. If the process dies, the same call continues after the
        elements that are committed. Called again on a complete dataset, it does nothing.

        Args:
            path: the folder, local or in an object store. It is new, or holds this dataset.
            format: of the files: ``"arrow"`` (Arrow IPC, which is Feather version 2) or
                ``"parquet"``, with a column for each part of an element; ``"tfrecord"``,
                ``"webdataset"`` or ``"mds"``. All need the extra ``arrow``.
            compression: ``"zstd"``, ``"lz4"`` or None; ``"auto"`` is the first that the format has.
            chunk_bytes: about how many bytes of elements, before compression, a chunk has.
            chunk_seconds: after how many seconds readers can follow elements whose chunk has fewer.
            overwrite: whether to replace another dataset in the folder.

        Raises:
            DatasetError: when an argument is malformed, the dataset is infinite, the folder holds
                something else, a file cannot be written, or the format cannot hold an element.
            Superseded: when another process continues this save.
            PenstockError: each error that reading raises. The same call continues.

        >>> Dataset.range(5).map(lambda x: {"x": x, "name": str(x)}).save("saved")
        >>> Dataset.load("saved").take(1).get_single_element()
        {'x': np.int64(0), 'name': '0'}
        """
        options = options_of_save(format, compression, chunk_bytes)
        job = job_of(self, path, options, chunk_seconds, overwrite=overwrite)
        job.run()

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        *,
        wait: bool = False,
        timeout: float | None = None,
        at: int | None = None,
        repair: DatasetBase | None = None,
    ) -> Self:
        """Return a dataset of the elements that `save` wrote into a folder.

        Workers share it by chunks, and it has an index, so that `global_shuffle`, `mixture` and
        ``ordered=True`` work on it. Each group of elements (about 1 MiB) has a checksum, which is
        compared when it is read.

        Args:
            path: the folder.
            element_spec: the structure, dtypes and numbers of axes that the elements must have, as
                `Dataset.element_spec` returns them. Lengths of axes are not compared.
            compression: the compression that the files must have, such as ``"zstd"``.
            reader_func: called once with a dataset that has a dataset for each chunk, in their
                order; returns the dataset to read. Such a dataset has no index.
            wait: whether to follow a save that still runs, up to its end. Such a dataset has no
                index. Workers share its elements as they are written. If the save has not begun,
                *element_spec* and *compression* are not compared.
            timeout: with *wait*, for how many seconds nothing new may be written; None is for ever.
            at: the number of a version, to read what it has; by default the newest.
            repair: the dataset that was saved. A chunk whose file is damaged is then made again, in
                the process that reads it; the file stays as it is.

        Raises:
            DatasetError: when an argument or the manifest is malformed, the elements differ from
                *element_spec* or the files from *compression*, *repair* is another dataset than
                was saved, or TensorFlow wrote the folder.
            MissingFile: when the folder holds no saved dataset, or not the version *at*, or when
                another dataset replaced that version.
            SaveIncomplete: without *wait* and *at*, when the save has not ended. With *wait*,
                during reading, when it failed or was cancelled; the message has its error.
            WaitedTooLong: during reading, after *timeout*.
            FileChanged: when another dataset replaced this one.
            TransformError: during reading, in the place of elements that are damaged and that
                *repair* cannot make again.

        >>> Dataset.range(5).save("saved")
        >>> list(Dataset.load("saved").global_shuffle(seed=1).batch(5))
        [array([3, 0, 4, 1, 2])]
        >>> list(Dataset.load("saved", reader_func=lambda chunks: chunks.flat_map(lambda c: c)))[:2]
        [np.int64(0), np.int64(1)]
        """
        needed("pyarrow", "Dataset.load")
        (folder,) = _folder("load", path)
        if wait and any(each is not None for each in (at, reader_func, repair)):
            raise DatasetError(
                "load: wait=True follows new versions in their order; at=, reader_func= and "
                "repair= are of one version: leave them out, or wait"
            )
        found = found_version(folder, None if at is None else check_count("load", "at", at))
        if found is not None:
            check_wanted(folder, found.manifest, element_spec, compression)
        if wait:
            limit = None if timeout is None else check_seconds("load", "timeout", timeout)
            return cls(Follow(folder, limit))
        return cls(loaded(folder, found, reader_func, repair, at_newest=at is None))


def options_of_save(
    format: Any,  # noqa: A002  as in `Dataset.save`
    compression: Any,
    chunk_bytes: Any,
    order: str = "split",
    known: Mapping[str, ChunkFormat] = OFFERED,
) -> SaveOptions:
    """Return how elements are written, from what a user gave: one of the *known* formats.

    Raises:
        DatasetError: naming the argument that is malformed.
    """
    chosen = known.get(format) if isinstance(format, str) else None
    if chosen is None:
        raise DatasetError(f"save: format must be {_any_of(OFFERED)}, not {format!r}")
    if compression == "auto":
        compression = chosen.compressions[0]
    if compression not in chosen.compressions:
        raise DatasetError(
            f"save: compression of {format!r} must be 'auto' or "
            f"{_any_of(chosen.compressions)}, not {compression!r}"
        )
    needed("pyarrow", "save")
    return SaveOptions(format, compression, check_count("save", "chunk_bytes", chunk_bytes), order)


def _any_of(values: Iterable[str | None]) -> str:
    return " or ".join(map(repr, values))


def _as_it_is(dataset: Any) -> DatasetBase:
    found: DatasetBase = dataset
    return found


def job_of(
    dataset: Any,
    path: Any,
    options: SaveOptions,
    chunk_seconds: Any,
    *,
    overwrite: bool,
    divided: Callable[[Any], DatasetBase] = _as_it_is,
) -> LocalSave:
    """Return the save of *dataset* into the folder *path* in this process, which was not started.

    *divided* makes workers write; by default this process does.
    """
    writing = writing_of(dataset, path, options, chunk_seconds)
    receipts = divided(DatasetBase.concrete(writing)).node
    version = begun(writing.upstream, writing.path, options, overwrite=overwrite)
    return LocalSave(receipts, writing.path, version)


def writing_of(dataset: Any, path: Any, options: SaveOptions, chunk_seconds: Any) -> WriteChunks:
    """Return the operator that writes *dataset* into the folder *path*.

    Raises:
        DatasetError: naming the argument that is malformed.
    """
    if not isinstance(dataset, DatasetBase):
        raise DatasetError(f"save: dataset must be a Dataset, not {dataset!r}")
    check_external_state(dataset.node)
    seconds = check_seconds("save", "chunk_seconds", chunk_seconds)
    (folder,) = _folder("save", path)
    return WriteChunks(
        dataset.node,
        folder,
        options.compression,
        options.chunk_bytes,
        seconds,
        format=options.format,
    )


def check_divided(
    writing: WriteChunks, divided: Callable[[Any], DatasetBase], options: SaveOptions
) -> None:
    """Check that workers can share the work of *writing*, as *divided* has them.

    Raises:
        DatasetError: saying why they cannot.
    """
    if any(isinstance(node, Distribute) for node in topological_order(writing)):
        raise DatasetError(
            "save: workers cannot write a dataset that already reads from workers: leave out "
            "distribute(...), or call Dataset.save, which writes its elements in this process"
        )
    try:
        divided(DatasetBase.concrete(writing))
    except DatasetError as exc:
        if options.order == "split":
            exc.add_note('save: order="any" saves the elements as they come')
        raise


def _folder(op: str, path: Any) -> tuple[str, ...]:
    if not isinstance(path, (str, os.PathLike)):
        raise DatasetError(f"{op}: path must be a folder, not {path!r}")
    return file_names.names(op, "path", path)
