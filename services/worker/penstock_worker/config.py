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
    """All settings of a worker, from code or ``PENSTOCK_*`` variables. Times are in seconds.

    Raises:
        ConfigError: naming the setting and its value, when it is malformed.

    >>> WorkerConfig(dispatcher_address="dispatcher")
    Traceback (most recent call last):
    penstock.errors.ConfigError: dispatcher_address must look like host:port or ...
    """

    role: ClassVar[str] = "worker"

    dispatcher_address: str | None = None
    """The dispatcher's address: ``host:port``, ``grpc://host:port``, or with `credentials`
    ``grpcs://host:port``. A worker needs one."""

    worker_address: str | None = None
    """The address that readers connect to. ``%port%`` stands for the bound port. By default it
    is `host`, or this machine's name if `host` means all interfaces."""

    port: int = 0
    """The port to listen on. 0 takes any free port."""

    protocol: str | None = None
    """The protocol: ``"grpc"``, the only one."""

    heartbeat_interval: float | None = None
    """Seconds between heartbeats to the dispatcher. By default the dispatcher decides."""

    dispatcher_timeout: float | None = None
    """Seconds to wait for the dispatcher when the worker starts; 60 by default. A worker that
    has registered once waits forever."""

    data_transfer_protocol: str | None = None
    """The name of a transport that readers may use. Every worker offers ``"grpc"``, ``"local"``
    to readers in its own process and, if possible, ``"shm"`` to readers on its host."""

    data_transfer_address: str | None = None
    """The address of `data_transfer_protocol` that readers connect to."""

    socket_dir: str | None = None
    """The folder of the unix socket for shared memory with readers on this host. By default it
    is a folder of this user for temporary files. Containers of a host must share it under the
    same path. A worker removes its socket at its end, and the sockets of workers that were
    killed. Empty files ``start-N.lock`` stay: with them, the workers of a host limit how many
    tasks start at once."""

    host: str = "127.0.0.1"
    """The interface to listen on. On loopback, the service accepts only processes of this user.
    Other interfaces need `credentials` or `insecure`."""

    worker_tags: tuple[str, ...] = ()
    """Tags of this worker, shown in its status. A worker with the tag ``COLOCATED`` is for the
    training process that it runs in. Other readers read it only with ``target_workers="ANY"``."""

    slots: int | None = None
    """How many tasks of a `DYNAMIC` job run at once, each in a process of its own. By default
    it is the number of cores that this process may use (CPU affinity and container limit). Jobs
    share the slots. Other policies, coordinated reads and caches give a job one task on the
    worker, which AUTOTUNE may spread over as many processes."""

    buffer_bytes: int = 64 << 20
    """How many bytes of a job the worker may produce before readers acknowledge them. Tasks
    that run at once share them equally."""

    total_buffer_bytes: int | None = None
    """The same for all jobs together, except jobs with a cache. By default it is a quarter of
    the memory that the worker may use. If the `buffer_bytes` of all jobs would be more, their
    tasks share this number equally, with at least 4 MiB for each task."""

    max_element_bytes: int = 1 << 30
    """The largest element that the worker delivers. A larger one is an error of its task."""

    cross_trainer_cache_size_bytes: int = CACHE_SIZE
    """How many bytes all tasks of a job with a `CrossTrainerCache` may keep here. It is never
    more than half the memory that the worker may use."""

    drain: float = 10.0
    """Seconds that the worker may take to drain: readers get the elements that are ready, and
    other workers continue its tasks. After that, or with 0, the worker ends and its
    unacknowledged elements are produced again. Give containers more time than this before they
    are killed."""

    credentials: str | None = None
    """The folder of this role's credentials, made by ``penstock keys init``. With it, the
    service uses TLS and signed tokens on every interface. You can replace its files while the
    service runs."""

    insecure: bool = False
    """Accept every client that can connect, without TLS. Clients can read all elements, so use
    it only in a network whose members you trust. Each start logs it, and the worker's status
    shows it."""

    http_port: int | None = None
    """The port for HTTP: ``/metrics``, ``/healthz`` and ``/readyz``. 0 takes any free port.
    By default there is no HTTP."""

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
    """How large a request of a reader may be. The worker refuses a larger one."""

    max_http_connections: int = MAX_HTTP_CONNECTIONS
    """How many HTTP connections there may be. At this number, the service closes an idle one
    for each new one."""

    tensorflow_port: int | None = None
    """An extra port for TensorFlow's own clients, which have no credentials and speak no TLS.
    Everyone who reaches it can read the dispatcher's `tensorflow_datasets`, and do nothing
    else. None opens no such port. Each start with one logs it."""

    tensorflow_host: str | None = None
    """The interface of `tensorflow_port`. By default it is `host`."""

    runner_memory_bytes: int | None = None
    """How many bytes of memory a runner may have, without the elements that it has made. None
    sets no limit. A function that asks for more gets a `MemoryError`."""

    runner_niceness: int = 10
    """The niceness (`os.nice`, 0 to 19) of runners above the worker's. If cores are scarce, the
    worker and a training loop on the same host then run before the runners."""

    runner_user: str | None = None
    """The user of the runners, who cannot read this worker's credentials. root must start the
    worker. None is the worker's own user."""

    runner_environment: tuple[str, ...] | None = None
    """Names of the environment variables that runners get, as patterns such as ``AWS_*``. None
    passes all variables or, with `credentials`, only the usual ones. Runners never get the
    variable that names the credentials."""

    runner_read_only: bool = False
    """Forbid runners to change files, except below `runner_writable` and ``/dev`` (Landlock,
    Linux 6.2). With `credentials` and no `runner_user`, runners can never read or change that
    folder, nor create files directly in the folders above it."""

    runner_writable: tuple[str, ...] = ()
    """Absolute paths that runners may change even with `runner_read_only`, such as ``/tmp``."""

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
