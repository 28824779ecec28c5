"""What enters the worker's core, and what it wants done: events and effects."""

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
"""One reading stream, numbered by the service; a reader that opens anew gets another."""

# --- events ---


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A reader opened a stream, with what it has unacked. It asks for a first frame."""

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

    Since the last time gRPC took so many bytes, which took so many seconds, if that was measured.
    To a reader that *borrows* frames nothing is sent of them: it looks at where they were made.
    """

    stream: StreamId
    taken: int = 0
    seconds: float = 0.0
    borrows: bool = False


@dataclass(frozen=True, slots=True)
class StreamClosed:
    """A stream is closed. What its reader has unacked stays so till it opens anew or is removed."""

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
    """No runner could be had for *run*: the system has no room for one now, says *reason*."""

    run: int
    reason: str


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The worker is to drain: its tasks go on elsewhere."""


@dataclass(frozen=True, slots=True)
class DispatcherConnected:
    """The stream to the dispatcher is new: requests on the old one may be lost."""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""


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
    """Send the payload of *frame*, under *header*. It is there now, and may not be later."""

    stream: StreamId
    header: FrameHeader
    frame: FrameReady


@dataclass(frozen=True, slots=True)
class SendRecall:
    """Ask a reader for what its loop is not asking for."""

    stream: StreamId
    recall: Recall


@dataclass(frozen=True, slots=True)
class SendAllSent:
    """Tell a reader that there is nothing more for it, behind what was sent on its stream."""

    stream: StreamId
    all_sent: AllSent


@dataclass(frozen=True, slots=True)
class SendEnd:
    """End a stream behind what was sent on it."""

    stream: StreamId
    end: StreamEnd


@dataclass(frozen=True, slots=True)
class AbortStream:
    """Abort a stream: its reader may try again. *reason* says why."""

    stream: StreamId
    reason: str


@dataclass(frozen=True, slots=True)
class HeartbeatDue:
    """Beat now: something changed that the dispatcher waits for, or it is time."""


@dataclass(frozen=True, slots=True)
class DrainStarted:
    """From now on the worker is about to leave."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The worker may end: the dispatcher knows that its tasks are free."""


@dataclass(frozen=True, slots=True)
class LogError:
    """Log *text*: something is wrong that does not end the worker. It is about *task*, if given."""

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
