"""Messages between a worker and one of its runners.

The runner owns its arena and decides where a frame goes; the worker frees frames. Both sides count
bytes: when the arena is full the runner waits.
"""

from __future__ import annotations

from typing import Union

import msgspec

from penstock.protocol.measures import Measure
from penstock.protocol.splits import Split, SplitLog
from penstock.protocol.types import Checkpoint, Codec, Failure, Mode
from penstock.storage.counts import StorageCounts


class Command(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """From the worker to the runner."""


class LoadDefinition(Command, frozen=True):
    """Load *definition* as *dataset*; it replaces an earlier definition of that name."""

    dataset: str
    definition: bytes


class StartRun(Command, frozen=True):
    """Run *dataset* from *checkpoint*; stop the run before it. *run* names this run in reports.

    With split *logs* the sources draw splits; without logs they read everything. The worker already
    has the elements below *send_from*: the run replays them and does not send them. If a runner has
    died before (*flush_each*), the run sends each element by itself for a while, so that no element
    is lost unsent. With *consumers*, each element is a frame, because consecutive elements go to
    different readers.
    *window* bounds this run's frames, as `SetWindow` explains. Without a window, *room* bounds
    them until `SetRoom` changes it. Without both, the arena's size bounds them. The run may use
    1/*share* of the host's cores and memory. With *skip_errors*, the run leaves out elements that
    fail. With *shards*, it reads part *index* of *shards* parts; *mode* says how to cut them.
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
    """The attempt that the run belongs to, with its worker, pass and task; for logs."""


class AddSplits(Command, frozen=True):
    """Append *splits* to the log of *provider*, at *position*."""

    run: int
    provider: int
    position: int
    splits: tuple[Split, ...]


class FreeFrames(Command, frozen=True):
    """The runner may overwrite the frames at these offsets."""

    run: int
    offsets: tuple[int, ...]


class KeepPlaces(Command, frozen=True):
    """Readers use the frames at these offsets: they no longer count, but stay unchanged."""

    run: int
    offsets: tuple[int, ...]


class ReturnPlaces(Command, frozen=True):
    """No reader uses the kept frames at these offsets any more, whichever run wrote them."""

    offsets: tuple[int, ...]


class SetWindow(Command, frozen=True):
    """All frames of a cached task may take *nbytes*; earlier runs' frames take *elsewhere* of them.

    A frame that is larger than this must be the only one.
    """

    run: int
    nbytes: int
    elsewhere: int


class SetRoom(Command, frozen=True):
    """From now on, frames may take *nbytes*; frames that exist already stay."""

    run: int
    nbytes: int


class SetLink(Command, frozen=True):
    """Frames travel to readers at *speed* bytes per second."""

    run: int
    speed: float


class SetProcesses(Command, frozen=True):
    """The run may call functions in *processes* processes; it starts with one, its own."""

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
"""The messages that a worker sends to a run that has started."""


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
    """When production of its first element began, in seconds since 1970."""
    full: float = 0.0
    """When it had all its elements."""
    placed: float = 0.0
    """When there was room for it."""
    written: float = 0.0
    """When it had been compressed and written to the arena."""


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
    """In *seconds* of running, the run was *held_up* by frames that no reader had taken yet.

    It *starved* while it waited for splits. All three are in seconds. *operators* lists the
    outermost operator first. The run now calls functions in *processes* processes of its own.
    """

    seconds: float
    held_up: float
    starved: float
    operators: tuple[OperatorTime, ...]
    processes: int = 0
    remote: float = 0.0
    """Seconds that it waited for remote files."""
    measures: tuple[Measure, ...] = ()
    """The sums that operators counted since the run began."""


class FilesRead(RunnerReport, frozen=True):
    """The runner's process has *read* so much more of remote files since its last report."""

    read: StorageCounts


class ElementsSkipped(RunnerReport, frozen=True):
    """The pipeline left out *count* more elements on purpose."""

    count: int


class ErrorsCounted(RunnerReport, frozen=True):
    """*count* elements of the task failed and were left out, including those of earlier runs.

    *letter* is the dead letter of the last one, or empty.
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
    """The run produces no more, as requested. Reports of earlier frames precede this one."""


class RunEnded(RunnerReport, frozen=True):
    """The input has ended: *number* is how many elements there are."""

    number: int


class RunFailed(RunnerReport, frozen=True):
    """The engine failed at element *number* and cannot continue."""

    number: int
    failure: Failure


class RoomLacking(RunnerReport, frozen=True):
    """The system lacks a resource that a run needs; *reason* names it. The process ends now."""

    reason: str


class RunStopped(RunnerReport, frozen=True):
    """The run is over, and the arena is no longer read or written by the runner."""


# A decoder must know all kinds.
COMMANDS: type[Command] = Union[tuple(Command.__subclasses__())]  # type: ignore[assignment]  # noqa: UP007
REPORTS: type[RunnerReport] = Union[tuple(RunnerReport.__subclasses__())]  # type: ignore[assignment]  # noqa: UP007
