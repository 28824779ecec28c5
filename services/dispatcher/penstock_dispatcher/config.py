"""Settings of the dispatcher, with their defaults and their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from penstock.errors import ConfigError
from penstock.runtime.settings import FINITE, FLAG, FOLDER, SECONDS, Check, ServiceSettings, words
from penstock_dispatcher.core.settings import CoreSettings, is_exact

DURABILITIES = ("process", "power")


@dataclass(frozen=True, slots=True)
class DispatcherConfig(ServiceSettings):
    """All settings of a dispatcher, from code or ``PENSTOCK_*`` variables. Times are in seconds.

    Names are those of tf.data service, without ``_ms``. Two things differ: there is no
    ``worker_max_concurrent_snapshots``, and a time below zero does not mean "never". For that,
    `job_gc_timeout` and `dataset_gc_timeout` accept ``math.inf``.

    Raises:
        ConfigError: naming the setting and its value, when it is malformed or contradicts another.

    >>> DispatcherConfig(fault_tolerant_mode=True)
    Traceback (most recent call last):
    penstock.errors.ConfigError: fault_tolerant_mode=True needs a work_dir
    """

    role: ClassVar[str] = "dispatcher"

    port: int = 0
    """The port to listen on. 0 takes any free port."""

    protocol: str | None = None
    """The protocol: ``"grpc"``, the only one."""

    work_dir: str | None = None
    """A folder that only this dispatcher uses. It holds the journal and the definitions of
    datasets. A dispatcher that restarts with the same folder and port continues all jobs. Without a
    folder it forgets them, and hosts no saves (`penstock.service.save`)."""

    fault_tolerant_mode: bool = False
    """Require that a restarted dispatcher continues. It then needs a `work_dir`; with one, it
    always continues."""

    worker_addresses: tuple[str, ...] | None = None
    """The workers that may register, one for each entry: ``host:port``, or ``host``, ``host:*``
    or ``host:%port%`` for any port of a host. Under static sharding, a worker's position in
    this list is the number of its part. None accepts any workers, and allows no static
    sharding."""

    job_gc_check_interval: float = 10.0
    """Seconds between searches for passes and datasets to delete."""

    job_gc_timeout: float = 300.0
    """Seconds to keep a pass without readers. A named job under DYNAMIC sharding is kept
    longer, without workers: see `gc_dynamic_sharding_jobs`."""

    worker_timeout: float = 5.0
    """The lease of a worker: after this many seconds of silence it is lost. Readers wait
    this long for its elements."""

    _: KW_ONLY

    client_timeout: float = 30.0
    """The lease of a reader: after this many seconds of silence, other readers get its
    unacknowledged elements. Readers also continue this long without a dispatcher."""

    consumer_timeout: float = 10.0
    """Seconds that a consumer of coordinated reads may be silent or absent before the others
    get `ConsumerLost`. It is at most `client_timeout`."""

    reassign_static_tasks: bool = False
    """Give the part of an absent worker of `worker_addresses` to another worker after
    `worker_timeout`. Otherwise the part waits for its worker, and readers get an error after
    their own ``timeout``."""

    gc_dynamic_sharding_jobs: bool = False
    """Also delete named jobs under DYNAMIC sharding after `job_gc_timeout`, so that later
    readers get an error. Otherwise later readers continue them."""

    tensorflow_datasets: tuple[str, ...] = ()
    """The ids of datasets that TensorFlow's own clients may read, at the `tensorflow_port` of
    this dispatcher and of workers. `status` shows them."""

    durability: str = "process"
    """The fault that the journal survives: a crash of the process (``"process"``), or also a power
    failure (``"power"``). With ``"process"``, a power failure may lose the last decisions.
    ``"power"`` costs an fsync for each transaction."""

    dataset_gc_timeout: float = 3600.0
    """Seconds to keep a dataset that no job uses, with an id that `register_dataset` chose. A
    dataset with an id of your choice is kept forever."""

    heartbeat_interval: float = 1.0
    """Seconds between heartbeats of workers and readers."""

    checks: ClassVar[Mapping[str, Check]] = {
        "fault_tolerant_mode": FLAG,
        "gc_dynamic_sharding_jobs": FLAG,
        "reassign_static_tasks": FLAG,
        "work_dir": FOLDER,
        "worker_addresses": words("a list of addresses"),
        "job_gc_check_interval": FINITE,
        "job_gc_timeout": SECONDS,
        "dataset_gc_timeout": SECONDS,
        "worker_timeout": FINITE,
        "client_timeout": FINITE,
        "consumer_timeout": FINITE,
        "heartbeat_interval": FINITE,
        "tensorflow_datasets": words("a tuple of ids"),
        "durability": Check(f"one of {', '.join(DURABILITIES)}", lambda v: v in DURABILITIES),
    }

    def __post_init__(self) -> None:
        self.check_values()
        if self.fault_tolerant_mode and self.work_dir is None:
            raise ConfigError("fault_tolerant_mode=True needs a work_dir")
        entries = self.worker_addresses or ()
        twice = [e for e in entries if entries.count(e) > 1 and is_exact(e)]
        if twice:
            raise ConfigError(
                f"worker_addresses names {twice[0]} twice: a worker has one position in the list; "
                "name each host:port once"
            )
        if bool(self.tensorflow_datasets) != (self.tensorflow_port is not None):
            raise ConfigError(
                f"tensorflow_port={self.tensorflow_port!r} and tensorflow_datasets="
                f"{self.tensorflow_datasets!r} go together: name the datasets that everybody who "
                "reaches the port may read, and no others"
            )
        for lease in ("worker_timeout", "client_timeout", "consumer_timeout"):
            if getattr(self, lease) < 2 * self.heartbeat_interval:
                raise ConfigError(
                    f"{lease}={getattr(self, lease):g} must be at least twice heartbeat_interval="
                    f"{self.heartbeat_interval:g}: a lost heartbeat must not expire it"
                )

    @property
    def after_fault(self) -> str:
        """The data that a fault leaves behind, in words."""
        if self.work_dir is None:
            return "it has no work_dir, so its jobs are lost"
        return "everything that it acknowledged is on disk: start it again"

    @property
    def outlasts_power(self) -> bool:
        """Whether acknowledged facts survive a power failure."""
        return self.durability == "power"

    @property
    def of_definitions(self) -> tuple[int, int, int]:
        """The largest size of a definition, and of those of all identities and of each one."""
        largest, most = self.limits["max_definition_bytes"], self.limits["max_registered_bytes"]
        return largest, most, self.limits["max_registered_bytes_per_identity"]

    @property
    def of_readers(self) -> tuple[int, str, str]:
        """How many readers an identity may have, in numbers and in words."""
        name = "max_readers_per_identity"
        return self.limits[name], "readers connected", name

    @property
    def settings(self) -> CoreSettings:
        """The settings that decisions depend on."""
        consumer_lease = min(self.consumer_timeout, self.client_timeout)
        shortest = min(self.worker_timeout, consumer_lease)
        return CoreSettings(
            worker_lease=self.worker_timeout,
            reader_lease=self.client_timeout,
            consumer_lease=consumer_lease,
            heartbeat_interval=self.heartbeat_interval,
            refresh_interval=self.heartbeat_interval,
            idle=self.job_gc_timeout,
            gc_dynamic=self.gc_dynamic_sharding_jobs,
            dataset_idle=self.dataset_gc_timeout,
            sweep_interval=self.job_gc_check_interval,
            tick_interval=min(0.25, shortest / 8),
            worker_addresses=self.worker_addresses or (),
            reassign_static_tasks=self.reassign_static_tasks,
            max_jobs=self.limits["max_jobs"],
            max_jobs_per_identity=self.limits["max_jobs_per_identity"],
            max_readers=self.limits["max_readers"],
            max_datasets=self.limits["max_datasets"],
        )
