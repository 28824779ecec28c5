"""Settings of a worker, with their defaults and their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from penstock.errors import ConfigError
from penstock.protocol.names import LONGEST_NAME, too_long
from penstock.protocol.nearness import (
    GRPC,
    LOCAL_TRANSPORT,
    MOST_SLOTS,
    MOST_WORDS,
    SHARED_MEMORY,
    TCP,
)
from penstock.runtime import settings
from penstock.runtime.address import is_address
from penstock.runtime.cores import cores
from penstock.runtime.settings import (
    BYTES,
    FINITE,
    FLAG,
    FOLDER,
    Check,
    ServiceSettings,
    is_number,
    text,
    whole,
    words,
)
from penstock.storage.cache_folder import FILE_CACHE_BYTES
from penstock_worker.memory_share import buffer_size

PORT = "%port%"
"""Stands in `WorkerConfig.worker_address` for the port that is bound."""

TRANSPORTS = (GRPC, LOCAL_TRANSPORT)
"""The transports that each worker offers to readers."""

MOST_TAGS = MOST_WORDS - len((*TRANSPORTS, SHARED_MEMORY, TCP))

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
    penstock.errors.ConfigError: dispatcher_address must be host:port or ...
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
    to readers in its own process and, if possible, ``"shm"`` to readers on its host and ``"tcp"``
    to all readers."""

    data_transfer_address: str | None = None
    """The address of `data_transfer_protocol` that readers connect to."""

    data_port: int | None = 0
    """A second port to listen on, at which readers receive elements over plain TCP: that costs
    them less than half the processor time of gRPC. Readers connect to the host of
    `worker_address`. 0 takes any free port; None opens none. A reader that cannot reach the port
    reads by gRPC. With `credentials`, the worker opens no such port."""

    socket_dir: str | None = None
    """The folder of the unix socket for shared memory with readers on this host. By default it
    is a folder of this user for temporary files. Containers of a host must share it under the
    same path. A worker removes its socket at its end, and the sockets of workers that were
    killed. Empty files ``start-N.lock`` stay: with them, the workers of a host limit how many
    tasks start at once."""

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

    cross_trainer_cache_size_bytes: int = CACHE_SIZE
    """How many bytes all tasks of a job with a `CrossTrainerCache` may keep here. It is never
    more than half the memory that the worker may use."""

    drain: float = 10.0
    """Seconds that the worker may take to drain: readers get the elements that are ready, and
    other workers continue its tasks. After that, or with 0, the worker ends and its
    unacknowledged elements are produced again. Give containers more time than this before they
    are killed."""

    file_cache_dir: str | None = None
    """A folder on this host's disk in which the runners keep pieces of remote files, so that the
    host downloads each piece once. Workers of a host may share it. None keeps nothing."""

    file_cache_bytes: int = FILE_CACHE_BYTES
    """How many bytes `file_cache_dir` may hold. If the data is larger, a fixed random part of it
    is kept. The cache also leaves 5 % of the disk free, or 16 GiB of a larger disk."""

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
    passes all variables or, with `credentials`, only the usual ones and those in which object
    stores look for credentials, such as ``AWS_*`` and ``HF_*``. Runners never get the variable
    that names the worker's credentials."""

    runner_read_only: bool = False
    """Forbid runners to change files, except below `runner_writable` and ``/dev`` (Landlock,
    Linux 6.2). With `credentials` and no `runner_user`, runners can never read or change that
    folder, nor create files directly in the folders above it."""

    runner_writable: tuple[str, ...] = ()
    """Absolute paths that runners may change even with `runner_read_only`, such as ``/tmp``."""

    checks: ClassVar[Mapping[str, Check]] = {
        "dispatcher_address": Check(
            "host:port or grpc://host:port, with a port from 1 to 65535",
            lambda v: is_address(_plain(v)),
        ),
        "worker_address": Check(
            f"host:port or host:{PORT}",
            lambda v: isinstance(v, str) and is_address(v.replace(PORT, "1", 1)),
        ),
        "data_transfer_protocol": Check(
            f"one of {', '.join(map(repr, TRANSPORTS))}, which each worker offers",
            lambda v: v in ("", *TRANSPORTS),
        ),
        "data_port": Check(
            "a port, 0 (any free one), or None for no such port",
            lambda v: v is None or settings.PORT.fits(v),
        ),
        "socket_dir": text("the path of a folder"),
        "worker_tags": Check(
            f"a tuple of at most {MOST_TAGS} words of 1 to {LONGEST_NAME} bytes",
            lambda v: words("").fits(v) and len(v) <= MOST_TAGS and not any(map(too_long, v)),
        ),
        "heartbeat_interval": FINITE,
        "dispatcher_timeout": FINITE,
        "drain": Check("a number of seconds from 0 on", lambda v: is_number(v, 0)),
        "slots": whole(f"a number of tasks from 1 to {MOST_SLOTS}", 1, MOST_SLOTS),
        "buffer_bytes": BYTES,
        "total_buffer_bytes": BYTES,
        "cross_trainer_cache_size_bytes": BYTES,
        "file_cache_dir": FOLDER,
        "file_cache_bytes": BYTES,
        "runner_memory_bytes": whole(
            f"a number of bytes from {LEAST} on (64 MiB: Python and NumPy alone need that)", LEAST
        ),
        "runner_niceness": whole(f"an integer from 0 to {MOST_NICE}", 0, MOST_NICE),
        "runner_user": text("the name of a user"),
        "runner_environment": words("a tuple of names"),
        "runner_read_only": FLAG,
        "runner_writable": Check(
            "a tuple of absolute paths",
            lambda v: words("").fits(v) and all(path.startswith("/") for path in v),
        ),
    }

    def __post_init__(self) -> None:
        self.check_values()
        if self.dispatcher_address is not None:
            self._check_scheme(self.dispatcher_address)
            object.__setattr__(self, "dispatcher_address", _plain(self.dispatcher_address))
        if self.runner_writable and not self.runner_read_only:
            raise ConfigError(
                f"runner_writable={self.runner_writable!r} goes with runner_read_only=True: "
                "without it, runners may change all files that their user may change"
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
    return plain.removeprefix("grpc://").removeprefix("grpcs://")
