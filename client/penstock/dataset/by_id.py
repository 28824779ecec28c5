"""`from_dataset_id`: a dataset that is read without its pipeline."""

from __future__ import annotations

import os
from functools import partial

from penstock.analysis.array_spec import Spec
from penstock.dataset.dataset import Dataset
from penstock.errors import DatasetError
from penstock.options import check_seconds
from penstock.protocol.names import LONGEST_NAME, scoped, too_long
from penstock.protocol.types import ShardingPolicy
from penstock.reader import arguments
from penstock.reader.agreement import CrossTrainerCache
from penstock.reader.arguments import Asked, WholeName, filled_in
from penstock.reader.distribute import distribute
from penstock.reader.registration import checked_id, find


def from_dataset_id(  # noqa: PLR0913  # see `penstock.reader.distribute.distribute`
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    dataset_id: str,
    element_spec: Spec | None = None,
    job_name: str | None = None,
    consumer_index: int | str | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    cross_trainer_cache: CrossTrainerCache | None = None,
    target_workers: str = "AUTO",
    *,
    ordered: bool = False,
    remainder: str = "drop",
    writable: bool = False,
    timeout: float = 60.0,
    on_finished: str = "error",
    start_round: int | None = None,
    patience: int | None = None,
    when_full: str = "skip",
    on_error: str = "raise",
    max_errors: int | None = None,
    credentials: str | os.PathLike[str] | None = None,
    seed: int | None = None,
) -> Dataset:
    """Return the dataset that is registered by an id, to read it as after `distribute`.

    This process needs neither the pipeline's code, nor its modules, nor its version of Python.
    It asks the dispatcher at once, so a wrong id is an error here and not in the first step. Call
    it in the process that reads, not before a fork. Elements that were named tuples are named
    tuples with equal names and fields.

    Args:
        processing_mode: how elements are divided among workers: a `ShardingPolicy`,
            ``"parallel_epochs"`` (`OFF`) or ``"distributed_epoch"`` (`DYNAMIC`).
        service: the dispatcher's address, such as ``"grpc://host:port"``.
        dataset_id: the id that `register_dataset` returned.
        element_spec: the spec of the elements. It must equal the registered one; if none is
            registered, `Dataset.element_spec` returns this one. None takes the registered one.
        job_name: readers with the same name and id share the job's elements. The same name with
            another id is another job: the whole name is ``dataset_id=<id>/<job_name>``.
        consumer_index: the index of this consumer among *num_consumers*, for coordinated reads.
        num_consumers: how many consumers read together; None is an uncoordinated read.
        max_outstanding_requests: how many frames may be requested at once; None is 64 MiB.
        data_transfer_protocol: ``"grpc"``, ``"local"``, ``"shm"``, ``"tcp"``, or None for the
            nearest.
        cross_trainer_cache: the trainer that reads, if several trainers share the elements.
        target_workers: ``"AUTO"`` prefers near workers, ``"ANY"`` does not, ``"LOCAL"`` reads
            only workers in this process.
        ordered: whether elements come in one order, whatever the number of workers; consumer k of
            n gets the elements k, k + n, k + 2n, … of it.
        remainder: what to do with a task's last elements if they fill no round: ``"drop"``,
            ``"pad"`` or ``"repeat"``.
        writable: whether arrays may be written to.
        timeout: seconds for which the dispatcher or all workers may be absent.
        on_finished: ``"error"``, ``"warn"`` or ``"ignore"`` if *job_name* was used before.
        start_round: the round to begin with; None is where the other consumers are.
        patience: with fewer buffered rounds than this, consumers skip a task that is not ready.
        when_full: ``"skip"`` or ``"wait"`` for a trainer that is too slow for the window.
        on_error: ``"raise"``, or ``"skip"`` to leave out elements for which a function raises.
        max_errors: how many elements of a pass may be left out; None is any number.
        credentials: the folder of a reader's credentials, if the dispatcher asks for them.
        seed: fixes the order of the job and each function's ``rng``; passes differ.

    `penstock.reader.distribute.distribute` explains each argument. The compression is that of
    `register_dataset`.

    Raises:
        DatasetError: when an argument is malformed, the pipeline cannot be divided this way, or is
            registered with another *element_spec*.
        UnknownDataset: when no dataset is registered by the id.
        WaitedTooLong: when no dispatcher answers.

    >>> from penstock_cluster import LocalCluster
    >>> from penstock.service import from_dataset_id, register_dataset
    >>> with LocalCluster(workers=1) as cluster:
    ...     name = register_dataset(cluster.target, Dataset.range(4).batch(2))
    ...     dataset = from_dataset_id("distributed_epoch", cluster.target, name, job_name="train")
    ...     dataset.element_spec, list(dataset.unbatch().batch(4))
    (ArraySpec(shape=(2,), dtype=dtype('int64')), [array([0, 1, 2, 3])])
    """
    given = {**locals()}  # a copy: a debugger changes the dict itself
    del given["dataset_id"], given["element_spec"]
    name = arguments.job_name_of(job_name)
    if name is not None:
        whole = scoped(checked_id(dataset_id), name)
        name = WholeName(whole) if isinstance(name, WholeName) else whole
        if too_long(name):
            raise DatasetError(
                f"job_name and dataset_id may take {LONGEST_NAME} bytes together: give a shorter "
                "job_name"
            )
    read_with = partial(distribute, **given | {"job_name": name})
    read_with()  # malformed arguments raise before any call
    asked = Asked(service, name, consumer_index, num_consumers, cross_trainer_cache)
    address = arguments.service_of(filled_in(asked).service, credentials)
    seconds = check_seconds("from_dataset_id", "timeout", timeout)
    node, codec = find(address, dataset_id, element_spec, seconds)
    return Dataset(node).apply(read_with(compression=arguments.compression_of(codec)))
