"""Events that enter the core beside heartbeats, and effects that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType, TypeAlias

from penstock.files import Order
from penstock.protocol.calls import (
    OpenIterationReply,
    OpenIterationRequest,
    RegisteredDataset,
    Registration,
)
from penstock.protocol.control import (
    ReaderHeartbeat,
    ReaderView,
    SplitRequest,
    WorkerCommand,
    WorkerHeartbeat,
)
from penstock.protocol.definition import SplitProviderSpec
from penstock.protocol.recording import RecordingReply, StartRecordingRequest
from penstock.protocol.splits import FilePattern
from penstock.protocol.types import DatasetId, Failure, IterationId, Versions, WorkerId
from penstock_dispatcher.core.facts import Fact
from penstock_dispatcher.core.listings import ListingOutline

Call = NewType("Call", int)
"""A unary call that waits for its reply, numbered by the service."""

# --- events ---


@dataclass(frozen=True, slots=True)
class StartHistory:
    """The state is empty: begin *history*, a number of its own; later ones are larger."""

    history: int


@dataclass(frozen=True, slots=True)
class RegisterDataset:
    """A client registers a pipeline."""

    call: Call
    versions: Versions
    dataset: DatasetId
    providers: tuple[SplitProviderSpec, ...]
    unsplittable: str
    nondeterministic: str = ""
    """Why a replayed element may differ; nothing if it is the same."""
    outline: str = ""
    """Its operators, in words, for display."""
    python: str = ""
    """The minor version of Python that can load it; nothing if all can."""
    registration: Registration | None = None
    """The id that others shall read it by, if they shall."""
    unordered: str = ""
    """Why its elements cannot be read in one order; nothing if they can."""


@dataclass(frozen=True, slots=True)
class FindDataset:
    """A client looks for the dataset registered under an id."""

    call: Call
    dataset_id: str


@dataclass(frozen=True, slots=True)
class OpenIteration:
    """A client wants to read. *seed* is for a job that does not exist yet.

    *names* are the files of each split provider of files, once they have been listed.
    """

    call: Call
    request: OpenIterationRequest
    seed: int
    names: Mapping[int, tuple[str, ...]] | None = None
    listings: Mapping[int, ListingOutline] = field(default_factory=dict)
    """The outlines of these listings, whose names are stored already."""
    orders: Mapping[int, Mapping[int, Order]] = field(default_factory=dict)
    """Orders of the files, by seed; see `ListSourceFiles`."""
    who: str = ""
    """The identity of the caller."""


@dataclass(frozen=True, slots=True)
class DrainWorker:
    """A client asks a worker to drain."""

    call: Call
    worker: WorkerId


@dataclass(frozen=True, slots=True)
class DrainHost:
    """A host is to be taken away: that of *boot_id*."""

    call: Call
    boot_id: str


@dataclass(frozen=True, slots=True)
class SetWeights:
    """A client asks that the sources of a job's mixture have *weights* from a turn on.

    *at* is that turn; None is the first that no task was granted.
    """

    call: Call
    job: str
    weights: Mapping[str, float]
    at: int | None = None


@dataclass(frozen=True, slots=True)
class StartRecording:
    """A client asks that a worker hosts a save."""

    call: Call
    request: StartRecordingRequest


@dataclass(frozen=True, slots=True)
class FindRecording:
    """A client asks how far a save has come."""

    call: Call
    save_id: str


@dataclass(frozen=True, slots=True)
class CancelRecording:
    """A client asks that a save stops."""

    call: Call
    save_id: str


@dataclass(frozen=True, slots=True)
class WorkerDisconnected:
    """The stream of a worker ended. It may live, but gets nothing new until its next heartbeat."""

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class WorkerDead:
    """No process listens at the address of a disconnected worker: it has ended."""

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class ReaderDisconnected:
    """The stream of a reader ended. Only its lease says when it expires."""

    iteration: IterationId
    session: str


@dataclass(frozen=True, slots=True)
class FilesOrdered:
    """The order is ready that `OrderSourceFiles` asked for."""

    iteration: IterationId
    provider: int
    seed: int
    order: Order


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""


RecordingCall: TypeAlias = StartRecording | FindRecording | CancelRecording

Called: TypeAlias = (
    RegisterDataset
    | FindDataset
    | OpenIteration
    | DrainWorker
    | DrainHost
    | SetWeights
    | RecordingCall
)
"""Events that a caller waits for."""

Event: TypeAlias = (
    StartHistory
    | Called
    | WorkerHeartbeat
    | SplitRequest
    | WorkerDisconnected
    | WorkerDead
    | ReaderHeartbeat
    | ReaderDisconnected
    | FilesOrdered
    | Tick
)

# --- effects ---


@dataclass(frozen=True, slots=True)
class AppendFact:
    """Append a fact to the journal. Effects that follow wait until it is durable."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class SendCommand:
    """Send a command to this incarnation of a worker."""

    worker: WorkerId
    incarnation: int
    command: WorkerCommand


@dataclass(frozen=True, slots=True)
class SendView:
    """Send a view to the session that it names."""

    view: ReaderView


@dataclass(frozen=True, slots=True)
class CloseReaderStream:
    """End a reader's stream with an error."""

    session: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class ReplyToCall:
    """Reply to a call; None only acknowledges it."""

    call: Call
    answer: (
        DatasetId
        | RegisteredDataset
        | OpenIterationReply
        | RecordingReply
        | tuple[WorkerId, ...]
        | int
        | Failure
        | None
    )


@dataclass(frozen=True, slots=True)
class ProbeWorker:
    """Find out whether a process listens at *worker*'s address: if none does, it is `WorkerDead`.

    A refused connection alone is proof; silence is none.
    """

    worker: WorkerId
    incarnation: int


@dataclass(frozen=True, slots=True)
class ListSourceFiles:
    """List the files of split providers, store their names, and send *event* again with them.

    They will be needed in the orders of *seeds*: with a million names that takes seconds.
    """

    event: OpenIteration
    patterns: Mapping[int, FilePattern]
    seeds: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    names: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The files of split providers that are not to be listed again."""


@dataclass(frozen=True, slots=True)
class OrderSourceFiles:
    """Compute the order of *names* that the next pass needs, while this one is read."""

    iteration: IterationId
    provider: int
    names: tuple[str, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class ReportUncaught:
    """Log a warning."""

    line: str


Effect: TypeAlias = (
    AppendFact
    | SendCommand
    | SendView
    | CloseReaderStream
    | ReplyToCall
    | ProbeWorker
    | ListSourceFiles
    | OrderSourceFiles
    | ReportUncaught
)
