"""`distribute`: what is before it runs on workers, what follows it in the training process."""

from __future__ import annotations

import logging
import os
from typing import Protocol, TypeVar

from penstock.analysis import auto_shard
from penstock.analysis.caching import idle_caches
from penstock.analysis.sharding import per_task_operators
from penstock.element import NestedDataset
from penstock.errors import DatasetError
from penstock.graph.dataset_base import DatasetBase
from penstock.graph.node import Node
from penstock.graph.traversal import options_of
from penstock.options import ExternalStatePolicy, check_count, check_seed
from penstock.protocol.types import Mode, ShardingPolicy
from penstock.reader import arguments
from penstock.reader.coordination import coordination_of, is_ordered
from penstock.reader.error_policy import error_policy_of
from penstock.reader.external_state import refuse_weak
from penstock.reader.launched import Asked, filled_in
from penstock.reader.node import Distribute, RemotePipeline
from penstock.reader.trainer import CrossTrainerCache, trainer_of

D = TypeVar("D", bound=DatasetBase)


class Distribution(Protocol):
    """What `distribute` returns: a function for `Dataset.apply`."""

    def __call__(self, dataset: D, /) -> D:
        """Return a dataset whose elements are those of *dataset*, made by workers."""


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
    """Return a function for `Dataset.apply`: what is before it runs on workers, the rest here.

    Neither that function nor this one runs a user's function, reads data or opens a connection; the
    dataset is registered when it is first read. What functions hold is sent then: if the training
    loop changes such an object later, as between epochs, workers do not see it. While an iterator
    is open this process lets its threads take turns more often (`sys.setswitchinterval`) and keeps
    more freed memory, in one arena (glibc's ``mallopt``; not with ``PENSTOCK_MALLOC=default``).

    Elements in operators behind it (`batch`, `shuffle`, `prefetch`) are unacked until the training
    loop gets them. The iterator's `state` is the whole job's; see `DatasetIterator.state` and
    `Dataset.iterator` for how to save and go on. Operators that cut elements into pieces
    (`unbatch`, `rebatch`, `window`, `flat_map`, `interleave`) belong before it: behind it, what
    they hold of an element when their process dies is lost if its reader had to ack it.

    Args:
        processing_mode: `ShardingPolicy.OFF` or ``"parallel_epochs"``: every worker yields the
            whole dataset; `ShardingPolicy.DYNAMIC` or ``"distributed_epoch"``: every element comes
            once; the other policies: every element comes once, and each worker of the dispatcher's
            ``worker_addresses`` has a fixed part.
        service: the dispatcher, as ``"grpc://host:port"``, ``"grpcs://host:port"`` by TLS,
            ``"host:port"`` or ``("grpc", "host:port")``; or ``"env"``: what
            `penstock.cluster_environment` finds, which is ``PENSTOCK_TARGET``, a dispatcher in the
            cluster, or the chief's host at port 7000.
        job_name: readers of one name share the job's elements, first come, first served. Each
            pass over one dataset object is the job's next repetition. Give each run a name of its
            own: see *on_finished*. A trial of a search that its launcher names
            (``PENSTOCK_TRIAL`` and others) becomes a part of the name.
        consumer_index: which consumer this is, from 0 on, where *num_consumers* read every n-th
            element of one order each (see *ordered*), or in rounds: in each round every one of
            them gets the next element of one and the same task. So batches of one length reach
            all replicas in one step, if the pipeline makes
            *num_consumers* of them in a row (`bucket_by_sequence_length`, then
            ``group_by_window(..., window_size=num_consumers)``), and all make the same number of
            steps. A *job_name* is needed. ``"env"`` takes index and number from what
            `penstock.cluster_environment` finds.
        num_consumers: see *consumer_index*; the same for all.
        max_outstanding_requests: how many frames may be buffered or under way; by default 64 MiB.
        data_transfer_protocol: how elements come from workers: ``"grpc"``, or ``"local"`` from
            workers in this process. A worker that cannot be read so is read by gRPC, and the log
            says why. ``"shm"`` takes them from the memory of workers on this host, and fails
            where that cannot be. None takes the nearest for each worker; see
            `DatasetIterator.transport`.
        compression: ``"AUTO"``, ``"LZ4"``, ``"ZSTD"`` or None. With AUTO each task tries samples of
            its frames, and weighs what LZ4 and ZSTD cost against what they save on the link to its
            readers. ``penstock status`` says what that came to, and why.
        cross_trainer_cache: a `CrossTrainerCache`: what workers make is made once for all trainers
            of *job_name*, and kept in a window on each worker. A trainer gets each element once,
            shared by its readers; what has left the window before is skipped and counted
            (`DatasetIterator.skipped`). A new trainer begins with the oldest element there is.
        target_workers: which workers this job's readers read. ``"AUTO"``: all, but of those with
            the tag ``COLOCATED`` only the ones in a reader's own process; what nearer workers have
            ready comes first: of this process, then of this host, then of others. ``"ANY"``: all,
            and what came first comes first. ``"LOCAL"``: only workers in this process; it is an
            error at `iter` if there is none, and not for coordinated reads.
        ordered: whether elements come in one order: that of the source's splits, and within a
            split that of the pipeline, whatever the number of workers, through crashes, drains and
            resumed saves. Of several readers each gets what it gets in that order; what another
            requeues comes late. Each split is made by itself, so operators that keep something
            across splits (`shuffle`, `take_while`, `scan`) are refused; a slow split is waited for.
            With *consumer_index* k of *num_consumers* n, a reader gets the elements k, k + n,
            k + 2n, … of that order, and there are no rounds. Of a pipeline that has no one order,
            consumers read rounds, from all tasks strictly in turn, from as many as there were
            workers at the first read.
        remainder: what becomes of the last elements of a task if they are fewer than
            *num_consumers*: ``"drop"`` leaves them out, ``"pad"`` fills the round with copies of
            them and marks these (`DatasetIterator.padding`), ``"repeat"`` does not.
        writable: arrays may be written to, which costs a copy.
        timeout: for how many seconds a dispatcher or all workers may be absent before an error
            names them; under static sharding, the worker of a part when the others are read; in
            rounds, another consumer.
        on_finished: what to do if *job_name* was used before: if its pass is over, or was read in
            part, by readers that are gone, and no saved state is given. The loop would get nothing,
            or only what is left. ``"error"`` raises `JobUsed`, which says who read what and how to
            begin again; ``"warn"`` logs that; ``"ignore"`` says nothing. If others read a later
            pass now, the name is in use: a reader that comes late gets the end, without an error.
        start_round: the round to begin with, of coordinated reads: after a crash all go on with
            one that they agree on, say the largest `DatasetIterator.round`. By default it is where
            the others are, as far as they reported.
        patience: a task whose turn it is, and which is not ready, is passed over when every
            consumer has fewer rounds than this in hand; 4 by default, 0 waits for it always.
        when_full: what becomes of a trainer that is slower than the window is long: ``"skip"`` has
            it skip, ``"wait"`` has all trainers wait for it.
        on_error: what becomes of an element for which a function raises on a worker: with
            ``"raise"`` its task goes no further, and loops get the error behind what the task made
            before; with ``"skip"`` it is left out for all readers, counted, and the first ones are
            kept as dead letters (``penstock status --json``). Not for coordinated reads. What
            `Dataset.ignore_errors` leaves out before is another matter, and does not count.
        max_errors: with ``on_error="skip"``, how many elements of a pass may be left out, by all
            workers together; more end the pass with an error for all its readers, within about a
            second. None is any number.
        credentials: the folder of a trainer's or reader's credentials, which ``penstock keys
            init`` makes, for a dispatcher that asks for them; then all goes by TLS, as with
            ``"grpcs://host:port"``. None is what ``PENSTOCK_CREDENTIALS`` says, unless *service*
            begins with ``grpc://``. One process calls one dispatcher with one folder: the last.
        seed: one seed for the job: all readers give the same. It fixes each shuffle that has no
            seed of its own, and each function's ``rng``, on the workers and behind `distribute`;
            each pass derives its own. None takes `Options.seed`, of what is behind `distribute`
            or before it, or else a new one. Which element comes when is fixed, too, with
            *ordered* or consumers; otherwise elements come first come, first served.

    Raises:
        DatasetError: when an argument is malformed; when it is applied to a pipeline that cannot be
            divided among workers, or is refused by its own `Options.external_state_policy`.
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
    seconds = arguments.timeout_of(timeout)
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
        if options_of(dataset.node).external_state_policy == ExternalStatePolicy.FAIL:
            refuse_weak(dataset.node)
        _warn_of_caches(dataset.node)
        remote = RemotePipeline(dataset.node)
        auto_shard.check(dataset.node, mode)
        unsplittable = remote.definition.unsplittable  # whatever the mode: it must be sendable
        if mode is Mode.DYNAMIC:
            if unsplittable:
                raise DatasetError(unsplittable)
            if in_order and remote.definition.unordered:
                raise DatasetError(remote.definition.unordered)
            _log_per_task(remote)
        consumers = coordination
        one_order = mode is Mode.DYNAMIC and not remote.definition.unordered
        if consumers is not None and consumers.ordered and one_order:
            consumers = consumers.without_rounds()  # others read rounds in order
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


def _warn_of_caches(root: Node) -> None:
    for node in idle_caches(root):
        log.warning(
            "cache(%s) before distribute keeps nothing for the next pass, in which workers may get "
            "other elements; only a repeat between the two reads it again. To keep what workers "
            "made, put cache behind distribute; to make it once for several trainers, give "
            "cross_trainer_cache",
            repr(node.filename) if node.filename else "",
        )


def _log_per_task(remote: RemotePipeline) -> None:
    labels = dict.fromkeys(node.label for node in per_task_operators(remote.node))
    if labels:
        log.info("applied to each task's own part of the elements: %s", ", ".join(labels))
