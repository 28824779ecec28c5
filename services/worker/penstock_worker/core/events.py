"""Events, which enter the worker's core, and effects, which the core wants done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType, TypeAlias

from penstock.protocol.control import Assignment, SplitGrant, SplitRequest, TaskAssignment
from penstock.protocol.data import Ack, AllSent, FrameHeader, Recall, StreamEnd, Subscribe
from penstock_worker.runner.messages import (
    ArenaFull,
    CheckpointTaken,
    CodecChosen,
    ElementsSkipped,
    ErrorsCounted,
    FrameReady,
    RunCommand,
    RunEnded,
    RunFailed,
    RunPaused,
    SetWindow,
    SplitsNeeded,
    TimesMeasured,
)

StreamId = NewType("StreamId", int)
"""The service's number of a reading stream; a reader that opens again gets another number."""

# --- events ---


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A reader opened a stream and listed its unacked elements. It asks for a first frame."""

    stream: StreamId
    request: Subscribe


@dataclass(frozen=True, slots=True)
class StreamAcked:
    """A reader acked elements, or has room for more."""

    stream: StreamId
    ack: Ack


@dataclass(frozen=True, slots=True)
class StreamWritable:
    """A stream has sent its frame, and could send another one.

    If measured, it tells how many bytes gRPC has taken since the last event, in how many seconds.
    A reader that *borrows* frames is sent no payload, because it reads them in the arena.
    """

    stream: StreamId
    taken: int = 0
    seconds: float = 0.0
    borrows: bool = False


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """A stream is closed. Its unacked elements stay until the reader reopens or is removed."""

    stream: StreamId


@dataclass(frozen=True, slots=True)
class NondeterminismFound:
    """The pipeline of *run* may not produce the same element in a replay."""

    run: int


@dataclass(frozen=True, slots=True)
class RunnerLost:
    """The process of *run* ended by itself; *reason* says how."""

    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunnerNotStarted:
    """No runner could start for *run*, for lack of room; *reason* says what is lacking."""

    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The worker must drain: other workers continue its tasks."""


@dataclass(frozen=True, slots=True)
class DispatcherConnected:
    """The stream to the dispatcher is new: requests on the old one may be lost."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Some time has passed."""


RunReport: TypeAlias = (
    NondeterminismFound
    | FrameReady
    | CodecChosen
    | TimesMeasured
    | ElementsSkipped
    | ErrorsCounted
    | CheckpointTaken
    | SplitsNeeded
    | ArenaFull
    | RunPaused
    | RunEnded
    | RunFailed
)
FromRunner: TypeAlias = RunReport | RunnerLost | RunnerNotStarted
FromReader: TypeAlias = StreamOpened | StreamAcked | StreamWritable | StreamClosed
FromDispatcher: TypeAlias = Assignment | SplitGrant | DispatcherConnected
Event: TypeAlias = FromRunner | FromReader | FromDispatcher | DrainRequested | Tick

# --- effects ---


@dataclass(frozen=True, slots=True)
class StartRunner:
    """Have a runner run *assignment* in *delay* seconds; its reports name *run*.

    *send_from*, *flush_each*, *share* and *room* are those of
    `penstock_worker.runner.messages.StartRun`; with a *window* the task is cached.
    """

    run: int
    assignment: TaskAssignment
    send_from: int
    flush_each: bool = False
    delay: float = 0.0
    window: SetWindow | None = None
    share: int = 1
    room: int = 0


@dataclass(frozen=True, slots=True)
class StopRunner:
    """The runner of *run* is free for another. No frame of it is needed."""

    run: int


@dataclass(frozen=True, slots=True)
class RetainFrames:
    """The runner of *run* is dead: of its frames, *frames* are needed until they are freed."""

    run: int
    frames: tuple[FrameReady, ...]


@dataclass(frozen=True, slots=True)
class SendToRunner:
    """Pass *command* to the runner that it names. Of a dead one, retained frames are freed."""

    command: RunCommand


@dataclass(frozen=True, slots=True)
class RequestSplits:
    """Ask the dispatcher for splits."""

    request: SplitRequest


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send the payload of *frame* with *header*, now: the payload may be gone later."""

    stream: StreamId
    header: FrameHeader
    frame: FrameReady


@dataclass(frozen=True, slots=True)
class SendRecall:
    """Ask a reader for elements back that its training loop does not want now."""

    stream: StreamId
    recall: Recall


@dataclass(frozen=True, slots=True)
class SendAllSent:
    """Tell a reader, after everything sent on its stream, that it gets nothing more."""

    stream: StreamId
    all_sent: AllSent


@dataclass(frozen=True, slots=True)
class SendEnd:
    """End a stream after everything that was sent on it."""

    stream: StreamId
    end: StreamEnd


@dataclass(frozen=True, slots=True)
class AbortStream:
    """Abort a stream: its reader may try again. *reason* says why."""

    stream: StreamId
    reason: str


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """Send a heartbeat now: the dispatcher waits for a change, or the interval is over."""


@dataclass(frozen=True, slots=True)
class DrainStarted:
    """The worker has begun to drain."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The worker may end: the dispatcher knows that its tasks are free."""


@dataclass(frozen=True, slots=True)
class LogError:
    """Log *text* about a problem that does not end the worker; it concerns *task*, if given."""

    text: str
    task: int | None = None
    attempt: int | None = None


ControlEffect: TypeAlias = (
    StartRunner
    | StopRunner
    | RetainFrames
    | SendToRunner
    | RequestSplits
    | SendRecall
    | SendAllSent
    | SendEnd
    | AbortStream
    | HeartbeatDue
    | DrainStarted
    | Drained
    | LogError
)
Effect: TypeAlias = SendFrame | ControlEffect
