"""How near workers are to a reader: which of them it may read, and which it prefers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from penstock.protocol.types import WorkerId

GRPC, LOCAL_TRANSPORT = "grpc", "local"
"""Names of the transports that every worker offers."""

SHARED_MEMORY = "shm"
"""The name of the transport within a host, which a worker offers if it can."""

TCP = "tcp"
"""The name of the transport over a TCP connection of its own, which a worker offers if it can."""

COLOCATED = "COLOCATED"
"""The tag of a worker that serves the training host it runs on; case does not matter."""

MOST_WORDS = 64
"""The most tags, or transports, that a worker may have."""

MOST_SLOTS = 4096
"""The most slots that a worker may have."""


class TargetWorkers(Enum):
    """The workers that a job's readers read from."""

    AUTO = "AUTO"
    ANY = "ANY"
    LOCAL = "LOCAL"


class Distance(IntEnum):
    """How far a worker is from a reader; the least is the nearest."""

    SAME_PROCESS = 0
    SAME_HOST = 1
    ELSEWHERE = 2


@dataclass(frozen=True, slots=True)
class WorkerProfile:
    """A worker's description of itself: its *host*, the *transports* that it offers, its *tags*.

    *slots* is how many tasks of one pass with splits it runs at once. A worker without *transports*
    is an older version with gRPC only; a worker without *slots* has one.
    """

    host: str = ""
    transports: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    slots: int = 0
    boot_id: str = ""
    """The id of the kernel that it runs on, the same in all containers of a host."""
    shm_socket: str = ""
    """The socket for readers on the same host; empty if there is none."""
    shm_token: str = ""
    """The secret that a reader gets from the dispatcher and shows at that socket."""
    tensorflow: str = ""
    """The address that serves TensorFlow's clients without credentials; empty if none does."""
    data_port: int = 0
    """The TCP port for readers, at the host of the worker's address; 0 if there is none."""
    data_token: str = ""
    """The secret that a reader gets from the dispatcher and shows at that port."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the transports by which readers can read it."""
        return self.transports or (GRPC,)

    @property
    def colocated(self) -> bool:
        """Whether it serves the training host that it runs on (tag `COLOCATED`)."""
        return bool(self.tags) and any(tag.upper() == COLOCATED for tag in self.tags)


UNKNOWN_WORKER = WorkerProfile()


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker as a reader knows it; *incarnation* is 0 if that is not known."""

    address: WorkerId
    incarnation: int = 0
    profile: WorkerProfile = UNKNOWN_WORKER


def may_read(target: TargetWorkers, profile: WorkerProfile, *, in_process: bool) -> bool:
    """Return whether a reader may read a worker; *in_process*: both are in one process."""
    match target:
        case TargetWorkers.ANY:
            return True
        case TargetWorkers.LOCAL:
            return in_process
        case TargetWorkers.AUTO:
            return in_process or not profile.colocated


def distance(profile: WorkerProfile, host: str, *, in_process: bool, boot_id: str = "") -> Distance:
    """Return how far a worker is from a reader on *host* with the kernel *boot_id*.

    Host names count only if the worker or the reader does not know its kernel.
    """
    if in_process:
        return Distance.SAME_PROCESS
    if boot_id and profile.boot_id:
        return Distance.SAME_HOST if profile.boot_id == boot_id else Distance.ELSEWHERE
    return Distance.SAME_HOST if profile.host and profile.host == host else Distance.ELSEWHERE
