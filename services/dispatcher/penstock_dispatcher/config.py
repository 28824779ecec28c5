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
    """Everything that can be set, from code or from ``PENSTOCK_*`` variables. Times in seconds.

    Names and places are those of tf.data service, without ``_ms``. What it has and this has not:
    ``worker_max_concurrent_snapshots`` (there are no snapshots), and times below zero, which mean
    "never" there (here that is ``math.inf``, of `job_gc_timeout` and `dataset_gc_timeout` alone).

    Raises:
        ConfigError: naming the setting and its value, when it is malformed or contradicts another.

    >>> DispatcherConfig(fault_tolerant_mode=True)
    Traceback (most recent call last):
    penstock.errors.ConfigError: fault_tolerant_mode=True needs a work_dir
    """

    role: ClassVar[str] = "dispatcher"

    port: int = 0
    """The port to listen on; 0 takes any free one."""

    protocol: str | None = None
    """How to talk: ``"grpc"``, the only one there is."""

    work_dir: str | None = None
    """A folder of this dispatcher's own. Its journal is there, and definitions of datasets: with
    the same folder and port a restarted dispatcher goes on where it was. Without one it forgets."""

    fault_tolerant_mode: bool = False
    """Whether a restarted dispatcher must go on where it was: that needs `work_dir`, and with one
    it always does."""

    worker_addresses: tuple[str, ...] | None = None
    """The workers that may register, each entry one of them: ``host:port``; ``host`` or ``host:*``
    is any port of it (so is ``host:%port%``). Under static sharding its place is the number of its
    part. None is any number of any workers, and no static sharding."""

    job_gc_check_interval: float = 10.0
    """Time between looks for what may be forgotten."""

    job_gc_timeout: float = 300.0
    """How long an iteration without readers is kept. What is left of a named job under DYNAMIC
    sharding is kept longer, without a worker: see `gc_dynamic_sharding_jobs`."""

    worker_timeout: float = 5.0
    """The worker lease: how long a worker may be silent before it expires. Short: readers
    wait as long."""

    _: KW_ONLY

    client_timeout: float = 30.0
    """The reader lease: how long a reader may be silent before what it has unacked is requeued, and
    how long readers go on without a dispatcher."""

    consumer_timeout: float = 10.0
    """How long a consumer of coordinated reads may be silent, or not there at all, before loops
    that wait for it get `ConsumerLost`; never longer than `client_timeout`."""

    reassign_static_tasks: bool = False
    """Whether the part of a worker of `worker_addresses` that is not there goes on at another one,
    after `worker_timeout`. If not, it waits for a worker at that address, and readers get an error
    when that takes longer than their own ``timeout``."""

    gc_dynamic_sharding_jobs: bool = False
    """Whether named jobs under DYNAMIC sharding, too, are forgotten after `job_gc_timeout`. If not,
    new readers go on where those before were; if so, that is an error."""

    host: str = "127.0.0.1"
    """The interface to listen on. On loopback, processes of this user are let in and no others;
    other interfaces need `credentials`, or `insecure`."""

    credentials: str | None = None
    """The folder of this role's credentials, as ``penstock keys init`` makes it: TLS and signed
    tokens, on every interface. Files in it may be replaced while this runs."""

    insecure: bool = False
    """Whether everybody who can connect is let in, without TLS, to run code on the workers: for
    networks whose every member is trusted. Each start logs it, and ``penstock status`` shows it."""

    linger: float = 0.0
    """Seconds for which a dispatcher that is told to stop still answers, and says that it ends:
    `penstock run` on other hosts ends what it started there."""

    http_port: int | None = None
    """The port of HTTP, for the page, ``/metrics``, ``/healthz`` and ``/readyz``; 0 takes any free
    one, None is no HTTP."""

    http_host: str = "127.0.0.1"
    """The interface of HTTP. On loopback whoever is on this machine may look; on others it takes
    `credentials`, or `insecure`."""

    health_file: str | None = None
    """A file that is touched each second while this works, and removed at the end: a health check
    looks at its age, which costs less than to start a client."""

    max_calls: int = MAX_CALLS
    """How many calls and streams may be open here at once; more are refused with `Overloaded`."""

    max_calls_per_identity: int = MAX_CALLS_PER_IDENTITY
    """How many of them one identity may have: who a token names, or without one an address."""

    max_connections: int = MAX_CONNECTIONS
    """How many connections there may be; more are closed at once."""

    max_connections_per_identity: int = MAX_CONNECTIONS_PER_IDENTITY
    """How many of them one identity may have, and how many may come from one address without
    showing one: of these the oldest are closed."""

    max_message_bytes: int = MAX_MESSAGE_BYTES
    """How large a heartbeat, or a request with a saved state may be. What is larger is refused."""

    max_http_connections: int = MAX_HTTP_CONNECTIONS
    """How many connections of HTTP there may be. Where there are as many, one that asks for nothing
    is closed for a new one."""

    tensorflow_port: int | None = None
    """A second port, where TensorFlow's own clients are answered: they have no credentials, and
    speak no TLS. Whoever reaches it may read the `tensorflow_datasets`, and do nothing else. None
    is no such port; each start with one logs it."""

    tensorflow_host: str | None = None
    """The interface of `tensorflow_port`; by default `host`."""

    tensorflow_datasets: tuple[str, ...] = ()
    """The ids of datasets that may be read without credentials at `tensorflow_port`, of this
    dispatcher and of workers that have one. `status` shows them."""

    max_openings: int = 256
    """How many datasets and jobs may be being registered and opened at once; more are refused with
    `Overloaded`, which says when to try again, so that those who read already are served."""

    max_jobs: int = 1 << 16
    """How many jobs may be open at once, `max_readers` and `max_datasets` likewise; more are
    refused with `Overloaded`."""

    max_jobs_per_identity: int = 1 << 15
    """How many of them one identity may have opened, since this dispatcher started."""

    max_readers: int = 1 << 16
    """How many readers may be connected."""

    max_readers_per_identity: int = 1 << 15
    """How many of them may be of one identity."""

    max_datasets: int = 1 << 16
    """How many datasets may be registered."""

    durability: str = "process"
    """What the journal outlasts. ``"process"``: the death of this process, however it comes; when
    the machine loses power, its last moments may be gone. ``"power"``: that too, for an fsync with
    each transaction."""

    dataset_gc_timeout: float = 3600.0
    """How long a pipeline is kept that no job uses, and with it the id that `register_dataset` made
    for it. A pipeline with an id of the user's choice is kept for ever."""

    heartbeat_interval: float = 1.0
    """Time between heartbeats of a worker."""

    refresh_interval: float = 1.0
    """Time between heartbeats of a reader."""

    max_name_bytes: int = LONGEST_NAME
    """How long a name may be that users give: of a job, of a trainer, of what is saved."""

    max_registered_bytes: int = 1 << 32
    """How many bytes all registered pipelines may take, on disk or in memory."""

    max_registered_bytes_per_identity: int = 1 << 31
    """How many of them one identity may have brought, since this dispatcher started."""

    max_definition_bytes: int = 1 << 28
    """How large a pipeline may be that a client registers: its functions, and the arrays in it.
    What is larger is refused before it is read; large data belong into files."""

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
