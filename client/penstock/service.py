"""Reading a dataset through the mesh. Imports no gRPC until a dispatcher is called."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from penstock.analysis.array_spec import ArraySpec
from penstock.analysis.element_spec import element_spec
from penstock.dataset.by_id import from_dataset_id
from penstock.dataset.iterator import DatasetIterator
from penstock.dataset.save_job import SaveJob, SaveProgress, hosted
from penstock.dataset.saving import check_divided, options_of_save, writing_of
from penstock.element import map_leaves
from penstock.engine.iterator import State
from penstock.errors import DatasetError
from penstock.frames.tensors import structured
from penstock.graph.node import INFINITE
from penstock.graph.traversal import DatasetBase
from penstock.ops.write_chunks import WriteChunks
from penstock.options import check_seconds
from penstock.protocol.malformed import glimpse
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.types import SHARD_HINT, ShardingPolicy
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.arguments import Asked, filled_in, service_of
from penstock.reader.distribute import distribute
from penstock.reader.mixture_weights import set_weights
from penstock.reader.registration import register_dataset
from penstock.saved.folder import folder_of
from penstock.saved.formats import FORMATS
from penstock.saved.manifest import SaveOptions
from penstock.saved.tensor_file import TensorFormat
from penstock.saved.tensorflow_folder import announce

__all__ = [
    "SHARD_HINT",
    "CrossTrainerCache",
    "SaveJob",
    "SaveProgress",
    "ShardingPolicy",
    "distribute",
    "distributed_save",
    "from_dataset_id",
    "register_dataset",
    "save",
    "save_job",
    "set_weights",
]


def save(
    dataset: DatasetBase,
    path: str | os.PathLike[str],
    service: str | tuple[str, str],
    format: str = "arrow",  # noqa: A002  as in `Dataset.save`
    compression: str | None = "auto",
    *,
    chunk_bytes: int = 64 << 20,
    chunk_seconds: float = 10.0,
    order: str = "split",
    overwrite: bool = False,
    timeout: float = 60.0,
    credentials: str | os.PathLike[str] | None = None,
) -> SaveJob:
    """Let workers make all elements of a dataset and write them into a folder.

    The workers write chunks, and one of them commits the chunks: for each element, it gets a few
    bytes. Each element is in the saved dataset exactly once, also if workers or the dispatcher die.
    The save goes on when this process ends. The same call again, from any process, is the same
    save; after an error, or after it was cancelled, the call continues it.

    Args:
        dataset: what to save. It has no `distribute`.
        path: the folder, as for `Dataset.save`. All workers and this process reach it by this name.
        service: the dispatcher's address, as for `distribute`. It has a ``work_dir``.
        format: as for `Dataset.save`, and so are the next four.
        compression: of the files.
        chunk_bytes: about how many bytes of elements a chunk has.
        chunk_seconds: after how many seconds readers can follow elements whose chunk has fewer.
        overwrite: whether to replace another dataset in the folder.
        order: ``"split"``: the elements are in the one order that ``ordered=True`` has, and the
            files are equal to the byte, whatever the workers. ``"any"``: first come, for pipelines
            that have no one order.
        timeout: seconds for which the dispatcher may be absent when this process asks it. The save
            itself waits for the dispatcher and for workers as long as it has to.
        credentials: the folder of a trainer's credentials, if the dispatcher asks for them.

    Raises:
        Refused: when the dispatcher has no ``work_dir``.
        WaitedTooLong: when no dispatcher answers.
        DatasetError: as `Dataset.save`; when *order* is ``"split"`` and the pipeline has no one
            order; when it cannot be divided among workers.

    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=2) as cluster:
    ...     squares = Dataset.range(1000).map(lambda x: x * x)
    ...     job = save(squares, "squares", cluster.target)
    ...     job.wait().elements
    1000
    >>> list(Dataset.load("squares").take(4).batch(4))
    [array([0, 1, 4, 9])]
    """
    if order not in ("split", "any"):
        raise DatasetError(f"save: order must be 'split' or 'any', not {order!r}")
    options = options_of_save(format, compression, chunk_bytes, order)
    writing = writing_of(dataset, path, options, chunk_seconds)
    asked = _Service(service, timeout, credentials)
    return _hosted(writing, options, asked, overwrite=overwrite)


class _Service(NamedTuple):
    service: Any
    timeout: Any
    credentials: Any


def _hosted(
    writing: WriteChunks,
    options: SaveOptions,
    asked: _Service,
    *,
    overwrite: bool = False,
    announce: Callable[[], None] = lambda: None,
) -> SaveJob:
    service, timeout, credentials = asked
    divided = distribute(
        "distributed_epoch",
        service,
        ordered=options.order == "split",
        timeout=timeout,
        credentials=credentials,
    )
    check_divided(writing, divided, options)
    address = service_of(filled_in(Asked(service, None, None, None, None)).service, credentials)
    seconds = check_seconds("save", "timeout", timeout)
    return hosted(
        writing, options, address, overwrite=overwrite, timeout=seconds, announce=announce
    )


def distributed_save(
    dataset: DatasetBase,
    path: str | os.PathLike[str],
    data_service_address: str,
    compression: str | None = "AUTO",
    *,
    format: str = "arrow",  # noqa: A002  as in `save`
    chunk_bytes: int = 64 << 20,
    chunk_seconds: float = 10.0,
    timeout: float = 60.0,
    credentials: str | os.PathLike[str] | None = None,
) -> SaveJob:
    """Do as ``tf.data.experimental.distributed_save``: each path is saved once.

    With ``format="tfrecord"``, TensorFlow's own ``tf.data.Dataset.load`` reads the folder, also
    while it is written (``wait=True``): it has ``snapshot.metadata``, files in ``chunks/``, and at
    the end ``DONE`` or ``ERROR``. `Dataset.load` reads it, too. Elements are in the folder as they
    come. Unlike TensorFlow's, the save goes on when workers or the dispatcher are lost, and it
    returns what says how far it has come.

    Args:
        dataset: what to save.
        path: the folder, which does not exist.
        data_service_address: the dispatcher, which has a ``work_dir``.
        compression: ``"AUTO"``, or None. For the format ``"tfrecord"``, ``"SNAPPY"`` (which
            ``"AUTO"`` is there; it needs the extra ``snappy``) or ``"GZIP"``; for others, what
            `save` takes.
        format: ``"tfrecord"``, or one that `save` takes.
        chunk_bytes: as for `save`, and so are the others.
        chunk_seconds: after how many seconds a chunk ends that has fewer bytes.
        timeout: seconds for which the dispatcher may be absent when this process asks it.
        credentials: the folder of a trainer's credentials.

    Raises:
        DatasetError: as `save`; when *path* is saved already, or is being saved.
        Refused: when the dispatcher has no ``work_dir``.

    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=1) as cluster:
    ...     distributed_save(Dataset.range(9), "nines", cluster.target).wait(60).elements
    9
    """
    _check_text("data_service_address", data_service_address)
    where = os.fspath(path) if isinstance(path, os.PathLike) else path
    _check_text("path", where)
    is_tensorflows = format == "tfrecord"
    if compression == "AUTO":
        compression = TensorFormat.compressions[0] if is_tensorflows else "auto"
    name = TensorFormat.name if is_tensorflows else format
    options = options_of_save(name, compression, chunk_bytes, "any", known=FORMATS)
    writing = writing_of(dataset, where, options, chunk_seconds)
    if writing.upstream.cardinality == INFINITE:
        raise DatasetError(
            "distributed_save: Saving an infinite dataset is not allowed: take a part of it, as "
            "take(1_000_000)"
        )
    folder = folder_of("distributed_save", writing.path)
    if folder.entries():
        raise DatasetError(
            f"distributed_save: the save to {where} is already started or completed, or the folder "
            "has other files: give another path, or delete the folder"
        )
    asked = _Service(data_service_address, timeout, credentials)
    if not is_tensorflows:
        return _hosted(writing, options, asked)
    spec = structured(map_leaves(_without_lengths, element_spec(writing.upstream)))
    return _hosted(
        writing, options, asked, announce=partial(announce, folder, spec, options.compression)
    )


def _without_lengths(leaf: Any) -> Any:
    """Return *leaf* of a spec with any lengths: elements may differ from the first one."""
    return ArraySpec((None,) * len(leaf.shape), leaf.dtype) if hasattr(leaf, "shape") else leaf


def _check_text(name: str, given: Any) -> None:
    if not isinstance(given, str):
        raise DatasetError(f"distributed_save: {name} must be a string, not {given!r}")
    if not given:
        raise DatasetError(f"distributed_save: {name} must not be empty")


def save_job(
    iterator: DatasetIterator,
    label: str,
    timeout: float | None = None,
    *,
    without_missing: bool = False,
) -> State:
    """Return the state of the job that an iterator reads, saved under a name.

    As `DatasetIterator.state`, with which it shares everything else: all readers of the job call
    it at the same step. With a *label*, readers that are at different steps are told so at once,
    instead of saving what none of them meant.

    Args:
        iterator: what reads a dataset with `distribute`.
        label: the name, as ``f"step {step}"``: the same for all readers.
        timeout: for how many seconds the job's other readers, and the dispatcher, may keep this
            waiting; by default as `distribute` says.
        without_missing: see `DatasetIterator.state`.

    Raises:
        DatasetError: when *iterator* reads no job, or *label* is no name.
        SaveFailed: the same for all readers, naming those that are missing, or what each saves.
        Closed: when *iterator* was closed.

    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=1) as cluster:
    ...     dataset = Dataset.range(6).distribute("distributed_epoch", cluster.target).batch(3)
    ...     with iter(dataset) as batches:
    ...         first = next(batches)
    ...         state = save_job(batches, "step 1")
    ...     rest = list(dataset.iterator(state))
    >>> first, rest
    (array([0, 1, 2]), [array([3, 4, 5])])
    """
    given: Any = iterator
    if not isinstance(given, DatasetIterator) or not given.reads_job:
        raise DatasetError(
            "save_job takes an iterator over a dataset with distribute(...), as from "
            f"iter(dataset), not {given!r:.80}; without one, iterator.state() is all there is to "
            "save"
        )
    if not isinstance(label, str) or not label.strip():
        raise DatasetError(f"save_job: label must be a name, such as 'step 100', not {label!r}")
    if too_long(label):
        raise DatasetError(
            f"save_job: label may take {LONGEST_NAME} bytes: {glimpse(label)} has {len(label)} "
            "characters"
        )
    return given.save(label, timeout, without_missing=without_missing)


def __dir__() -> list[str]:
    return sorted(__all__)
