"""What TensorFlow's own client of tf.data service says, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass

VERSION = 9
"""Of the protocol that TensorFlow's clients speak; they refuse another one."""

UNCOMPRESSED, SNAPPY = 1, 3

LANES = 2
"""How many tasks a client is told of where there is one worker, with a request under way for each.

They are numbered one after another, from a multiple of this on, and give elements of one reader.
With more of them, of one worker or of several, the client is slow to end.
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
    """How is the service deployed?"""


@dataclass(frozen=True, slots=True)
class ServiceConfigReply:
    """As workers of their own."""


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """What is registered under an id?"""

    dataset_id: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """What elements look like, as TensorFlow writes that, and how many there are."""

    element_spec: bytes
    compression: int
    cardinality: int


@dataclass(frozen=True, slots=True)
class MetadataReply:
    """See `Metadata`."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class DisableCompressionRequest:
    """A client that is on a worker's host wants no compression."""

    dataset_id: str


@dataclass(frozen=True, slots=True)
class DisableCompressionReply:
    """There is none, or it stays."""

    compression_disabled_at_runtime: bool | None = None
    no_compression_to_disable: bool | None = None


@dataclass(frozen=True, slots=True)
class ProcessingMode:
    """How elements are divided: 0 OFF, 1 DYNAMIC, 2 FILE, 3 DATA, 4 FILE_OR_DATA, 5 HINT."""

    sharding_policy: int


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Find or make a job; without a name it is this client's own."""

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
    """Where a worker's elements are to be had."""

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
    """All tasks that there are, and whether the pass is over."""

    tasks: tuple[Task, ...]
    finished: bool
    deployment_mode: int = 2
    """Workers of their own."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A client's iterator is gone."""

    client_id: int


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """It is forgotten."""


@dataclass(frozen=True, slots=True)
class RemoveTaskRequest:
    """A consumer cannot read a task."""

    task_id: int
    consumer_index: int
    round: int


@dataclass(frozen=True, slots=True)
class RemoveTaskReply:
    """Whether consumers go on without it."""

    removed: bool


@dataclass(frozen=True, slots=True)
class ElementRequest:
    """The next element of a task is wanted."""

    task_id: int
    consumer_index: int | None = None
    round_index: int | None = None
    allow_skip: bool = False
    trainer_id: str = ""


@dataclass(frozen=True, slots=True)
class FindTaskRequest:
    """A worker asks its dispatcher what a task of TensorFlow's client reads.

    Of coordinated reads it says who asks, for which round as the client counts them, and, once it
    knows, which round that *is*.
    """

    task_id: int
    consumer_index: int | None = None
    round_index: int | None = None
    is_round: int | None = None


@dataclass(frozen=True, slots=True)
class FoundTask:
    """What it reads; *wanted* says whether some client does yet.

    A consumer of coordinated reads goes on with *start_round*; None is where the others are.
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
