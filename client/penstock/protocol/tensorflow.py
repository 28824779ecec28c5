"""Requests of TensorFlow's own client of tf.data service, and the replies to them."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 9
"""The version of the protocol of TensorFlow's clients; they refuse any other version."""

UNCOMPRESSED, SNAPPY = 1, 3

LANES = 2
"""How many tasks a client sees for a single worker; it has one open request for each.

These tasks have consecutive numbers, from a multiple of this on, and return elements of one reader.
With more tasks, of one worker or of several, the client is slow to end.
"""

END_OF_SEQUENCE = b"\x10\x01"
"""A reply without an element: ``end_of_sequence = 2`` is true."""

UNKNOWN_CARDINALITY, INFINITE_CARDINALITY = -2, -1


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """The first call on each connection."""


@dataclass(frozen=True, slots=True)
class VersionReply:
    """The version of the protocol."""

    version: int = VERSION


@dataclass(frozen=True, slots=True)
class ServiceConfigRequest:
    """Asks how the service is deployed."""


@dataclass(frozen=True, slots=True)
class ServiceConfigReply:
    """The service has workers in processes of their own."""


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """Asks for the dataset that is registered under an id."""

    dataset_id: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """The structure of elements, in TensorFlow's encoding, and their number."""

    element_spec: bytes
    compression: int
    cardinality: int


@dataclass(frozen=True, slots=True)
class MetadataReply:
    """See `Metadata`."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class DisableCompressionRequest:
    """A client on a worker's host asks for uncompressed elements."""

    dataset_id: str


@dataclass(frozen=True, slots=True)
class DisableCompressionReply:
    """There is no compression, or it stays on."""

    compression_disabled_at_runtime: bool | None = None
    no_compression_to_disable: bool | None = None


@dataclass(frozen=True, slots=True)
class ProcessingMode:
    """How elements are divided: 0 OFF, 1 DYNAMIC, 2 FILE, 3 DATA, 4 FILE_OR_DATA, 5 HINT."""

    sharding_policy: int


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Find or make a job; without a name, the job is private to this client."""

    dataset_id: str
    processing_mode: ProcessingMode
    job_name: str | None
    num_consumers: int | None
    cached: bool
    target_workers: int


@dataclass(frozen=True, slots=True)
class JobReply:
    """A job's number."""

    job_id: int


@dataclass(frozen=True, slots=True)
class IterationRequest:
    """Find or make a pass of a job: the first repetition is 1."""

    job_id: int
    repetition: int


@dataclass(frozen=True, slots=True)
class IterationReply:
    """The number of a client of a pass."""

    client_id: int


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A client asks which tasks there are, about once a second."""

    client_id: int
    current_round: int | None = None


@dataclass(frozen=True, slots=True)
class TransferServer:
    """The protocol and address at which a worker sends elements."""

    protocol: str
    address: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task, as a client sees it: a worker that it takes elements from."""

    worker_address: str
    task_id: int
    iteration_id: int
    worker_tags: tuple[str, ...] = ()
    worker_uid: int = 0
    transfer_servers: tuple[TransferServer, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """All current tasks, and whether the pass has ended."""

    tasks: tuple[Task, ...]
    finished: bool
    deployment_mode: int = 2
    """2 means workers in processes of their own."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A client's iterator has ended."""

    client_id: int


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """The dispatcher has forgotten the client."""


@dataclass(frozen=True, slots=True)
class RemoveTaskRequest:
    """A consumer cannot read a task."""

    task_id: int
    consumer_index: int
    round: int


@dataclass(frozen=True, slots=True)
class RemoveTaskReply:
    """Whether consumers continue without the task."""

    removed: bool


@dataclass(frozen=True, slots=True)
class ElementRequest:
    """A client asks for the next element of a task."""

    task_id: int
    consumer_index: int | None = None
    round_index: int | None = None
    allow_skip: bool = False
    trainer_id: str = ""


@dataclass(frozen=True, slots=True)
class FindTaskRequest:
    """A worker asks its dispatcher which dataset a task of TensorFlow's client reads.

    In coordinated reads, the request names the consumer and the round by the client's count. Once
    the worker knows the actual round, it adds that as *is_round*.
    """

    task_id: int
    consumer_index: int | None = None
    round_index: int | None = None
    is_round: int | None = None


@dataclass(frozen=True, slots=True)
class FoundTask:
    """The dataset and job that a task reads; *wanted* says whether a client still reads it.

    A consumer in coordinated reads continues with *start_round*; None is the others' round.
    """

    dataset_id: str
    sharding_policy: int
    job_name: str
    repetition: int
    num_consumers: int
    cached: bool
    wanted: bool
    start_round: int | None = None
    snappy: bool = False
    """Whether its clients expect compressed elements."""
    opened: bool = False
    """Whether the dataset may be read without credentials."""
