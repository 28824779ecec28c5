"""Messages of calls with one request and one reply: to the dispatcher, and to a worker.

The messages of long streams are in `control` and `data`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.protocol.nearness import TargetWorkers
from penstock.protocol.rounds import Remainder
from penstock.protocol.types import Codec, DatasetId, IterationId, Mode, Versions, WorkerId

# --- datasets ---


@dataclass(frozen=True, slots=True)
class Registration:
    """A client's request that others can read its definition by *dataset_id*.

    If *dataset_id* is empty, the id is the definition's fingerprint. *element_spec* comes from
    `penstock.analysis.element_spec.spec_to_bytes`, and is empty if it is not known.
    """

    dataset_id: str
    codec: Codec
    element_spec: bytes = b""


@dataclass(frozen=True, slots=True)
class RegisterDatasetRequest:
    """A pipeline to register, with the versions of its client.

    With a *registration*, others can read it by an id.
    """

    definition: bytes
    versions: Versions
    registration: Registration | None = None


@dataclass(frozen=True, slots=True)
class RegisterDatasetReply:
    """The id of the pipeline: its fingerprint."""

    dataset: DatasetId


@dataclass(frozen=True, slots=True)
class FindDatasetRequest:
    """Asks for the dataset that is registered under an id."""

    dataset_id: str


@dataclass(frozen=True, slots=True)
class RegisteredDataset:
    """The dataset that is registered under *dataset_id*; *dataset* is its fingerprint.

    *definition* has no functions and no large data.
    """

    dataset_id: str
    dataset: DatasetId
    codec: Codec
    element_spec: bytes = b""
    definition: bytes = b""


@dataclass(frozen=True, slots=True)
class GetDefinitionRequest:
    """Asks for a pipeline's definition, in a form that Python *python* (3.x) can load.

    If *python* is empty, any form will do.
    """

    dataset: DatasetId
    python: str = ""


@dataclass(frozen=True, slots=True)
class GetDefinitionReply:
    """A pipeline's definition.

    *seal* proves that the dispatcher received it unchanged. It is empty if the dispatcher has no
    key that workers know.
    """

    definition: bytes
    seal: bytes = b""


# --- passes ---


class OnError(Enum):
    """How a job handles an element that cannot be made."""

    RAISE = "raise"
    """The task ends, and training loops get the error."""
    SKIP = "skip"
    """The task skips and counts the element."""


@dataclass(frozen=True, slots=True)
class JobParameters:
    """The parameters that all readers of a job agree on."""

    dataset: DatasetId
    mode: Mode
    codec: Codec
    num_consumers: int | None = None
    """In coordinated reads: how many consumers there are."""
    shared_cache: bool = False
    """Whether trainers share the elements. The dispatcher sets it if a request has a trainer."""
    target_workers: TargetWorkers = TargetWorkers.AUTO
    ordered: bool = False
    remainder: Remainder = Remainder.DROP
    patience: int | None = None
    when_full: str = ""
    """If trainers share the elements: a value of `penstock.protocol.cache.WhenFull`."""
    dataset_id: str = ""
    """The id by which *dataset* is read; empty for a reader that has the pipeline itself."""
    on_error: OnError = OnError.RAISE
    max_errors: int | None = None
    """How many failing elements a pass may skip; None allows any number."""
    shards: int = 0
    """In static sharding: the number of fixed parts, which the dispatcher sets."""
    stride: int | None = None
    """In ordered reads without rounds: the number of consumers n; each gets every n-th element."""
    seed: int | None = None
    """The seed that readers gave for the job; None lets the dispatcher draw one."""


@dataclass(frozen=True, slots=True)
class OpenIterationRequest:
    """A reader asks for pass *repetition* of the job *job_name*; missing ones are created.

    Without a name, the job is private to this call. An existing job must have been made with
    the same parameters.
    """

    versions: Versions
    parameters: JobParameters
    job_name: str | None
    repetition: int
    trainer: str | None = None
    restore: bytes = b""
    """A job's saved state to continue from: `SaveResult.state` of a save."""
    replaces: tuple[str, ...] = ()
    """Session ids of readers that stop reading and leave when this request succeeds."""


@dataclass(frozen=True, slots=True)
class OpenIterationReply:
    """The iteration to read, and the seconds between its readers' heartbeats.

    *read_before* says, as text, how much readers that have left had read; empty if nothing.
    """

    iteration: IterationId
    job_name: str
    heartbeat_interval: float
    reader_lease: float
    read_before: str = ""


# --- weights of a mixture ---


@dataclass(frozen=True, slots=True)
class SetWeightsRequest:
    """Asks that the sources of a job's mixture have *weights* from turn *at* on.

    Without *at*, they hold from the first turn that no task has.
    """

    job_name: str
    weights: Mapping[str, float]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class SetWeightsReply:
    """The turn from which the weights hold."""

    begin: int


# --- workers that stop ---


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Asks that *worker* is drained."""

    worker: WorkerId


@dataclass(frozen=True, slots=True)
class DrainReply:
    """The worker has been told."""


@dataclass(frozen=True, slots=True)
class DrainHostRequest:
    """Asks that the workers of the host with this *boot_id* are drained, if others exist."""

    boot_id: str


@dataclass(frozen=True, slots=True)
class DrainHostReply:
    """The workers that have been told."""

    workers: tuple[WorkerId, ...] = ()


# --- trainers that stop ---


@dataclass(frozen=True, slots=True)
class PreemptionReport:
    """A trainer's report: how many *steps* it has made, and its *rate* in steps per second.

    *noticed* says that its machine will be taken away, *saved* that it has saved at the agreed
    step, and *leaving* that it ends. It makes no step beyond *allowed* until the next verdict,
    unless it is *alone*: the dispatcher has not answered for long, so the trainer continues
    without permission.
    """

    group: str
    trainer: str
    steps: int
    rate: float = 0.0
    noticed: bool = False
    saved: bool = False
    leaving: bool = False
    allowed: int = 0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class PreemptionVerdict:
    """The dispatcher's answer to a trainer, which may make steps up to *allowed*.

    After a notice, *agreed* is the step to stop at, or 0 until that is decided. *all_saved* says
    that no trainer has to wait for another.
    """

    allowed: int
    noticed: bool = False
    agreed: int = 0
    all_saved: bool = False


# --- observation ---


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Asks a dispatcher or a worker for its counters."""


@dataclass(frozen=True, slots=True)
class StatusReply:
    """A service's counters, as JSON."""

    stats: bytes


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """Asks a worker for the events of frames from number *after* on, and to record more.

    If *after* is below 0, the worker starts with the next event.
    """

    after: int


@dataclass(frozen=True, slots=True)
class TraceReply:
    """Events as MessagePack (`penstock.protocol.data.decode_events`).

    The next request asks for events after number *next*. *missed* events before these were dropped.
    """

    events: bytes
    next: int
    missed: int
