"""`distribute`: what is before it runs on workers, what follows it in the training process."""

from __future__ import annotations

import logging
import os
from typing import Protocol, TypeVar

from penstock.analysis import auto_shard
from penstock.analysis.sharding import balanced_for, idle_caches, per_task_operators
from penstock.element import NestedDataset
from penstock.errors import DatasetError
from penstock.graph.node import Node
from penstock.graph.traversal import DatasetBase, options_of
from penstock.options import ExternalStatePolicy, check_count, check_seconds, check_seed
from penstock.protocol.types import Mode, ShardingPolicy
from penstock.reader import arguments
from penstock.reader.agreement import (
    Coordination,
    CrossTrainerCache,
    coordination_of,
    error_policy_of,
    is_ordered,
    trainer_of,
)
from penstock.reader.arguments import Asked, filled_in
from penstock.reader.external_state import refuse_weak
from penstock.reader.node import Distribute, RemotePipeline

D = TypeVar("D", bound=DatasetBase)


class Distribution(Protocol):
    """A function for `Dataset.apply`, returned by `distribute`."""

    def __call__(self, dataset: D, /) -> D:
        """Return a dataset with the elements of *dataset*, made by workers."""


log = logging.getLogger("penstock.service")


def distribute(  # noqa: PLR0913, PLR0915  # the reference's parameters, and ours
    processing_mode: ShardingPolicy | str,
    service: str | tuple[str, str],
    job_name: str | None = None,
    consumer_index: int | str | None = None,
    num_consumers: int | None = None,
    max_outstanding_requests: int | None = None,
    data_transfer_protocol: str | None = None,
    compression: str | None = "AUTO",
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
) -> Distribution:
    """Return a function for `Dataset.apply`: workers run all operators before it.

    Operators after it run in the training process. Calling this function runs no function of yours,
    reads no data and opens no connection; the dataset is registered when it is first read. Objects
    that your functions hold are sent at that time: later changes, such as between epochs, do not
    reach the workers. While an iterator is open, this process switches between its threads more
    often (`sys.setswitchinterval`) and keeps more freed memory, in one arena (glibc's ``mallopt``;
    not with ``PENSTOCK_MALLOC=default``).

    With ``Options(autocache=...)`` before it, the first reader measures the pipeline here, for half
    a second or 300 elements, and workers keep its elements in the folder of that option.

    Elements in operators after it (`batch`, `shuffle`, `prefetch`) are not acknowledged until the
    training loop gets them. The iterator's `state` is that of the whole job; see
    `DatasetIterator.state` and `Dataset.iterator` for how to save and resume. Operators that cut
    elements into pieces (`unbatch`, `rebatch`, `window`, `flat_map`, `interleave`) belong before
    it. After it, pieces that they hold are lost if the process dies and the reader has acknowledged
    the element.

    Args:
        processing_mode: `ShardingPolicy.OFF` or ``"parallel_epochs"``: every worker yields the
            whole dataset; `ShardingPolicy.DYNAMIC` or ``"distributed_epoch"``: every element comes
            once; the other policies: every element comes once, and each worker of the dispatcher's
            ``worker_addresses`` has a fixed part.
        service: the dispatcher, as ``"grpc://host:port"``, ``"grpcs://host:port"`` for TLS,
            ``"host:port"`` or ``("grpc", "host:port")``; or ``"env"``: the dispatcher that
            `penstock.cluster_environment` finds, which is ``PENSTOCK_TARGET``, a dispatcher in the
            cluster, or the chief's host at port 7000.
        job_name: readers with the same name share the job's elements, first come, first served.
            Each pass over one dataset object is the job's next repetition. Give each run its own
            name: see *on_finished*. If the launcher names a trial of a search (``PENSTOCK_TRIAL``
            and others), the trial becomes a part of the name.
        consumer_index: the index of this consumer, from 0 on. With *ordered*, consumers get every
            n-th element of one order. Otherwise they read in rounds: in each round, every consumer
            gets the next element of the same task. Batches of one length then reach all replicas
            in one step, if the pipeline makes *num_consumers* of them in a row
            (`bucket_by_sequence_length`, then ``group_by_window(..., window_size=num_consumers)``).
            All replicas make the same number of steps. A *job_name* is needed. ``"env"`` takes the
            index and the number from `penstock.cluster_environment`.
        num_consumers: the number of consumers, the same for all; see *consumer_index*.
        max_outstanding_requests: the number of frames (messages that hold many elements) that may
            be requested at once. By default readers bound bytes instead, to 64 MiB.
        data_transfer_protocol: how elements come from workers: ``"grpc"``, or ``"local"`` from
            workers in this process. A worker that ``"local"`` does not reach is read by gRPC, and
            the log says why. ``"shm"`` reads the memory of workers on this host, and ``"tcp"``
            reads each worker's `data_port`; each fails if that is not possible.
            None takes the nearest way for each worker; see `DatasetIterator.transport`.
        compression: ``"AUTO"``, ``"LZ4"``, ``"ZSTD"`` or None. With AUTO each task compresses
            samples of its frames and compares the time of LZ4 and ZSTD with the time that they save
            on the link. ``penstock status`` shows the choice and the reason.
        cross_trainer_cache: a `CrossTrainerCache`. Workers make each element once for all trainers
            of *job_name*, and keep it in a window. A trainer gets each element once, shared by its
            readers. It skips elements that have left the window, and counts them
            (`DatasetIterator.skipped`). A new trainer begins with the oldest element in the window.
        target_workers: the workers that this job's readers read. ``"AUTO"``: all, but of those with
            the tag ``COLOCATED`` only the ones in a reader's own process. Elements of near workers
            come first: of this process, then of this host, then of others. ``"ANY"``: all, in the
            order of arrival. ``"LOCAL"``: only workers in this process; `iter` fails if there is
            none, and coordinated reads refuse it.
        ordered: whether elements come in one order: that of the source's splits, and within a
            split that of the pipeline, whatever the number of workers, also after crashes, drains
            and resumed saves. If several readers share the job, each gets its elements in that
            order; elements that another reader returns come late. Each split is made by itself, so
            operators that keep something across splits (`shuffle`, `take_while`, `scan`) are
            refused, and readers wait for a slow split. With *consumer_index* k of *num_consumers*
            n, a reader gets the elements k, k + n, k + 2n, … of that order, and there are no
            rounds. If a pipeline has no one order, a warning says why, and consumers read rounds
            from all tasks strictly in turn, from as many tasks as there were workers at the first
            read.
        remainder: what to do with the last elements of a task if they are fewer than
            *num_consumers*: ``"drop"`` leaves them out, ``"pad"`` fills the round with copies and
            marks the copies (`DatasetIterator.padding`), ``"repeat"`` fills it without marks.
        writable: arrays may be written to, which costs a copy.
        timeout: for how many seconds the dispatcher or all workers may be absent before an error
            names them; under static sharding, the worker of a part when the others are read; in
            rounds, another consumer.
        on_finished: what to do if earlier readers of *job_name* have read its pass, or a part of
            it, and you give no saved state. The loop would get only the rest, or nothing.
            ``"error"`` raises `JobUsed`, which says who read what and how to begin again;
            ``"warn"`` logs that; ``"ignore"`` says nothing. If others read a later pass now, the
            name is in use: a reader that comes late gets the end, without an error.
        start_round: the round to begin with, of coordinated reads. After a crash, all consumers
            give the same round, such as the largest `DatasetIterator.round`. By default a consumer
            joins the round that the others have reported.
        patience: if every consumer has fewer buffered rounds than this, they skip a task whose turn
            it is but which is not ready. The default is 4; 0 always waits for the task.
        when_full: what to do about a trainer that is slower than the window is long: ``"skip"``
            lets it skip elements, ``"wait"`` lets all trainers wait for it.
        on_error: what to do if a function raises for an element on a worker. ``"raise"`` stops the
            task: loops get its earlier elements and then the error. ``"skip"`` leaves the element
            out for all readers, counts it, and keeps the first ones as dead letters (``penstock
            status --json``). Coordinated reads refuse ``"skip"``. Elements that
            `Dataset.ignore_errors` leaves out do not count.
        max_errors: with ``on_error="skip"``, how many elements of a pass all workers together may
            leave out. More end the pass with an error for all its readers, within about a second.
            None is any number.
        credentials: the folder of a trainer's or reader's credentials, made by ``penstock keys
            init``, if the dispatcher asks for them. All connections then use TLS, as with
            ``"grpcs://host:port"``. None reads ``PENSTOCK_CREDENTIALS``, unless *service*
            begins with ``grpc://``. A process uses one folder for one dispatcher: the last.
        seed: one seed for the job, the same for all readers. It fixes each shuffle without a seed
            of its own, and each function's ``rng``, on the workers and after `distribute`; each
            pass derives its own. None takes `Options.seed`, set after `distribute` or before it,
            or else a new seed. The order of elements is also fixed with *ordered* or consumers;
            otherwise elements come first come, first served.

    Raises:
        DatasetError: when an argument is malformed; when it is applied to a pipeline that cannot be
            divided among workers, that `balance` made for another number of consumers, or that is
            refused by its own `Options.external_state_policy`.
        DefinitionError: when it is applied to a pipeline that cannot be sent to a worker.

    >>> from penstock_cluster import LocalCluster
    >>> with LocalCluster(workers=1) as cluster:
    ...     by_workers = distribute("distributed_epoch", cluster.target, job_name="squares")
    ...     list(Dataset.range(4).map(lambda x: x * x).apply(by_workers).batch(4))
    [array([0, 1, 4, 9])]
    """
    asked = filled_in(Asked(service, job_name, consumer_index, num_consumers, cross_trainer_cache))
    name = arguments.job_name_of(asked.job_name)
    frames = max_outstanding_requests
    if frames is not None:
        frames = check_count("distribute", "max_outstanding_requests", frames)
    address = arguments.service_of(asked.service, credentials)
    folder = arguments.credentials_of(credentials, asked.service)
    seconds = check_seconds("distribute", "timeout", timeout)
    codec = arguments.codec_of(compression)
    chance = None if seed is None else check_seed("distribute", seed)
    mode = arguments.mode_of(processing_mode)
    finished = arguments.on_finished_of(on_finished)
    coordination = coordination_of(
        asked.consumer_index,
        asked.num_consumers,
        name,
        remainder=remainder,
        ordered=ordered,
        patience=patience,
        start_round=start_round,
    )
    in_order = coordination is None and is_ordered(mode, asked.cache, ordered=ordered)
    trainer = trainer_of(asked.cache, when_full, name, coordinated=coordination is not None)
    errors = error_policy_of(
        on_error, max_errors, coordinated=coordination is not None, static=mode.is_static
    )
    transport = arguments.transport_of(data_transfer_protocol)
    target = arguments.target_workers_of(target_workers, coordinated=coordination is not None)

    def apply(dataset: D, /) -> D:
        if not isinstance(dataset, NestedDataset):
            raise DatasetError(f"distribute applies to a Dataset, not to {dataset!r}")
        options = options_of(dataset.node)
        if options.external_state_policy == ExternalStatePolicy.FAIL:
            refuse_weak(dataset.node)
        _warn_of_caches(dataset.node)
        auto_shard.check(dataset.node, mode)
        root: Node = dataset.node
        cuts: tuple[str, ...] = ()
        if options.autocache.path is not None:
            from penstock.autocache.for_workers import with_chosen_cut  # noqa: PLC0415  few need it

            root, cuts = with_chosen_cut(root, mode)
        remote = RemotePipeline(root, cuts)
        unsplittable = remote.definition.unsplittable  # whatever the mode: it must be sendable
        if mode is Mode.DYNAMIC:
            if unsplittable:
                raise DatasetError(unsplittable)
            if in_order and remote.definition.unordered:
                raise DatasetError(remote.definition.unordered)
            _log_per_task(remote)
        consumers = None if coordination is None else _as_read(remote, mode, coordination)
        node = Distribute(
            remote,
            address,
            mode.value,
            name,
            codec.value,
            target,
            frames,
            bool(writable),
            seconds,
            finished,
            consumers,
            trainer,
            errors,
            transport,
            in_order,
            folder,
            chance,
        )
        return type(dataset)(node)

    return apply


