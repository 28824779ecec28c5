"""Where workers are, as seen from a reader: which of them it may read, and which it prefers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from penstock.protocol.types import WorkerId

GRPC, LOCAL_TRANSPORT = "grpc", "local"
"""Names of transports that each worker offers."""

SHARED_MEMORY = "shm"
"""The name of the transport within a host, which a worker offers where it can."""

COLOCATED = "COLOCATED"
"""The tag of a worker that serves the training host it runs on; in capitals or not."""

MOST_WORDS = 64
"""The most tags, or transports, that a worker may have."""

MOST_SLOTS = 4096
"""The most slots that a worker may have."""


class TargetWorkers(Enum):
    """Which workers the readers of a job read."""

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
    """What a worker says of itself: its *host*, the *transports* that it offers, its *tags*.

    *slots* is how many tasks of a pass that draws splits it runs at once. One that says nothing of
    transports is older than that, and has gRPC; one that says nothing of slots has one.
    """

    host: str = ""
    transports: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    slots: int = 0
    boot_id: str = ""
    """What names the kernel that it runs on, to all containers of a host alike."""
    shm_socket: str = ""
    """Where readers on the same host reach it; empty where they cannot."""
    shm_token: str = ""
    """What such a reader must know, which it has from the dispatcher."""
    tensorflow: str = ""
    """Where it answers TensorFlow's clients without credentials; empty where it does not."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The names of the transports that it can be read by."""
        return self.transports or (GRPC,)

    @property
    def colocated(self) -> bool:
        """Whether it is there for the training process that it runs in."""
        return bool(self.tags) and any(tag.upper() == COLOCATED for tag in self.tags)


UNKNOWN_WORKER = WorkerProfile()


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker as a reader is told of it: this *incarnation* of it, 0 if that is not known."""

    address: WorkerId
    incarnation: int = 0
    profile: WorkerProfile = UNKNOWN_WORKER


def may_read(target: TargetWorkers, profile: WorkerProfile, *, in_process: bool) -> bool:
    """Return whether a reader reads a worker, which is *in_process* with it or not."""
    match target:
        case TargetWorkers.ANY:
            return True
        case TargetWorkers.LOCAL:
            return in_process
        case TargetWorkers.AUTO:
            return in_process or not profile.colocated


def distance(profile: WorkerProfile, host: str, *, in_process: bool, boot_id: str = "") -> Distance:
    """Return how far a worker is from a reader on *host*, or where the kernel is *boot_id*.

    Names of hosts count only where one of the two does not know its kernel.
    """
    if in_process:
        return Distance.SAME_PROCESS
    if boot_id and profile.boot_id:
        return Distance.SAME_HOST if profile.boot_id == boot_id else Distance.ELSEWHERE
    return Distance.SAME_HOST if profile.host and profile.host == host else Distance.ELSEWHERE
