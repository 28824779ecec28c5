"""Messages between a worker and one of its runners.

The runner owns its arena and decides where a frame goes; the worker frees frames. Both sides count
bytes: when the arena is full the runner waits.
"""

from __future__ import annotations

import msgspec

from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import Checkpoint, Codec, Failure, Mode


class Command(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the worker to the runner."""


class LoadDefinition(Command, frozen=True):
    """Load *definition*, and keep it under *dataset* instead of what was loaded before."""

    dataset: str
    definition: bytes


class StartRun(Command, frozen=True):
    """Run *dataset* from *state* on; stop what ran before. *run* names this run in reports.

    With split *logs* the sources draw splits; without any they read everything. Elements below
    *send_from* are there already: they are replayed, and not sent. Where a runner has died before
    (*flush_each*) each element is sent by itself for a while, so that none is lost unsent. With
    *consumers* each element is a frame: they go to different readers.
    With a *window* this run's frames are bounded as `SetWindow` says, else with a *room* by that,
    until `SetRoom` says otherwise, else as the arena is. One in *share* parts of the host's cores
    and memory is for it. With *skip_errors* elements that cannot be made are left out. With
    *shards* this is the part of number *index* among so many, which *mode* cuts.
    """

    run: int
    dataset: str
    index: int
    seed: int
    codec: Codec
    checkpoint: Checkpoint
    logs: tuple[SplitLog, ...]
    send_from: int = 0
    flush_each: bool = False
    consumers: int = 0
    window: int = 0
    elsewhere: int = 0
    skip_errors: bool = False
    mode: Mode = Mode.OFF
    shards: int = 0
    share: int = 1
    room: int = 0
    worker: str = ""
    iteration: int = 0
    task: int = 0
    attempt: int = 0
    """Whose run this is, for logs."""


class AddSplits(Command, frozen=True):
    """The log of *provider* goes on with *splits* from *position* on."""

    run: int
    provider: int
    position: int
    splits: tuple[Split, ...]


class FreeFrames(Command, frozen=True):
    """The places at these offsets may be written again."""

    run: int
    offsets: tuple[int, ...]


class KeepPlaces(Command, frozen=True):
    """Readers look at the places at these offsets: they count no more, and are not written yet."""

    run: int
    offsets: tuple[int, ...]


class ReturnPlaces(Command, frozen=True):
    """No reader looks at the places at these offsets any more, which were kept, of whatever run."""

    offsets: tuple[int, ...]


class SetWindow(Command, frozen=True):
    """All frames of a cached task may take *nbytes*; those of runs before take *elsewhere* of them.

    A frame that is larger stands alone.
    """

    run: int
    nbytes: int
    elsewhere: int


class SetRoom(Command, frozen=True):
    """Frames may take *nbytes*, from now on; what is there already stays."""

    run: int
    nbytes: int


class SetLink(Command, frozen=True):
    """Frames travel to readers with so many bytes a second."""

    run: int
    speed: float


class SetProcesses(Command, frozen=True):
    """Functions may be called in so many processes, together: at first in one, this one."""

    run: int
    processes: int


class Flush(Command, frozen=True):
    """A reader has credit and nothing to read: send what you have, full or not."""

    run: int


class PauseRun(Command, frozen=True):
    """Send what you have, then a checkpoint, and produce no more."""

    run: int


class StopRun(Command, frozen=True):
    """End the run; stay idle for another."""

    run: int


RunCommand = (
    AddSplits
    | FreeFrames
    | KeepPlaces
    | SetWindow
    | SetRoom
    | SetLink
    | SetProcesses
    | Flush
    | PauseRun
)
"""What is sent to a run under way."""


class RunnerReport(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the runner to the worker, about one run."""

    run: int


class FrameReady(RunnerReport, frozen=True):
    """Elements *first* to *first + count* lie in *nbytes* at *offset* of the arena."""

    first: int
    count: int
    offset: int
    nbytes: int
    layout: bytes
    codec: Codec
    raw_nbytes: int
    began: float = 0.0
    """When its first element began to be made, in seconds since 1970."""
    full: float = 0.0
    """When it had all its elements."""
    placed: float = 0.0
    """When there was room for it."""
    written: float = 0.0
    """When it was written there, and compressed."""


class CodecChosen(RunnerReport, frozen=True):
    """From now on AUTO means this codec, and *choice* says in words why."""

    choice: str


class OperatorTime(msgspec.Struct, frozen=True, array_like=True):
    """An operator by its path and *label*; see `penstock.engine.op_times.OpTimeNow`."""

    path: str
    label: str
    elements: int
    worked: float
    waited: float
    call: float = 0.0
    cpu: float | None = None


class TimesMeasured(RunnerReport, frozen=True):
    """Of so many *seconds* the run was *held_up* by frames that nobody took yet.

    It *starved* some, for want of splits. *operators* come from the outermost one down. Functions
    are called in so many *processes* of its own now.
    """

    seconds: float
    held_up: float
    starved: float
    operators: tuple[OperatorTime, ...]
    processes: int = 0


class ElementsSkipped(RunnerReport, frozen=True):
    """The pipeline left out *count* more elements on purpose."""

    count: int


class ErrorsCounted(RunnerReport, frozen=True):
    """So many elements of the task could not be made and were left out, of earlier runs, too.

    *letter* is the dead letter of the last of them, or empty.
    """

    count: int
    letter: str = ""


class CheckpointTaken(RunnerReport, frozen=True):
    """An engine state: the engine just before element `state.number`."""

    checkpoint: Checkpoint


class SplitsNeeded(RunnerReport, frozen=True):
    """The engine needs the split at *position* of the log of *provider* (soon, or now)."""

    provider: int
    position: int


class ArenaFull(RunnerReport, frozen=True):
    """The arena has no room for the next frame: frames must be freed first."""


class RunPaused(RunnerReport, frozen=True):
    """No more is produced, as requested. What was produced lies before this."""


class RunEnded(RunnerReport, frozen=True):
    """The input has ended: *number* is how many elements there are."""

    number: int


class RunFailed(RunnerReport, frozen=True):
    """The engine cannot go on behind element *number*."""

    number: int
    failure: Failure


class RoomLacking(RunnerReport, frozen=True):
    """The system has no room for what a run needs, says *reason*; the process ends now."""

    reason: str


class RunStopped(RunnerReport, frozen=True):
    """The run is over, and the arena is no longer read or written by the runner."""