def _as_read(remote: RemotePipeline, mode: Mode, asked: Coordination) -> Coordination:
    """Return how consumers read *remote*: in rounds, or each gets every n-th element of one order.

    Raises:
        DatasetError: when `balance` made its rounds for another number of consumers.
    """
    unordered = remote.definition.unordered
    strided = asked.ordered and mode is Mode.DYNAMIC and not unordered
    balanced = balanced_for(remote.node) or asked.consumers
    if balanced % asked.consumers:
        told = (
            f"balance(num_consumers={balanced}) makes rounds of {balanced} elements, but "
            f"num_consumers={asked.consumers}: give both the same number"
        )
        if not strided:
            raise DatasetError(f"distribute: {told}")
        log.warning(  # a saved state of other ranks needs the pipeline as it was
            "%s. Only to resume, keep the balance of the saved job: each element then keeps its "
            "position, and steps cost less evenly",
            told,
        )
    if strided:
        return asked.without_rounds()
    if asked.ordered and mode is Mode.DYNAMIC:
        log.warning(
            "%s. Consumers now read this pipeline in rounds, and the rounds depend on the number "
            "of workers",
            unordered,
        )
    return asked


def _warn_of_caches(root: Node) -> None:
    for node in idle_caches(root):
        log.warning(
            "%s() before distribute keeps nothing for the next pass, in which workers may get "
            "other elements; only a repeat between the two reads it again. To keep what workers "
            "made, give it a path that they share, or put cache behind distribute; to make it "
            "once for several trainers, give cross_trainer_cache",
            node.op,
        )


def _log_per_task(remote: RemotePipeline) -> None:
    labels = dict.fromkeys(node.label for node in per_task_operators(remote.node))
    if labels:
        log.info("applied to each task's own part of the elements: %s", ", ".join(labels))
