"""Reading a dataset through the mesh. Imports no gRPC until a dispatcher is called."""

from __future__ import annotations

from typing import Any

from penstock.dataset.by_id import from_dataset_id
from penstock.dataset.iterator import DatasetIterator
from penstock.engine.iterator import State
from penstock.errors import DatasetError
from penstock.protocol.malformed import glimpse
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.types import SHARD_HINT, ShardingPolicy
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.distribute import distribute
from penstock.reader.mixture_weights import set_weights
from penstock.reader.registration import register_dataset

__all__ = [
    "SHARD_HINT",
    "CrossTrainerCache",
    "ShardingPolicy",
    "distribute",
    "from_dataset_id",
    "register_dataset",
    "save_job",
    "set_weights",
]


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
