"""Settings of the dispatcher, with their defaults and their reasons."""

from __future__ import annotations

import math
import os
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from penstock.credentials.entrance import (
    MAX_CALLS,
    MAX_CALLS_PER_IDENTITY,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_IDENTITY,
    MAX_HTTP_CONNECTIONS,
    MAX_MESSAGE_BYTES,
)
from penstock.errors import ConfigError
from penstock.protocol.names import LONGEST_NAME
from penstock.runtime.settings import MOST_BYTES, ServiceSettings, check_bound, is_number
from penstock_dispatcher.core.settings import CoreSettings
from penstock_dispatcher.core.worker_list import is_exact
from penstock_dispatcher.registered_bytes import RegisteredBytes

DURABILITIES = ("process", "power")
COUNTS = (
    "max_openings",
    "max_jobs",
    "max_jobs_per_identity",
    "max_readers",
    "max_readers_per_identity",
    "max_datasets",
)
SUMS = ("max_registered_bytes", "max_registered_bytes_per_identity")
MOST_SUM = 1 << 62


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
    """A folder of this dispatcher alone, for its journal and the definitions of datasets. A
    dispatcher that restarts with the same folder and port continues all jobs. Without a folder
    it forgets them."""

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

    host: str = "127.0.0.1"
    """The interface to listen on. On loopback, the service accepts only processes of this user.
    Other interfaces need `credentials` or `insecure`."""

    credentials: str | None = None
    """The folder of this role's credentials, made by ``penstock keys init``. With it, the
    service uses TLS and signed tokens on every interface. You can replace its files while the
    service runs."""

    insecure: bool = False
    """Accept every client that can connect, without TLS. Clients can run code on the workers,
    so use it only in a network whose members you trust. Each start logs it, and ``penstock
    status`` shows it."""

    linger: float = 0.0
    """Seconds for which a stopped dispatcher still answers and says that it ends. On other
    hosts, `penstock run` then stops its workers."""

    http_port: int | None = None
    """The port for HTTP: the page, ``/metrics``, ``/healthz`` and ``/readyz``. 0 takes any free
    port. By default there is no HTTP."""

    http_host: str = "127.0.0.1"
    """The interface for HTTP. On loopback, every user of this machine may read. Other
    interfaces need `credentials` or `insecure`."""

    health_file: str | None = None
    """A file that the service touches every second while it works, and removes at its end. A
    health check reads its age, which costs less than starting a client."""

    max_calls: int = MAX_CALLS
    """How many calls and streams may be open at once. The service refuses more with
    `Overloaded`."""

    max_calls_per_identity: int = MAX_CALLS_PER_IDENTITY
    """How many calls and streams one identity may have open. An identity is the name in a token
    or, without a token, an address."""

    max_connections: int = MAX_CONNECTIONS
    """How many connections there may be. The service closes further ones at once."""

    max_connections_per_identity: int = MAX_CONNECTIONS_PER_IDENTITY
    """How many connections one identity may have, and how many one address may have without
    showing an identity. Of the latter, the service closes the oldest."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    """How large a heartbeat or a request with a saved state may be. The service refuses a
    larger one."""

    max_http_connections: int = MAX_HTTP_CONNECTIONS
    """How many HTTP connections there may be. At this number, the service closes an idle one
    for each new one."""

    tensorflow_port: int | None = None
    """An extra port for TensorFlow's own clients, which have no credentials and speak no TLS.
    Everyone who reaches it can read the `tensorflow_datasets`, and do nothing else. None opens
    no such port. Each start with one logs it."""

    tensorflow_host: str | None = None
    """The interface of `tensorflow_port`. By default it is `host`."""

    tensorflow_datasets: tuple[str, ...] = ()
    """The ids of datasets that TensorFlow's own clients may read, at the `tensorflow_port` of
    this dispatcher and of workers. `status` shows them."""

    max_openings: int = 256
    """How many calls that register datasets or open jobs may run at once. The dispatcher
    refuses more with `Overloaded`, which says when to try again. It so keeps time for connected
    readers."""

    max_jobs: int = 1 << 16
    """How many jobs may be open at once. The dispatcher refuses more with `Overloaded`."""

    max_jobs_per_identity: int = 1 << 15
    """How many jobs one identity may have opened since the dispatcher started."""

    max_readers: int = 1 << 16
    """How many readers may be connected."""

    max_readers_per_identity: int = 1 << 15
    """How many readers of one identity may be connected."""

    max_datasets: int = 1 << 16
    """How many datasets may be registered."""

    durability: str = "process"
    """What the journal survives: a crash of the process (``"process"``), or also a power failure
    (``"power"``). With ``"process"``, a power failure may lose the last decisions; ``"power"``
    costs an fsync for each transaction."""

    dataset_gc_timeout: float = 3600.0
    """Seconds to keep a dataset that no job uses, with an id that `register_dataset` chose. A
    dataset with an id of your choice is kept forever."""

    heartbeat_interval: float = 1.0
    """Seconds between heartbeats of a worker."""

    refresh_interval: float = 1.0
    """Seconds between heartbeats of a reader."""

    max_name_bytes: int = LONGEST_NAME
    """How many bytes the name of a job, a trainer or a save may have."""

    max_registered_bytes: int = 1 << 32
    """How many bytes all registered datasets may take, on disk or in memory."""

    max_registered_bytes_per_identity: int = 1 << 31
    """How many bytes one identity may have registered since the dispatcher started."""

    max_definition_bytes: int = 1 << 28
    """How large a dataset may be when a client registers it, with its functions and arrays. The
    dispatcher refuses a larger one before it reads it. Put large data into files."""

    def __post_init__(self) -> None:
        self._check_listening()
        self._check_work_dir()
        if self.worker_addresses is not None:
            self._check_workers(self.worker_addresses)
        for name in (
            "job_gc_check_interval",
            "job_gc_timeout",
            "dataset_gc_timeout",
            "worker_timeout",
            "client_timeout",
            "consumer_timeout",
            "heartbeat_interval",
            "refresh_interval",
        ):
            self._check_time(name)
        self._check_definition()
        self._check_opened()
        for name in COUNTS:
            check_bound(name, getattr(self, name))
        self._check_pair("worker_timeout", "heartbeat_interval")
        self._check_pair("client_timeout", "refresh_interval")
        self._check_pair("consumer_timeout", "refresh_interval")

    @property
    def after_fault(self) -> str:
        """What is left when it stops by a fault, in words."""
        if self.work_dir is None:
            return "it has no work_dir, so what it knew is lost"
        return "what it acknowledged is on disk: start it again"

    @property
    def outlasts_power(self) -> bool:
        """Whether acknowledged facts survive a power failure."""
        return self.durability == "power"

    @property
    def of_definitions(self) -> tuple[int, RegisteredBytes]:
        """How large one may be, and what counts what they take together."""
        sums = self.max_registered_bytes, self.max_registered_bytes_per_identity
        return self.max_definition_bytes, RegisteredBytes(*sums)

    @property
    def of_readers(self) -> tuple[int, str, str]:
        """How many of them an identity may have, and how that is said."""
        return self.max_readers_per_identity, "readers connected", "max_readers_per_identity"

    @property
    def settings(self) -> CoreSettings:
        """What decisions depend on."""
        consumer_lease = min(self.consumer_timeout, self.client_timeout)
        shortest = min(self.worker_timeout, consumer_lease)
        return CoreSettings(
            worker_lease=self.worker_timeout,
            reader_lease=self.client_timeout,
            consumer_lease=consumer_lease,
            heartbeat_interval=self.heartbeat_interval,
            refresh_interval=self.refresh_interval,
            idle=self.job_gc_timeout,
            gc_dynamic=self.gc_dynamic_sharding_jobs,
            dataset_idle=self.dataset_gc_timeout,
            sweep_interval=self.job_gc_check_interval,
            tick_interval=min(0.25, shortest / 8),
            worker_addresses=self.worker_addresses or (),
            reassign_static_tasks=self.reassign_static_tasks,
            max_jobs=self.max_jobs,
            max_jobs_per_identity=self.max_jobs_per_identity,
            max_readers=self.max_readers,
            max_datasets=self.max_datasets,
        )

    def _check_work_dir(self) -> None:
        for name in ("fault_tolerant_mode", "gc_dynamic_sharding_jobs", "reassign_static_tasks"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.work_dir is not None:
            if not isinstance(self.work_dir, str | os.PathLike) or not os.fspath(self.work_dir):
                raise ConfigError(f"work_dir must be a folder's path, not {self.work_dir!r}")
            object.__setattr__(self, "work_dir", os.fspath(self.work_dir))
        if self.fault_tolerant_mode and self.work_dir is None:
            raise ConfigError("fault_tolerant_mode=True needs a work_dir")
        if self.durability not in DURABILITIES:
            raise ConfigError(
                f"durability must be one of {', '.join(DURABILITIES)}, not {self.durability!r}"
            )

    def _check_workers(self, entries: tuple[str, ...]) -> None:
        if isinstance(entries, str) or not all(isinstance(e, str) and e for e in entries):
            raise ConfigError(f"worker_addresses must be a list of addresses, not {entries!r}")
        twice = [e for e in entries if entries.count(e) > 1 and is_exact(e)]
        if twice:
            raise ConfigError(
                f"worker_addresses names {twice[0]} twice: a worker has one place in the list; "
                "name each host:port once"
            )
        object.__setattr__(self, "worker_addresses", tuple(entries))

    def _check_opened(self) -> None:
        names, port = self.tensorflow_datasets, self.tensorflow_port
        if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
            raise ConfigError(f"tensorflow_datasets must be a tuple of ids, not {names!r}")
        if bool(names) != (port is not None):
            raise ConfigError(
                f"tensorflow_port={port!r} and tensorflow_datasets={names!r} go together: name the "
                "datasets that everybody who reaches the port may read, and no others"
            )
        object.__setattr__(self, "tensorflow_datasets", tuple(names))

    def _check_definition(self) -> None:
        check_bound("max_definition_bytes", self.max_definition_bytes, MOST_BYTES)
        check_bound("max_name_bytes", self.max_name_bytes, LONGEST_NAME)
        for name in SUMS:
            check_bound(name, getattr(self, name), MOST_SUM)

    def _check_time(self, name: str) -> None:
        value = getattr(self, name)
        if not is_number(value, 0) or value == 0:
            raise ConfigError(f"{name} must be a positive number of seconds, not {value!r}")
        if math.isinf(value) and name not in {"job_gc_timeout", "dataset_gc_timeout"}:
            raise ConfigError(f"{name} must be finite, not {value!r}")
        object.__setattr__(self, name, float(value))

    def _check_pair(self, lease: str, interval: str) -> None:
        if getattr(self, lease) < 2 * getattr(self, interval):
            raise ConfigError(
                f"{lease}={getattr(self, lease):g} must be at least twice "
                f"{interval}={getattr(self, interval):g}: a lost heartbeat must not expire it"
            )
