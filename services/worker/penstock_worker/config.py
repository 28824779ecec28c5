"""Settings of a worker, with their defaults and their reasons."""

from __future__ import annotations

from dataclasses import dataclass
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
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.nearness import GRPC, LOCAL_TRANSPORT, MOST_SLOTS, MOST_WORDS
from penstock.runtime.address import is_address
from penstock.runtime.cores import cores
from penstock.runtime.settings import ServiceSettings, is_number
from penstock_worker.memory_share import buffer_size

PORT = "%port%"
"""Stands in `WorkerConfig.worker_address` for the port that is bound."""

TRANSPORTS = (GRPC, LOCAL_TRANSPORT)
"""What each worker offers to readers."""

DISPATCHER_TIMEOUT = 60.0

LEAST = 64 << 20
"""Bytes of memory that a runner needs."""

MOST_NICE = 19

CACHE_SIZE = 10 << 30


@dataclass(frozen=True, slots=True)
class WorkerConfig(ServiceSettings):
    """Everything that can be set, from code or from ``PENSTOCK_*`` variables. Times in seconds.

    Raises:
        ConfigError: naming the setting and its value, when it is malformed.

    >>> WorkerConfig(dispatcher_address="dispatcher")
    Traceback (most recent call last):
    penstock.errors.ConfigError: dispatcher_address must look like host:port or ...
    """

    role: ClassVar[str] = "worker"

    dispatcher_address: str | None = None
    """Where the dispatcher is: ``host:port``, ``grpc://host:port``, or with `credentials`
    ``grpcs://host:port``. A worker needs one."""

    worker_address: str | None = None
    """The address that readers are told, with ``%port%`` for the port that is bound.

    By default it is `host`, or this machine's name where `host` means all interfaces.
    """

    port: int = 0
    """The port to listen on; 0 takes any free one."""

    protocol: str | None = None
    """How to talk: ``"grpc"``, the only one there is."""

    heartbeat_interval: float | None = None
    """Time between heartbeats to the dispatcher; by default what the dispatcher asks for."""

    dispatcher_timeout: float | None = None
    """How long the dispatcher may be absent when the worker starts; 60 s by default. A worker
    that has been registered waits for ever."""

    data_transfer_protocol: str | None = None
    """The name of a transport that readers may use. Each worker offers ``"grpc"``, ``"local"`` to
    readers in its own process, and ``"shm"`` to readers on its host where that can be."""

    data_transfer_address: str | None = None
    """The address that readers are told for `data_transfer_protocol`."""

    socket_dir: str | None = None
    """The folder of the unix socket by which readers on this host share memory with this worker;
    by default one of this user's own, for temporary files. Containers of a host have to share it,
    under the same path. A worker leaves no socket behind, and removes those that killed ones left.
    Its empty files ``start-N.lock`` stay: by them the workers of a host let few runs begin at once.
    """

    host: str = "127.0.0.1"
    """The interface to listen on. On loopback, processes of this user are let in and no others;
    other interfaces need `credentials`, or `insecure`."""

    worker_tags: tuple[str, ...] = ()
    """Words about this worker, shown in its status. With ``COLOCATED`` among them the worker is for
    the training process that it runs in: readers in others read it only with
    ``target_workers="ANY"``."""

    slots: int | None = None
    """How many tasks of a `DYNAMIC` job run here at once, each in a process of its own; by default
    the cores that this process may use, as affinity and control groups have it. Jobs share them.
    With other policies, in coordinated reads and with a cache a job has one task here, which
    AUTOTUNE may spread over as many processes."""

    buffer_bytes: int = 64 << 20
    """How many bytes of a job may be produced here before they are acked. Tasks that run at once
    share them equally."""

    total_buffer_bytes: int | None = None
    """How many bytes of all jobs may be produced here before they are acked, but for those with a
    cache; by default a quarter of the memory that the worker may use. Where their `buffer_bytes`
    would be more, their tasks have equal parts of it, of 4 MiB at least."""

    max_element_bytes: int = 1 << 30
    """The largest element that is delivered; a larger one is an error of its task."""

    cross_trainer_cache_size_bytes: int = CACHE_SIZE
    """How many bytes the tasks of a job with a `CrossTrainerCache` may keep here, together. It is
    never more than half the memory that the worker may use."""

    drain: float = 10.0
    """How long the worker may take to drain when it is told to: readers get what is there, and the
    tasks go on elsewhere from just there. After that, or with 0, it just ends, and what readers
    had not acked is replayed. Give containers longer than this before they are killed."""

    credentials: str | None = None
    """The folder of this role's credentials, as ``penstock keys init`` makes it: TLS and signed
    tokens, on every interface. Files in it may be replaced while this runs."""

    insecure: bool = False
    """Whether everybody who can connect is let in, without TLS, to read what is made here: for
    networks whose every member is trusted. Each start logs it, and its status shows it."""

    http_port: int | None = None
    """The port of HTTP, for ``/metrics``, ``/healthz`` and ``/readyz``; 0 takes any free one, None
    is no HTTP."""

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
    """How large a request of a reader may be. What is larger is refused."""

    max_http_connections: int = MAX_HTTP_CONNECTIONS
    """How many connections of HTTP there may be. Where there are as many, one that asks for nothing
    is closed for a new one."""

    tensorflow_port: int | None = None
    """A second port, where TensorFlow's own clients are answered: they have no credentials, and
    speak no TLS. Whoever reaches it may read what the dispatcher's `tensorflow_datasets` name, and
    do nothing else. None is no such port; each start with one logs it."""

    tensorflow_host: str | None = None
    """The interface of `tensorflow_port`; by default `host`."""

    runner_memory_bytes: int | None = None
    """How much memory of its own a runner may have, in bytes, without what it has made; None is no
    bound. What a function asks for beyond it is a `MemoryError` of that function."""

    runner_niceness: int = 10
    """How much nicer (`os.nice`, 0 to 19) runners are than the worker: where there are fewer cores
    than work, what hands elements out goes before what makes them, and so does a training loop on
    the same host. Where nothing else wants the cores it changes nothing."""

    runner_user: str | None = None
    """The user that runners become, who cannot read this worker's credentials; root has to start
    the worker then. None is the worker's own user."""

    runner_environment: tuple[str, ...] | None = None
    """Names of the variables that runners get, as patterns (``AWS_*``). None is all, and with
    `credentials` the usual ones. Which folder credentials are in they never get."""

    runner_read_only: bool = False
    """Whether runners may change no file, but for those below `runner_writable` and ``/dev``. The
    kernel sees to it (Landlock, Linux 6.2). With `credentials` and no `runner_user` they can in any
    case neither read nor change that folder, nor make anything right in those above it."""

    runner_writable: tuple[str, ...] = ()
    """Absolute paths of what runners may change even if `runner_read_only`, as ``/tmp``."""

    def __post_init__(self) -> None:
        self._check_addresses()
        self._check_socket_dir()
        for name, least in {"heartbeat_interval": 0.001, "dispatcher_timeout": 0.001}.items():
            value = getattr(self, name)
            if value is not None and not is_number(value, least):
                raise ConfigError(f"{name} must be a positive number of seconds, not {value!r}")
        if not is_number(self.drain, 0):
            raise ConfigError(f"drain must be a number of seconds from 0 on, not {self.drain!r}")
        self._check_runners()
        for name in ("buffer_bytes", "max_element_bytes", "cross_trainer_cache_size_bytes"):
            value = getattr(self, name)
            self._check_bytes(name, value)
        if self.total_buffer_bytes is not None:
            self._check_bytes("total_buffer_bytes", self.total_buffer_bytes)
        if self.slots is not None and (
            not isinstance(self.slots, int) or not is_number(self.slots, 1)
        ):
            raise ConfigError(f"slots must be a number of tasks from 1 on, not {self.slots!r}")
        if self.slots is not None and self.slots > MOST_SLOTS:
            raise ConfigError(f"slots must be at most {MOST_SLOTS}, not {self.slots!r}")
        tags = self.worker_tags
        if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
            raise ConfigError(f"worker_tags must be a tuple of non-empty words, not {tags!r}")
        if len(tags) > MOST_WORDS - len(TRANSPORTS) or any(map(too_long, tags)):
            raise ConfigError(
                f"worker_tags may be {MOST_WORDS - len(TRANSPORTS)} words of {LONGEST_NAME} bytes, "
                f"not {tags!r}"
            )
        object.__setattr__(self, "worker_tags", tuple(tags))

    def _check_bytes(self, name: str, value: object) -> None:
        if not isinstance(value, int) or not is_number(value, 1):
            raise ConfigError(f"{name} must be a positive number of bytes, not {value!r}")

    def _check_runners(self) -> None:
        memory, user, names = self.runner_memory_bytes, self.runner_user, self.runner_environment
        if memory is not None and (not isinstance(memory, int) or not is_number(memory, LEAST)):
            raise ConfigError(
                f"runner_memory_bytes must be a number of bytes from {LEAST} on (64 MiB: Python "
                f"and NumPy alone need that), not {memory!r}"
            )
        nice = self.runner_niceness
        if isinstance(nice, bool) or not isinstance(nice, int) or not 0 <= nice <= MOST_NICE:
            raise ConfigError(
                f"runner_niceness must be an integer from 0 to {MOST_NICE}, not {nice!r}"
            )
        if user is not None and not (isinstance(user, str) and user):
            raise ConfigError(f"runner_user must be the name of a user, not {user!r}")
        if names is not None:
            if isinstance(names, str) or not all(isinstance(one, str) and one for one in names):
                raise ConfigError(f"runner_environment must be a tuple of names, not {names!r}")
            object.__setattr__(self, "runner_environment", tuple(names))
        self._check_runner_files()

    def _check_runner_files(self) -> None:
        if not isinstance(self.runner_read_only, bool):
            raise ConfigError(
                f"runner_read_only must be True or False, not {self.runner_read_only!r}"
            )
        paths = self.runner_writable
        if isinstance(paths, str) or not all(
            isinstance(one, str) and one.startswith("/") for one in paths
        ):
            raise ConfigError(f"runner_writable must be a tuple of absolute paths, not {paths!r}")
        if paths and not self.runner_read_only:
            raise ConfigError(
                f"runner_writable={paths!r} goes with runner_read_only=True: without it runners "
                "may change whatever their user may"
            )
        object.__setattr__(self, "runner_writable", tuple(paths))

    def _check_socket_dir(self) -> None:
        if self.socket_dir is not None and not (
            isinstance(self.socket_dir, str) and self.socket_dir
        ):
            raise ConfigError(f"socket_dir must be the path of a folder, not {self.socket_dir!r}")

    def _check_addresses(self) -> None:
        self._check_listening()
        if self.data_transfer_protocol not in (None, "", *TRANSPORTS):
            raise ConfigError(
                f"data_transfer_protocol must be one of {', '.join(map(repr, TRANSPORTS))}, which "
                f"each worker offers, not {self.data_transfer_protocol!r}"
            )
        if self.dispatcher_address is not None:
            self._check_scheme(str(self.dispatcher_address))
            object.__setattr__(self, "dispatcher_address", _plain(self.dispatcher_address))
        template = self.worker_address
        fits = isinstance(template, str) and is_address(template.replace(PORT, "1", 1))
        if template is not None and not fits:
            raise ConfigError(
                f"worker_address must look like host:port or host:{PORT}, not {template!r}"
            )

    def _check_scheme(self, address: str) -> None:
        if address.startswith("grpcs://") and not self.credentials:
            raise ConfigError(
                f"dispatcher_address={address!r} asks for TLS: give credentials=FOLDER "
                "(--credentials, PENSTOCK_CREDENTIALS), which `penstock keys init` makes"
            )
        if address.startswith("grpc://") and self.credentials:
            raise ConfigError(
                f"dispatcher_address={address!r} asks for no TLS, and there are credentials: "
                "say grpcs://, or leave the credentials out"
            )

    @property
    def slot_count(self) -> int:
        """How many slots there are."""
        return min(cores(), MOST_SLOTS) if self.slots is None else self.slots

    @property
    def total_buffer_size(self) -> int:
        """How many bytes of all jobs there may be."""
        return buffer_size() if self.total_buffer_bytes is None else self.total_buffer_bytes

    @property
    def patience(self) -> float:
        """Seconds that the dispatcher may be absent at the start."""
        return DISPATCHER_TIMEOUT if self.dispatcher_timeout is None else self.dispatcher_timeout


def _plain(address: object) -> str:
    """Return *address* of the dispatcher without ``grpc://`` or ``grpcs://``."""
    plain = address if isinstance(address, str) else ""
    plain = plain.removeprefix("grpc://").removeprefix("grpcs://")
    if not is_address(plain):
        raise ConfigError(
            "dispatcher_address must look like host:port or grpc://host:port, with a port from 1 "
            f"to 65535, not {address!r}"
        )
    return plain
